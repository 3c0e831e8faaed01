"""`unhang snapshot`: one node's ranks as files, to be judged later or elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

from cli.command_table import command

if TYPE_CHECKING:
    from cli.snapshot_files import StackChoice


@command("snapshot")
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
