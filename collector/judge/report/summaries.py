"""Step 10: the summary of a finding, in one sentence; it says what is known and nothing more."""

from collections.abc import Iterable, Sequence

from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.stacks.activity import place
from collector.align.work.bystanders import Bystander
from collector.align.work.children import named
from collector.judge.fault import Fault
from collector.judge.records.compare_sequences import Mismatch, is_compared
from collector.judge.unreachable_ranks import on_silent_nodes
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.plural import either, ranks_with
from shared.rank_sets import ranks_in_words
from shared.wire.trace import Signature, State

_MOST_SIZES = 4
_MOST_SIBLINGS = 2
_NOT_JOINED = ("has not joined", "have not joined")
_PREDICATES = {
    Kind.RANK_NOT_JOINED: _NOT_JOINED,
    Kind.RANK_EXITED: ("has exited and will never join", "have exited and will never join"),
    Kind.RANK_UNREACHABLE: ("is on {node} and may not have joined", "are on {node} and may not have joined"),
    Kind.RANK_STOPPED: ("is stopped by a signal and has not joined", "are stopped by a signal and have not joined"),
    Kind.RANK_MISSING: ("was not found anywhere and has not joined", "were not found anywhere and have not joined"),
}
"""What is said of one culprit, and of several."""


@costs_itself(lambda fault, cause, observations: fault.said or str(fault.kind))
def summary_of(fault: Fault, cause: Cause, observations: Observations) -> str:
    """The finding in one sentence."""
    if fault.said:
        return fault.said
    at = _operation(fault)
    if fault.kind is Kind.STRAGGLER:
        return f"rank {fault.culprits[0]} keeps the others waiting in every step{_where(fault, cause, observations)}"
    if fault.kind is Kind.COLLECTIVE_MISMATCH:
        return _mismatch(fault, at)
    if fault.kind is Kind.P2P_DEADLOCK:
        who = ranks_in_words(fault.culprits or sorted({edge.waiter for edge in fault.cycle}))
        return f"{who} wait for each other in point-to-point operations: a deadlock"
    if fault.kind is Kind.ORDER_INVERSION:
        return _inversion(fault, at)
    if fault.kind is Kind.STUCK_TOGETHER:
        return _stuck(fault, at, observations)
    if fault.kind is Kind.STARTUP_INCOMPLETE:
        return _not_started(fault, observations)
    if fault.kind is Kind.P2P_UNMATCHED and not fault.culprits:
        return fault.remarks[0]
    if fault.kind is Kind.P2P_UNMATCHED:
        who, operation = ranks_in_words(fault.culprits), at or " a point-to-point operation"
        return f"{who} never posts the counterpart of{operation}{_where(fault, cause, observations)}"
    return _not_joined(fault, cause, observations, at)


def _not_started(fault: Fault, observations: Observations) -> str:
    waits = f"{ranks_with(fault.victims, 'waits', 'wait')} in rendezvous"
    if fault.culprits:
        return f"the job does not start: {ranks_in_words(fault.culprits)} never arrived; {waits}"
    if len(fault.victims) == observations.roster.world_size:
        return f"the job does not start: {waits}, though all ranks of the job are there"
    still = [sibling for sibling in observations.siblings if sibling.stands_still]
    if still:
        return f"the job does not start: {'; '.join(map(still_in_words, still[:_MOST_SIBLINGS]))}; {waits}"
    return f"the job does not start: not all ranks arrived; {waits}"


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
    named = fault.group.ref.description or fault.group.ref.name
    label = fault.group.ref.name if named == "undefined" else named
    return f" {fault.op}{number} of group {label}"


def _not_joined(fault: Fault, cause: Cause, observations: Observations, at: str) -> str:
    inside = f" in{at}" if at else ""
    behind = fault.group.absent_at(fault.sequence) if fault.group is not None and fault.sequence is not None else ()
    if not fault.culprits and behind:
        has = ranks_with(behind, "has", "have")
        return f"{ranks_with(fault.victims, 'waits', 'wait')}{inside}, which {has} not issued"
    if not fault.culprits:
        whole = all(view.looks for view in observations.roster.ranks.values())
        others = "the other ranks are not" if whole else "no other rank that was examined is"
        return f"{ranks_with(fault.victims, 'waits', 'wait')}{inside}, and {others} in communication"
    them = either(fault.culprits, "it", "them")
    if fault.kind is Kind.RANK_MISSING and not observations.roster.live and fault.victims:
        waits = f"{ranks_with(fault.victims, 'waits', 'wait')} for {them}{inside}"
        return f"{ranks_in_words(fault.culprits)} left no dump, and {waits}: look there first"
    held_inside = {*fault.culprits} <= {edge.waiter for edge in fault.edges}
    predicates = ("is held inside", "are held inside") if held_inside else _PREDICATES.get(fault.kind, _NOT_JOINED)
    said = ranks_with(fault.culprits, *predicates).format(node=on_silent_nodes(fault.culprits, observations))
    victims = f"; {ranks_with(fault.victims, 'waits', 'wait')} for {them}" if fault.victims else ""
    return f"{said}{at or ' the others'}{_where(fault, cause, observations)}{victims}"


def _stuck(fault: Fault, at: str, observations: Observations) -> str:
    same = [edge for edge in fault.edges if edge.group is fault.group and edge.sequence == fault.sequence]
    waiting = sorted({edge.waiter for edge in same})
    if fault.culprits:
        begun = [rank for rank, state in _states_of(same, observations) if state == State.STARTED]
        elsewhere = f"has started on {_devices_of(begun)}, but not" if begun else "has not started"
        issued = ranks_with(sorted({*fault.culprits, *waiting}), "has", "have")
        return f"{issued} issued{at}; it {elsewhere} on {_devices_of(fault.culprits)}"
    if fault.group is None:
        inside = f" in{at}" if at else " in communication"
        return f"{ranks_with(fault.victims, 'waits', 'all wait')}{inside}, and stacks alone do not show for whom"
    compared = "recorded arguments" if {*fault.victims} & observations.recorded else "operations and their elements"
    match = f"; {compared} match" if fault.op is None or is_compared(fault.op) else ""
    met = waiting or fault.victims
    behind = [rank for rank in fault.victims if rank not in met]
    others = f"; {ranks_with(behind, 'waits', 'wait')} for {either(met, 'it', 'them')}" if behind else ""
    did = "started it on their devices" if _all_began(fault, observations) else "issued it"
    stuck = ranks_with(met, "is stuck", "are stuck")
    return f"{stuck} in{at or ' communication'}: all of them {did}, not all completed it{match}{others}"


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


def _mismatch(fault: Fault, at: str) -> str:
    who = ranks_in_words(fault.culprits) if fault.culprits else ""
    if fault.mismatch is None:
        return f"{ranks_with(fault.culprits, 'is', 'are')} alone in{at or ' another collective'}"
    sides = fault.mismatch.sides
    if not who:
        alike = len({signature.op for _, signature in sides}) == 1
        told = _calls([signature for _, signature in sides]) if alike else [signature.op for _, signature in sides]
        called = [(ranks_in_words(ranks), call) for (ranks, _), call in zip(sides, told, strict=True)]
        named = " vs. ".join(f"{ranks} ({call})" for ranks, call in called)
        tied = ", and no side has a majority" if len(sides) > 1 else ""
        return f"the ranks disagree on{at}: {named}{tied}"
    wrong = next(signature for ranks, signature in sides if set(ranks) & set(fault.culprits))
    what = wrong.op if wrong.op != sides[0][1].op else f"{wrong.op} with different sizes or types"
    root = sides[0][1].op.removeprefix(fault.op or "") if fault.mismatch.of_roots else ""
    return f"{who} issued {what} where {ranks_in_words(sides[0][0])} issued{at}{root}"


def settled_in_words(mismatch: Mismatch) -> str:
    """Say on what the ranks disagreed in an operation that all of them have completed."""
    calls = _calls([signature for _, signature in mismatch.sides[:4]])
    told = zip((ranks for ranks, _ in mismatch.sides), calls, strict=False)
    sides = " vs. ".join(f"{ranks_in_words(ranks)} ({call})" for ranks, call in told)
    named = mismatch.group.ref.description or mismatch.group.ref.name
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


def _inversion(fault: Fault, at: str) -> str:
    if not fault.culprits:
        who = ranks_in_words(sorted({edge.waiter for edge in fault.cycle}))
        return f"{who} wait for each other across groups: they issued operations in different orders"
    who = ranks_in_words(fault.culprits)
    return f"{who} issued the groups' operations in a different order from the others, which wait in{at}"


def _where(fault: Fault, cause: Cause, observations: Observations) -> str:
    seen = next(iter(observations.seen(fault.culprits)), None)
    if seen is None or not seen.frames:
        return "" if cause is Cause.UNKNOWN else f" ({cause.value})"
    at = f" at {seen.user}" if seen.user is not None else ""
    return f": it is {seen.label}{at}" if len(fault.culprits) == 1 else f": {seen.label}{at}"


def waiting_for(waiters: Sequence[int], others: Sequence[int]) -> str:
    """Say who waits for whom."""
    return f"{ranks_with(waiters, 'waits', 'wait')} for {ranks_in_words(others)}"


def waiting_in(fault: Fault) -> str:
    """Say who waits in what, and for whom, without a word on whose fault that is."""
    who = sorted({edge.waiter for edge in fault.edges}) or fault.victims
    others = "" if not fault.culprits else f" for {ranks_in_words(fault.culprits)}"
    return f"{ranks_with(who, 'waits', 'wait')}{others} in{_operation(fault) or ' communication'}"
