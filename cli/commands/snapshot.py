"""`unhang snapshot`: one node's ranks as files, to be judged later or elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import verbose_option

if TYPE_CHECKING:
    from cli.snapshot_files import StackChoice


@click.command(
    short_help="Keep one machine's ranks as files, for --from.",
    epilog="""\b
Examples:
  unhang snapshot -o incident/
  srun --jobid 4242 --overlap -w 'node[1-9]' --ntasks-per-node 1 unhang snapshot -o /shared/incident --allow-empty
  unhang diagnose --from /shared/incident""",
)
@click.option("--job", metavar="JOB", help="Only the ranks of this job.")
@click.option(
    "-o",
    "--output",
    "directory",
    metavar="DIR",
    default=".",
    show_default=True,
    help="Where to put the files; - for JSON lines on stdout.",
)
@click.option(
    "--stacks",
    type=click.Choice(["suspects", "plain", "native", "none"]),
    default="suspects",
    show_default=True,
    help="plain stops no rank, native stops it for about a second; suspects is plain, and native once for the "
    "few whose plain stacks do not show what they wait for.",
)
@click.option(
    "--pid", "pids", type=click.IntRange(1), metavar="N", multiple=True, help="Only this process; repeatable."
)
@click.option("--looks", type=click.IntRange(1, 100), default=2, show_default=True, help="Looks; two show what moves.")
@click.option("--interval", type=click.FloatRange(0, 600), default=6.0, show_default=True, help="Seconds between.")
@click.option("--ras", is_flag=True, help="Also ask NCCL RAS about the whole job; on one node of a job, not on all.")
@click.option("--allow-empty", is_flag=True, help="Also keep a look that finds no rank, and do not fail.")
@click.option("--end-with-stdin", is_flag=True, help="Exit when standard input closes, as when the ssh above is gone.")
@verbose_option
def snapshot(
    job: str | None,
    directory: str,
    stacks: "StackChoice",
    pids: tuple[int, ...],
    looks: int,
    interval: float,
    ras: bool,
    allow_empty: bool,
    end_with_stdin: bool,
    verbose: bool,
) -> None:
    """Look twice at the ranks on this machine and keep what was seen, one file per look.

    Prints the path of each file. Run it on every node of a job, then judge the directory with diagnose --from.
    """
    if end_with_stdin:
        from cli.remote_liveness import end_with_standard_input

        end_with_standard_input()
    from cli.snapshot_files import Looks, take_snapshots

    wanted = Looks(job, stacks, looks, interval, pids=pids, ras=ras, allow_empty=allow_empty)
    take_snapshots(wanted, None if directory == "-" else Path(directory), verbose=verbose)
