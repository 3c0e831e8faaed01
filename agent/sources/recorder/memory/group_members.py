"""The members of Gloo's process groups, which its recorder leaves out: from the groups' own objects."""

from contextlib import suppress

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.find.choose_ranks import Rank
from agent.proc.memory.process_memory import open_memory
from agent.proc.procfs import ProcFs
from agent.sources.recorder.memory.group_objects import GLOO, MOST_SEARCHED, find_objects
from agent.sources.recorder.memory.locator import RecorderLocator
from agent.sources.recorder.process_groups import GroupTable

Name = tuple[str, str]
"""The name and the description of a group."""


def find_members(
    procfs: ProcFs, rank: Rank, locator: RecorderLocator, wanted: frozenset[Name], deadline: Deadline
) -> GroupTable:
    """Return the members of those of the `wanted` groups that are found. Raises Unavailable, Gone or NotPermitted."""
    with open_memory(procfs, rank.stat, deadline, most_bytes=MOST_SEARCHED) as memory:
        layouts = locator.locate(procfs, rank, memory, deadline).layouts
        found: GroupTable = {}
        with suppress(Unavailable):
            for _, groups in find_objects(procfs, rank, memory, GLOO, layouts):
                found |= {(group.name, group.description): group.members for group in groups}
                if wanted <= found.keys():
                    break
        return {name: members for name, members in found.items() if name in wanted}
