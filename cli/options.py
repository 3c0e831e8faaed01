"""Options that several commands share, and the source that they choose."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from cli.sources.source import Source

F = TypeVar("F", bound=Callable[..., Any])

Decorator = Callable[[F], F]

job_argument = click.argument("job", required=False)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")

verbose_option = click.option("-v", "--verbose", is_flag=True, help="Say on stderr how far it is.")

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
    for option in (
        _tls_option("--key", "UNHANG_KEY", "Its private key, unless it is in the same file."),
        _tls_option("--cert", "UNHANG_CERT", "Certificate to show to the collector."),
        _tls_option("--cacert", "UNHANG_CACERT", "CA certificates to believe of the collector."),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path, dir_okay=False),
            envvar="UNHANG_TOKEN_FILE",
            help="File with the collector's bearer token. [env: UNHANG_TOKEN_FILE]",
        ),
        click.option(
            "--from",
            "directory",
            metavar="DIR",
            type=click.Path(path_type=Path),
            help="Read snapshots, flight-recorder and stack dumps, logs or a bundle from here.",
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


def choose_source(collector: str | None, directory: Path | None, token_file: Path | None) -> "Source":
    """Return what to ask. Raises UsageError where two are named."""
    if directory is not None:
        said = click.get_current_context().get_parameter_source("collector")
        if collector is not None and said is ParameterSource.COMMANDLINE:
            raise click.UsageError("--from and --collector exclude each other")
        from cli.sources.files import Files

        return Files(directory)
    if collector is not None:
        from cli.sources.remote import Remote
        from shared.tls import TlsFiles

        meta = click.get_current_context().meta
        return Remote.at(collector, token_file, TlsFiles(meta["--cert"], meta["--key"], meta["--cacert"]))
    from cli.sources.one_box import OneBox

    return OneBox()


def read_ranks(text: str | None) -> frozenset[int] | None:
    """Return the ranks of `--rank`, None for all. Raises BadParameter."""
    if text is None:
        return None
    from shared.errors import InvalidRankSet
    from shared.ranks import unfold

    try:
        return frozenset(unfold(text))
    except InvalidRankSet as error:
        raise click.BadParameter(f"{error}; {error.advice}", param_hint="--rank") from error
