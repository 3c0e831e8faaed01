"""The probe's list of process groups: who the members are, which Gloo's recorder leaves out."""

from typing import Any

from shared.errors import InvalidInput, quoted
from shared.json_bounds import load_json
from shared.rank_sets import MOST_RANKS, fold
from shared.value import whole
from shared.wire.trace import Group, Trace

GroupTable = dict[tuple[str, str], tuple[int, ...]]
"""(name, description) -> global ranks by group rank."""

_MOST_GROUPS = 65_536
_MOST_BYTES = 64 * 1024 * 1024
"""Of memory: the world and five hundred groups of a thousand ranks take a third of it."""


def parse_groups(data: bytes) -> GroupTable:
    """Read a groups file of our probe. Raises InvalidInput."""
    # {"version": 1, "groups": [{"name": "1", "description": "tp0", "backend": "gloo", "ranks": [0, 1]}]}
    try:
        groups = load_json(data, most_bytes=_MOST_BYTES)["groups"][:_MOST_GROUPS]
        return {(whole(str(g["name"])), whole(str(g["description"]))): _ranks(g["ranks"]) for g in groups}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInput(f"not a list of process groups: {quoted(data)}") from error


def _ranks(raw: Any) -> tuple[int, ...]:
    ranks = tuple(raw)
    if not all(type(rank) is int and 0 <= rank < MOST_RANKS for rank in ranks):
        raise ValueError(f"not global ranks: {quoted(str(ranks))}")
    return ranks


def complete(trace: Trace, table: GroupTable) -> Trace:
    """Fill in the members that a trace does not tell."""
    if not table:
        return trace
    return trace.model_copy(update={"groups": tuple(_completed(group, table) for group in trace.groups)})


def _completed(group: Group, table: GroupTable) -> Group:
    ranks = table.get((group.name, group.description))
    if group.members is not None or ranks is None:
        return group
    ascending = list(ranks) == sorted(ranks)
    return group.model_copy(update={"members": fold(ranks), "order": None if ascending else ranks})
