"""What the shared options chose: whom to ask, and which ranks."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from cli.sources.job_source import JobSource
    from cli.sources.remote import Remote
    from cli.sources.ssh import Ssh
    from cli.sources.ssh_command import Way
    from shared.server.tls import TlsFiles


def hosts_and_way() -> "tuple[tuple[str, ...], Way, str | None] | None":
    """Return the hosts that `--ssh` names, how they are reached, and which job `--slurm` means; None without it.

    Raises UsageError.
    """
    meta = click.get_current_context().meta
    hosts, job_id = meta.get("--hosts"), meta.get("--slurm")
    if not meta.get("--ssh"):
        if hosts is not None or job_id is not None:
            raise click.UsageError("--hosts and --slurm need ssh: add --ssh")
        return None
    if (hosts is None) == (job_id is None):
        raise click.UsageError("--ssh needs one of --hosts and --slurm")
    from cli.sources.hostfile import read_hosts
    from cli.sources.slurm import SlurmJob, find_slurm_job
    from cli.sources.ssh_command import Way, read_client, read_program
    from collector.hostlists import parse_host_names

    file = meta["--with-zipapp"]
    program = None if file is None else read_program(file)
    way = Way(read_client(meta["--ssh-command"]), meta["--ssh-option"], meta["--remote-command"], program)
    meant = SlurmJob(read_hosts(str(hosts)), None) if job_id is None else find_slurm_job(job_id)
    names = parse_host_names(meant.hosts)
    if not names:
        raise click.UsageError("--hosts names no host")
    return tuple(names), way, meant.name


def hosts_over_ssh() -> "Ssh | None":
    """Return the hosts that `--ssh` is to look at; None without it. Raises UsageError."""
    found = hosts_and_way()
    if found is None:
        return None
    from cli.sources.ssh import Ssh

    names, way, job = found
    return Ssh(names, way, most_at_once=click.get_current_context().meta["--fanout"], job=job)


def choose_source() -> "JobSource":
    """Return what to ask. Raises UsageError where two are named."""
    context = click.get_current_context()
    directory = context.meta["--from"]
    asks_collector = context.get_parameter_source("collector") is ParameterSource.COMMANDLINE
    over_ssh = hosts_over_ssh()
    if over_ssh is not None:
        if directory is not None or asks_collector:
            raise click.UsageError("--ssh, --from and --collector cannot be combined")
        return over_ssh
    if directory is not None:
        if asks_collector:
            raise click.UsageError("--from and --collector cannot be combined")
        from cli.sources.files import Files

        return Files(directory)
    if named_collector() is not None:
        return choose_collector()
    from cli.sources.one_box import OneBox

    return OneBox()


def named_collector() -> str | None:
    """Return the URL of the collector that was named."""
    url: str | None = click.get_current_context().meta["--collector"]
    return url


def choose_collector() -> "Remote":
    """Return the collector that was named. Raises UsageError where none was."""
    url = named_collector()
    if url is None:
        raise click.UsageError("name a collector with --collector URL")
    return collector_at(url, click.get_current_context().meta["--token-file"])


def collector_at(url: str, token_file: Path | None) -> "Remote":
    """Return the collector there, over TLS as its options say."""
    from cli.sources.remote import Remote

    return Remote.at(url, token_file, tls_files())


def tls_files() -> "TlsFiles":
    """Return the files named for a connection to the collector."""
    from shared.server.tls import TlsFiles

    meta = click.get_current_context().meta
    return TlsFiles(meta["--cert"], meta["--key"], meta["--cacert"])


_SOURCE_WORDS = (
    "--from",
    "--collector",
    "--token-file",
    "--ssh",
    "--hosts",
    "--slurm",
    "--fanout",
    "--ssh-command",
    "--ssh-option",
    "--remote-command",
    "--with-zipapp",
)


def source_words() -> tuple[str, ...]:
    """Return the options that said on the command line whom to ask, for the next commands about the same job.

    What the environment says it says to those as well.
    """
    context, words = click.get_current_context(), []
    for name in _SOURCE_WORDS:
        parameter = name.removeprefix("--").replace("-", "_")
        if context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            value = context.meta[name]
            values = value if isinstance(value, tuple) else (value,)
            words += [name] if value is True else [word for one in values for word in (name, str(one))]
    return tuple(words)


def read_ranks(text: str | None) -> frozenset[int] | None:
    """Return the ranks of `--rank`, None for all. Raises BadParameter."""
    if text is None:
        return None
    from shared.errors import InvalidRankSet
    from shared.rank_sets import unfold

    try:
        return frozenset(unfold(text))
    except InvalidRankSet as error:
        raise click.BadParameter(f"{error}; {error.advice}", param_hint="--rank") from error
