"""`unhang look`: one rank, closely: a debugger's backtrace, or its system calls for some seconds."""

import click

from cli.command_table import command
from cli.options import choose_source
from cli.terminal import answer, note


@command("look")
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
    from cli.tables.deep_looks import deep_table
    from shared.wire.debug_output import How

    with named_job_needed(job):
        taken = source.look_closely(DeepChoice(job, rank, How(how), seconds, child))
    answer(taken, as_json, deep_table)
    if taken.missing is not None:
        if not as_json:
            note(f"{taken.missing.source} {taken.missing.reason}: {taken.missing.detail}")
        context.exit(1)
