"""`unhang look`: one rank, closely: a debugger's backtrace, or its system calls for some seconds."""

import click

from cli.options import choose_source, job_argument, json_option, source_options
from cli.terminal import emit, emit_json, note


@click.command(
    short_help="Look at one rank with gdb, pystack or strace.",
    epilog="""\b
Examples:
  unhang look --rank 3                         all its threads, by gdb
  unhang look JOB --rank 3 --with pystack      Python and C frames of Python's threads
  unhang look JOB --rank 3 --with syscalls --seconds 5
  unhang look JOB --rank 3 --child 4242        a DataLoader worker; `unhang stacks` lists them

Status: 0, or 1 if the look was not possible; 2 usage.""",
)
@job_argument
@source_options
@json_option
@click.option("--rank", type=click.IntRange(0), required=True, help="The global rank to look at.")
@click.option("--child", type=click.IntRange(1), metavar="PID", help="This child process of the rank instead.")
@click.option(
    "--with",
    "how",
    type=click.Choice(["gdb", "pystack", "syscalls"]),
    default="gdb",
    show_default=True,
    help="gdb: all threads' native frames; pystack: Python's threads; syscalls: its system calls (strace).",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 20),
    default=3.0,
    show_default=True,
    help="How long to follow system calls.",
)
@click.pass_context
def look(
    context: click.Context,
    job: str | None,
    as_json: bool,
    rank: int,
    child: int | None,
    how: str,
    seconds: float,
) -> None:
    """Look closely at one rank of JOB, or at a process that it has started.

    gdb and pystack stop the rank while they look, gdb for seconds; strace slows it down. A rank that is blocked in
    the kernel, stopped or traced is left alone. Agents do this for a collector only with the setting debuggers.
    """
    source = choose_source()
    from cli.errors import named_job_needed
    from cli.sources.job_source import DeepChoice
    from shared.wire.debug_output import How

    with named_job_needed(job):
        taken = source.look_closely(DeepChoice(job, rank, How(how), seconds, child))
    if as_json:
        emit_json(taken)
    else:
        from cli.tables.deep_looks import deep_table

        emit(deep_table(taken))
    if taken.missing is not None:
        if not as_json:
            note(f"{taken.missing.source} {taken.missing.reason}: {taken.missing.detail}")
        context.exit(1)
