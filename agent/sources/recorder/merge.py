"""Puts several recorders of one rank together: a rank that uses NCCL and Gloo keeps two, and tells them in two ways."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeVar

from shared.errors import quoted
from shared.wire.stacks import Frame
from shared.wire.trace import COLUMNS, Group, Mark, Record, Signature, Trace

T = TypeVar("T")


def merge(traces: Sequence[Trace]) -> Trace:
    """Return one trace with the records of all, each once; the first trace that tells of a record is believed."""
    told = [trace for trace in traces if len(trace) or trace.marks] or list(traces[:1])
    if len(told) == 1:
        return told[0]
    return _Merger(told).merged()


def compare(memory: Trace, server: Trace) -> Trace:
    """Put together what memory and, a moment later, the server tell of one rank; where they contradict, say it."""
    merged = merge([memory, server])
    known = {_key(record): record for record in memory.records()}
    pairs = [(known[_key(record)], record) for record in server.records() if _key(record) in known]
    other = [one for one, later in pairs if one.signature != later.signature or one.state > later.state]
    if not other:
        return merged
    first = other[0]
    name = f"{quoted(first.signature.op)}, sequence {first.collective_seq} of group {quoted(first.group.name)}"
    text = f"{len(other)} of {len(pairs)} operations differ in memory and on the worker server, the first is {name}"
    return merged.model_copy(update={"contradiction": text})


def _key(record: Record) -> tuple[object, ...]:
    group = record.group
    return group.name, group.description, record.collective_seq, record.p2p_seq, record.op_id, record.is_p2p


def _whole_since(trace: Trace) -> int:
    """Return since when no record is left out of a trace, 0 where none is."""
    at = trace.whole_from
    return 0 if at == 0 else trace.created_ns[at] if at < len(trace) else max(trace.created_ns, default=0) + 1


class _Merger:
    def __init__(self, traces: Sequence[Trace]) -> None:
        self._traces = traces
        self._groups: dict[Group, int] = {}
        self._signatures: dict[Signature, int] = {}
        self._sites: dict[tuple[Frame, ...], int] = {}
        self._seen: set[tuple[int, ...]] = set()
        self._marks: dict[int, Mark] = {}
        self._rows: list[tuple[int, ...]] = []

    def merged(self) -> Trace:
        for trace in self._traces:
            self._add(trace)
        created = COLUMNS.index("created_ns")
        self._rows.sort(key=lambda row: row[created])
        columns = {name: array("q", (row[i] for row in self._rows)) for i, name in enumerate(COLUMNS)}
        return self._traces[0].model_copy(
            update={
                **columns,
                "origin": tuple(dict.fromkeys(origin for trace in self._traces for origin in trace.origin)),
                "active_only": all(trace.active_only for trace in self._traces),
                "truncated": any(trace.truncated for trace in self._traces),
                "whole_from": bisect_left(columns["created_ns"], max(map(_whole_since, self._traces))),
                "groups": tuple(self._groups),
                "signatures": tuple(self._signatures),
                "call_sites": tuple(self._sites),
                "marks": tuple(self._marks.values()),
            }
        )

    def _add(self, trace: Trace) -> None:
        groups = [self._group(group) for group in trace.groups]
        signatures = [_index(self._signatures, signature) for signature in trace.signatures]
        sites = [_index(self._sites, site) for site in trace.call_sites]
        for mark in trace.marks:
            self._marks.setdefault(groups[mark.group], mark.model_copy(update={"group": groups[mark.group]}))
        for row in zip(*trace.columns().values(), strict=True):
            moved = (groups[row[0]], signatures[row[1]], sites[row[2]], *row[3:])
            key = (moved[0], *moved[3:7])
            if key not in self._seen:
                self._seen.add(key)
                self._rows.append(moved)

    def _group(self, group: Group) -> int:
        same = (g for g in self._groups if (g.name, g.description) == (group.name, group.description))
        return _index(self._groups, next(same, group))


def _index(table: dict[T, int], value: T) -> int:
    return table.setdefault(value, len(table))
