"""`unhang snapshot`: one node's ranks as files, to be judged later or elsewhere."""

from pathlib import Path

import click

from cli.options import verbose_option


@click.command(
    short_help="Keep one machine's ranks as files, for --from.",
    epilog="""\b
Examples:
  unhang snapshot -o incident/ --looks 2 --interval 5
  srun --jobid 4242 --overlap --ntasks-per-node 1 unhang snapshot -o /shared/incident
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
    type=click.Choice(["plain", "native", "none"]),
    default="plain",
    show_default=True,
    help="plain stops a rank for about 10 ms, native for about a second.",
)
@click.option("--looks", type=click.IntRange(1, 100), default=1, show_default=True, help="Looks; two tell what moves.")
@click.option("--interval", type=click.FloatRange(0, 600), default=3.0, show_default=True, help="Seconds between.")
@click.option("--ras", is_flag=True, help="Ask NCCL RAS about the whole job, too; on one node of a job, not on all.")
@verbose_option
def snapshot(
    job: str | None, directory: str, stacks: str, looks: int, interval: float, ras: bool, verbose: bool
) -> None:
    """Look at the ranks on this machine and keep what was seen, one file per look.

    Prints the path of each file. Run it on every node of a job, then judge the directory with diagnose --from.
    """
    from cli.snapshots import Looks, take_snapshots

    wanted = Looks(job=job, stacks=stacks, count=looks, interval_seconds=interval, ras=ras)
    take_snapshots(wanted, None if directory == "-" else Path(directory), verbose=verbose)
