"""Stacks of ranks at the same place are one branch, whatever addresses their processes have."""

from collector.align.accounting import account_for_ranks
from collector.align.expected import Expected
from collector.align.stacks.stack_classes import tree_of
from shared.wire.stacks import Frame
from tests.build.jobs.simulated import WORLD, Collective, Job, Seen, Step, live_looks

MAIN = Frame("main", "/srv/job.py", 23)
EXECUTE = Frame("xla::cpu::GlooCommunicator::AllReduce", "jaxlib/libjax_common.so", 0, native=True)


def stack(address: int) -> tuple[Frame, ...]:
    """As py-spy unwinds it: what was compiled at run time lies in no file, and the C library may have no symbols."""
    lost = Frame(f"{address:#x}", "?", 0)
    return (MAIN, *[lost] * (address % 3), EXECUTE, Frame(f"{address + 64:#x}", "/usr/lib/libc.so.6", 0, native=True))


def test_native_frames_merge_over_ranks_in_spite_of_their_addresses() -> None:
    """What lies in no file is left out; of what lies in one the file is told."""
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD)] for rank in range(3)}
    looks = live_looks(Job(steps), {rank: Seen(stack(0x7FFC24038030 + rank)) for rank in range(3)})
    branch = tree_of(account_for_ranks(looks, Expected(job="sim")))
    told = []
    while branch:
        (node,) = branch
        told.append((node.ranks, node.place.function))
        branch = node.children
    assert told == [("0-2", "main"), ("0-2", EXECUTE.function), ("0-2", "?")]
