"""Options that several commands share, and the source that they choose."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from cli.sources.job_source import JobSource
    from cli.sources.remote import Remote
    from cli.sources.ssh import Ssh
    from cli.sources.ssh_command import Way
    from shared.server.tls import TlsFiles

F = TypeVar("F", bound=Callable[..., Any])

Decorator = Callable[[F], F]

job_argument = click.argument("job", required=False)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")

verbose_option = click.option("-v", "--verbose", is_flag=True, help="Show progress on stderr.")

colour_option = click.option(
    "--color",
    "--colour",
    "colour",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the text; auto: on a terminal, unless NO_COLOR is set.",
)


def rank_option(command: F) -> F:
    """Add `--rank SET`."""
    return click.option("--rank", "ranks", metavar="SET", help="Only these ranks, e.g. 0-3,7.")(command)


def source_options(command: F) -> F:
    """Add the options that say where to look: this machine by default, a collector, or files."""
    files = click.option(
        "--from",
        "directory",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Read snapshots, flight-recorder and stack dumps, logs or a bundle from here.",
    )
    return collector_options(files(command))


def collector_options(command: F) -> F:
    """Add the options that say which collector to ask, if any."""
    command = collector_tls_options(command)
    for option in (
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="UNHANG_TOKEN_FILE",
            help="File with the collector's bearer token. [env: UNHANG_TOKEN_FILE]",
        ),
        click.option(
            "--collector",
            metavar="URL",
            envvar="UNHANG_COLLECTOR",
            help="Ask the collector there, e.g. http://head:8470. [env: UNHANG_COLLECTOR]",
        ),
    ):
        command = option(command)
    return command


def collector_tls_options(command: F) -> F:
    """Add the files for a connection to the collector."""
    for option in (
        _tls_option("--key", "UNHANG_KEY", "Its private key, unless it is in the same file."),
        _tls_option("--cert", "UNHANG_CERT", "Certificate to present to the collector."),
        _tls_option("--cacert", "UNHANG_CACERT", "CA certificates to trust for the collector."),
    ):
        command = option(command)
    return command


def _tls_option(name: str, variable: str, text: str) -> Callable[[F], F]:
    """Return an option for a PEM file, named as curl names it; its value waits in the context for the source."""

    def keep(context: click.Context, _: click.Parameter, path: Path | None) -> None:
        context.meta[name] = path

    return click.option(
        name,
        type=click.Path(path_type=Path, dir_okay=False),
        envvar=variable,
        expose_value=False,
        callback=keep,
        help=f"{text} [env: {variable}]",
    )


def ssh_options(command: F) -> F:
    """Add the options that look at hosts over ssh; their values wait in the context for the source."""
    for name, details in reversed(_SSH_OPTIONS):
        command = click.option(name, expose_value=False, callback=_keep(name), **details)(command)
    return command


_FILE = click.Path(path_type=Path, dir_okay=False)
_SSH_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--ssh", {"is_flag": True, "help": "Look at hosts over your own ssh and its configuration; needs no agent."}),
    ("--hosts", {"metavar": "LIST", "help": "With --ssh: the hosts, e.g. 'node[01-64],gpu7'."}),
    ("--slurm", {"metavar": "JOBID", "help": "With --ssh: the hosts of this Slurm job, by squeue."}),
    (
        "--fanout",
        {
            "type": click.IntRange(1, 1024),
            "default": 64,
            "show_default": True,
            "help": "Hosts to visit at the same time.",
        },
    ),
    ("--ssh-command", {"metavar": "CMD", "default": "ssh", "show_default": True, "help": "The ssh client."}),
    ("--ssh-option", {"metavar": "OPT", "multiple": True, "help": "For its -o, e.g. User=alice; may be repeated."}),
    (
        "--remote-command",
        {"metavar": "CMD", "help": "How unhang, or Python with --with-zipapp, is called there. [default: unhang]"},
    ),
    ("--with-zipapp", {"type": _FILE, "metavar": "FILE", "help": "Copy unhang.pyz there; needs Python there."}),
)


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        context.meta[name] = value

    return keep


def hosts_and_way() -> "tuple[tuple[str, ...], Way] | None":
    """Return the hosts that `--ssh` names, and how they are reached; None without it. Raises UsageError."""
    meta = click.get_current_context().meta
    hosts, job_id = meta.get("--hosts"), meta.get("--slurm")
    if not meta.get("--ssh"):
        if hosts is not None or job_id is not None:
            raise click.UsageError("--hosts and --slurm need ssh: add --ssh")
        return None
    if (hosts is None) == (job_id is None):
        raise click.UsageError("--ssh needs one of --hosts and --slurm")
    from cli.sources.slurm import hosts_of_slurm_job
    from cli.sources.ssh_command import Way, read_client, read_program
    from collector.hostlists import parse_host_names

    file = meta["--with-zipapp"]
    program = None if file is None else read_program(file)
    way = Way(read_client(meta["--ssh-command"]), meta["--ssh-option"], meta["--remote-command"], program)
    names = parse_host_names(str(hosts) if job_id is None else hosts_of_slurm_job(job_id))
    if not names:
        raise click.UsageError("--hosts names no host")
    return tuple(names), way


def hosts_over_ssh() -> "Ssh | None":
    """Return the hosts that `--ssh` is to look at; None without it. Raises UsageError."""
    found = hosts_and_way()
    if found is None:
        return None
    from cli.sources.ssh import Ssh

    names, way = found
    return Ssh(names, way, most_at_once=click.get_current_context().meta["--fanout"])


def choose_source(collector: str | None, directory: Path | None, token_file: Path | None) -> "JobSource":
    """Return what to ask. Raises UsageError where two are named."""
    over_ssh = hosts_over_ssh()
    if over_ssh is not None:
        said = click.get_current_context().get_parameter_source("collector")
        if directory is not None or said is ParameterSource.COMMANDLINE:
            raise click.UsageError("--ssh, --from and --collector cannot be combined")
        return over_ssh
    if directory is not None:
        said = click.get_current_context().get_parameter_source("collector")
        if collector is not None and said is ParameterSource.COMMANDLINE:
            raise click.UsageError("--from and --collector cannot be combined")
        from cli.sources.files import Files

        return Files(directory)
    if collector is not None:
        return choose_collector(collector, token_file)
    from cli.sources.one_box import OneBox

    return OneBox()


def choose_collector(collector: str | None, token_file: Path | None) -> "Remote":
    """Return the collector that was named. Raises UsageError where none was."""
    if collector is None:
        raise click.UsageError("name a collector with --collector URL")
    from cli.sources.remote import Remote

    return Remote.at(collector, token_file, tls_files())


def tls_files() -> "TlsFiles":
    """Return the files named for a connection to the collector."""
    from shared.server.tls import TlsFiles

    meta = click.get_current_context().meta
    return TlsFiles(meta["--cert"], meta["--key"], meta["--cacert"])


_SOURCE_WORDS = ("--from", "--collector", "--token-file", *(name for name, _ in _SSH_OPTIONS))
_PARAMETERS = {"--from": "directory"}
"""Parameters that are not called as their option is."""


def source_words() -> tuple[str, ...]:
    """Return the options that said on the command line whom to ask, for the next commands about the same job.

    What the environment says it says to those as well.
    """
    context, words = click.get_current_context(), []
    for name in _SOURCE_WORDS:
        parameter = _PARAMETERS.get(name, name.removeprefix("--").replace("-", "_"))
        if context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            value = context.meta.get(name, context.params.get(parameter))
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
