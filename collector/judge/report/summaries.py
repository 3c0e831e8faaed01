"""Step 10: the summary of a finding, in one sentence; it says what is known and nothing more."""

from collections.abc import Iterable, Sequence
from typing import Any

from collector.align.groups.signature_rules import is_compared
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.stacks.activity import place
from collector.align.work.bystanders import Bystander
from collector.align.work.children import named
from collector.judge.fault import Fault
from collector.judge.records.compare_sequences import Mismatch
from collector.judge.report.sentences import say
from collector.judge.unreachable_ranks import on_silent_nodes
from shared.answer.words import Cause, Kind
from shared.formats.recorder.coalesced import COALESCED
from shared.isolation import costs_itself
from shared.plural import either, ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.trace import Signature, State

_MOST_SIZES = 4
_MOST_SIBLINGS = 2


@costs_itself(lambda fault, cause, observations: fault.said or str(fault.kind))
def summary_of(fault: Fault, cause: Cause, observations: Observations) -> str:
    """The finding in one sentence, by the first row that fits of `sentences.toml`."""
    if fault.said:
        return fault.said
    if fault.kind is Kind.P2P_UNMATCHED and not fault.culprits:
        return fault.remarks[0]
    words = _words(fault, cause, observations)
    return say("summary", words)


def _words(fault: Fault, cause: Cause, observations: Observations) -> dict[str, Any]:
    """What a row may name, or ask for."""
    at = _operation(fault)
    words = {
        "kind": fault.kind.value,
        "culprits": fault.culprits,
        "victims": fault.victims,
        "circle": fault.culprits or sorted({edge.waiter for edge in fault.cycle}),
        "at": at,
        "inside": f" in{at}" if at else "",
        "operation": at or " communication",
        "alone": at or " another collective",
        "posted": at or " a point-to-point operation",
        "where": _where(fault, cause, observations),
        "at_line": _at_one_line(fault, observations),
        "late": fault.late,
    }
    words |= {"named": ""} if fault.culprits else {}
    if fault.mismatch is not None:
        words |= _of_sides(fault.mismatch, fault)
    if fault.kind is Kind.STARTUP_INCOMPLETE:
        return words | _of_start(fault, observations)
    if fault.kind is Kind.STUCK_TOGETHER:
        return words | _of_stuck(fault, observations)
    return words | _of_absence(fault, observations)


def _of_start(fault: Fault, observations: Observations) -> dict[str, Any]:
    if len(fault.victims) == observations.roster.world_size:
        return {"all": ""}
    still = [sibling for sibling in observations.siblings if sibling.stands_still]
    return {"still": "; ".join(map(still_in_words, still[:_MOST_SIBLINGS]))} if still else {}


def still_in_words(sibling: Bystander) -> str:
    """What one that has not come does in the place of work."""
    seen = sibling.activity
    frame = seen.user or (seen.frames[-1] if seen.frames else None)
    at = "" if frame is None else f" at {place(frame)}"
    started = f"process {named(sibling.process)}, started together with rank {sibling.beside}"
    return f"{started}, has not joined: it is {seen.label}{at}"


def _operation(fault: Fault) -> str:
    if fault.op is None:
        return ""
    number = "" if fault.sequence is None else f" #{fault.sequence}"
    if fault.group is None:
        return f" {fault.op}{number}"
    label = fault.group.name if fault.group.label == "undefined" else fault.group.label
    return f" {fault.op}{number} of group {label}"


def _of_absence(fault: Fault, observations: Observations) -> dict[str, Any]:
    behind = fault.group.absent_at(fault.sequence) if fault.group is not None and fault.sequence is not None else ()
    whole = all(view.looks for view in observations.roster.ranks.values())
    words: dict[str, Any] = {"others": "the other ranks are not" if whole else "no other rank that was examined is"}
    words |= {"behind": behind} if behind else {}
    words |= {"left_nothing": ""} if not observations.roster.live and fault.victims else {}
    words |= {"held": ""} if {*fault.culprits} <= {edge.waiter for edge in fault.edges} else {}
    waits = f"; {ranks_with(fault.victims, 'waits', 'wait')} for {either(fault.culprits, 'it', 'them')}"
    words |= {"waits": waits if fault.victims else "", "of": _operation(fault) or " the others"}
    return words | {"node": on_silent_nodes(fault.culprits, observations.roster)}


def _of_stuck(fault: Fault, observations: Observations) -> dict[str, Any]:
    same = [edge for edge in fault.edges if edge.group is fault.group and edge.sequence == fault.sequence]
    waiting = sorted({edge.waiter for edge in same})
    begun = [rank for rank, state in _states_of(same, observations) if state == State.STARTED]
    met = waiting or fault.victims
    behind = [rank for rank in fault.victims if rank not in met]
    return {
        "issued": sorted({*fault.culprits, *waiting}),
        "begun": f"has started on {_devices_of(begun)}, but not" if begun else "has not started",
        "devices": _devices_of(fault.culprits),
        "met": met,
        "match": _compared(fault, observations),
        "behind": f"; {ranks_with(behind, 'waits', 'wait')} for {either(met, 'it', 'them')}" if behind else "",
        "did": "started it on their devices" if _all_began(fault, observations) else "issued it",
    } | ({} if fault.group is None else {"recorded": ""})


def _compared(fault: Fault, observations: Observations) -> str:
    if fault.op == COALESCED:
        done = () if fault.group is None or fault.sequence is None else fault.group.completed_at(fault.sequence)
        fewer = f", and {ranks_with(done, 'has', 'have')} completed it, perhaps with fewer parts" if done else ""
        return f"; its parts are not on record{fewer}"
    compared = "recorded arguments" if {*fault.victims} & observations.recorded else "operations and their elements"
    return f"; {compared} match" if fault.op is None or is_compared(fault.op) else ""


def _devices_of(ranks: Sequence[int]) -> str:
    return f"{either(ranks, 'the device', 'the devices')} of {ranks_in_words(ranks)}"


def _all_began(fault: Fault, observations: Observations) -> bool:
    """Do the records show that the devices of all who wait have begun it? That it was issued shows no such thing."""
    states = [state for _, state in _states_of(fault.edges, observations)]
    return bool(states) and all(state == State.STARTED for state in states)


def _states_of(edges: Iterable[Edge], observations: Observations) -> list[tuple[int, int]]:
    """Who waits in collectives that it has issued, and how far these are on its device."""
    return [
        (edge.waiter, observations.traces[edge.waiter].state[position])
        for edge in edges
        if edge.sequence is not None and edge.waiter in edge.group.lanes
        for position in edge.group.lanes[edge.waiter].at(edge.sequence)[-1:]
    ]


def _of_sides(mismatch: Mismatch, fault: Fault) -> dict[str, Any]:
    ranks, signatures = [ranks for ranks, _ in mismatch.sides], [signature for _, signature in mismatch.sides]
    alike = len({signature.op for signature in signatures}) == 1
    told = _calls(signatures) if alike else [signature.op for signature in signatures]
    wrong = next((one for own, one in mismatch.sides if {*own} & {*fault.culprits}), signatures[0])
    return {
        "sides": " vs. ".join(f"{ranks_in_words(own)} ({call})" for own, call in zip(ranks, told, strict=True)),
        "tied": ", and no side has a majority" if len(ranks) > 1 else "",
        "most": ranks[0],
        "root": signatures[0].op.removeprefix(fault.op or "") if mismatch.of_roots else "",
        "wrong": wrong.op if wrong.op != signatures[0].op else f"{wrong.op} with different sizes or types",
    }


def settled_in_words(mismatch: Mismatch) -> str:
    """Say on what the ranks disagreed in an operation that all of them have completed."""
    calls = _calls([signature for _, signature in mismatch.sides[:4]])
    told = zip((ranks for ranks, _ in mismatch.sides), calls, strict=False)
    sides = " vs. ".join(f"{ranks_in_words(ranks)} ({call})" for ranks, call in told)
    named = mismatch.group.label
    return f"the ranks disagreed on operation #{mismatch.sequence} of group {named}, which all completed: {sides}"


def _calls(signatures: Sequence[Signature]) -> list[str]:
    """Say what each side called: by what it put in, and by what comes out where that alone tells them apart."""
    into = [_call(signature, _sizes(signature.input_sizes)) for signature in signatures]
    if len(signatures) > len(set(into)) or len(into) == 1:
        both = [(_sizes(each.input_sizes) or "[]", _sizes(each.output_sizes) or "[]") for each in signatures]
        if any(given != got for given, got in both):
            return [_call(each, " -> ".join(sizes)) for each, sizes in zip(signatures, both, strict=True)]
    return into


def _call(signature: Signature, sizes: str) -> str:
    types = "/".join(dict.fromkeys((*signature.input_dtypes, *signature.output_dtypes)))
    return " ".join(part for part in (signature.op, sizes, types and f"of type {types}") if part)


def _sizes(sizes: tuple[tuple[int, ...], ...]) -> str:
    shown = " ".join("[" + ",".join(map(str, size)) + "]" for size in sizes[:_MOST_SIZES])
    return shown + (f" +{len(sizes) - _MOST_SIZES}" if len(sizes) > _MOST_SIZES else "")


def _at_one_line(fault: Fault, observations: Observations) -> str:
    lines = {str(seen.user) for seen in observations.seen(fault.culprits) if seen.user is not None}
    return f" at {lines.pop()}" if len(lines) == 1 else ""


def _where(fault: Fault, cause: Cause, observations: Observations) -> str:
    seen = next(iter(observations.seen(fault.culprits)), None)
    if seen is None or not (seen.frames or seen.kernel_tells):
        return "" if cause is Cause.UNKNOWN else f" ({cause.value})"
    at = f" at {seen.user}" if seen.user is not None else ""
    if at and ", which " in seen.label and len(fault.culprits) == 1:  # as of a lock, whose holder is not at that line
        return f": it is{at}, {seen.label}"
    return f": it is {seen.label}{at}" if len(fault.culprits) == 1 else f": {seen.label}{at}"


def waiting_in(fault: Fault) -> str:
    """Say who waits in what, and for whom, without a word on whose fault that is."""
    who = sorted({edge.waiter for edge in fault.edges}) or fault.victims
    others = "" if not fault.culprits else f" for {ranks_in_words(fault.culprits)}"
    return f"{ranks_with(who, 'waits', 'wait')}{others} in{_operation(fault) or ' communication'}"
