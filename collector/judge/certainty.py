"""How sure a finding is, by what it rests on: one table, by kind of finding and by its support.

`proven`     what was recorded, or the state of a process, shows it: no healthy job looks so.
`supported`  it follows from two independent sources that agree, or from one of which a part is inferred or not seen.
`suspected`  one weak source, a tie, or nothing but elimination.

Nothing else in the judge says how sure it is: it names the support, and `how_sure` looks it up in `certainty.toml`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from collector.align.groups.signature_rules import UNPAIRED
from collector.align.groups.wait_edges import Edge
from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.roster import Presence
from collector.align.thresholds import is_majority
from collector.align.wait_states import WaitState
from collector.judge.fault import Fault, Sure, left_out
from collector.judge.logs.vote import Opinion
from collector.judge.records.compare_sequences import Mismatch
from shared.answer.diagnosis import Evidence, Finding
from shared.answer.words import Cause, Certainty, Kind
from shared.isolation import costs_itself
from shared.packs import read_pack
from shared.rank_sets import ranks_in_words


class Support(StrEnum):
    """What a finding rests on: its sources, and whether they are whole and agree."""

    PROCESS = "process states"
    ENDINGS = "how processes ended"
    ENDED = "that all have ended"
    ASKED = "signals that ask processes to end"
    EXIT_CODE = "an exit code"
    ABSENCE = "absence from all nodes that were asked"
    BESIDE = "processes beside ranks that wait in rendezvous"
    SILENCE = "silence"
    SILENT_NODE = "the silence of a node whose ranks are known"
    AT_WORK = "the time for which it has worked"
    ELIMINATION = "elimination"
    TIE = "a tie"
    RECORD = "flight records"
    ROOTS = "roots in the memory of ranks"
    PART_OF_RECORD = "flight records, with a gap or an inference"
    RECORD_AND_STACKS = "flight records and stacks"
    HABIT = "what was usual before"
    STACKS = "stacks"
    STACKS_AND_KERNEL = "stacks and the kernel's word"
    KERNEL_LINES = "the kernel log"
    COUNTS = "RAS's counts"
    COUNTS_AND_STACKS = "RAS's counts and stacks"
    LINES = "log lines"
    AGREED_LINES = "log lines that others, or process states, confirm"
    OWN_LINES = "the odd one's own log lines against those of several others"
    LOCK = "a lock file"
    LOCK_HOLDER = "a lock file whose holder is known"
    OTHER_END = "who holds the other end of what it waits at"
    STACKS_OF_SERVER = "requests that wait, and the stack of a process that serves them"
    PROCESS_OF_SERVER = "requests that wait, and the state of a process that serves them"
    FILE_TIMES = "the dates of two sets of dumps"
    COUNTERS = "counters of process groups"
    MAY_COME = "the time that a rank at work has taken"
    INFERRED_GROUP = "a group whose members are inferred"
    OTHER_USERS = "processes that may be another user's"
    PART_FAILED = "a part of unhang that failed"


TABLE: Mapping[tuple[Kind | None, Support], Sure] = {
    (Kind(row["kind"]) if "kind" in row else None, Support[row["support"].upper()]): Sure(
        Certainty(row["level"]), row.get("sources", 1), row["reason"]
    )
    for row in read_pack(__file__, "certainty.toml")["rows"]
}
"""A row with a kind goes before that of all kinds."""
_OF_RECORDS = (Support.RECORD, Support.ROOTS, Support.PART_OF_RECORD, Support.RECORD_AND_STACKS)


def how_sure(kind: Kind, support: Support) -> Sure:
    """Look up how sure a finding of a kind is, and why."""
    return TABLE.get((kind, support)) or TABLE[None, support]


def shown_by(
    support: Support,
    kind: Kind,
    culprits: tuple[int, ...],
    victims: tuple[int, ...],
    *remarks: str,
    cause: Cause | None = None,
    op: str | None = None,
    said: str = "",
    evidence: tuple[Evidence, ...] = (),
) -> Fault:
    """Return a fault that rests on one support alone."""
    sure = how_sure(kind, support)
    return Fault(kind, culprits, victims, sure, cause, op=op, said=said, evidence=evidence, remarks=remarks)


def convicting(fault: Fault, odd: Iterable[int], support: Support, *remarks: str) -> Fault:
    """Return the fault with others as its culprits, whose calls are not those of the rest."""
    culprits, kind = tuple(sorted(odd)), Kind.COLLECTIVE_MISMATCH
    victims = tuple(sorted({*fault.culprits, *fault.victims} - {*culprits}))
    sure, cause = how_sure(kind, support), Cause.USER_CODE
    return replace(fault, kind=kind, culprits=culprits, victims=victims, certainty=sure, cause=cause, remarks=remarks)


def unproven(sure: Sure, support: Support) -> Sure:
    """Return how sure what rests, besides, on something that may not be so is."""
    return TABLE[None, support] if sure.level is Certainty.PROVEN else sure


def less_sure(finding: Finding, support: Support) -> Mapping[str, object]:
    """Return what changes in a finding that rests, besides, on something that may not be so."""
    level, _, reason = TABLE[None, support]
    return {"certainty": level, "certainty_reason": reason} if finding.certainty is Certainty.PROVEN else {}


def is_suspicion(fault: Fault) -> bool:
    """Does no more than a suspicion speak for it?"""
    return fault.certainty.level is Certainty.SUSPECTED


def without_culprits(fault: Fault) -> Fault:
    """Return the fault as one that blames nobody: what was to tell the guilty from the innocent failed."""
    everybody = tuple(sorted({*fault.culprits, *fault.victims}))
    remark = f"{ranks_in_words(everybody)} are held up, and a part of unhang that tells by whom failed"
    sure = how_sure(fault.kind, Support.PART_FAILED)
    return replace(fault, culprits=(), certainty=sure, remarks=(remark,))


def is_proven(fault: Fault) -> bool:
    """Does nothing more have to be shown?"""
    return fault.certainty.level is Certainty.PROVEN


def blames_somebody(fault: Fault) -> bool:
    """Does it name culprits, and by more than suspicion?"""
    return bool(fault.culprits) and fault.certainty.level is not Certainty.SUSPECTED


def shown_by_process(kind: Kind, ranks: Sequence[int], observations: Observations) -> bool:
    """Is the state of their processes all the proof that is needed: stopped, or ended as somebody saw?"""
    return kind is Kind.RANK_STOPPED or all(observations.roster.ranks[rank].exited is not None for rank in ranks)


def of_root(kind: Kind, culprits: tuple[int, ...], edge: Edge | None, observations: Observations) -> Support:
    """Return what shows, by records, that others wait for these ranks."""
    if shown_by_process(kind, culprits, observations):
        return Support.PROCESS
    if left_out(culprits, observations):
        return Support.ELIMINATION
    if kind is Kind.RANK_UNREACHABLE:
        silent = [observations.roster.ranks[rank].unanswered for rank in culprits]
        known = all(node is not None and node.ranks for node in silent)
        most = is_majority(len(silent), len(observations.roster.ranks))
        return Support.SILENT_NODE if known and not most else Support.SILENCE
    unpaired = edge is not None and edge.signature.op in UNPAIRED and not edge.is_p2p
    if edge is None or unpaired or not all(rank in edge.group.lanes or rank in edge.holders for rank in culprits):
        return Support.ELIMINATION  # a send that counts as a collective may have two members alone
    marked = all(rank in edge.group.lanes for rank in culprits)
    return Support.RECORD if marked and not edge.group.is_guessed else Support.PART_OF_RECORD


def of_outsiders(kind: Kind, ranks: tuple[int, ...], observations: Observations) -> Support:
    """Return what shows, where no record tells, that these ranks hold up those whose stacks wait."""
    if ranks and shown_by_process(kind, ranks, observations):
        return Support.PROCESS
    if kind is Kind.RANK_NOT_JOINED:
        agreed = ranks and all(observations.activities[rank].kernel_agrees for rank in ranks)
        return Support.STACKS_AND_KERNEL if agreed else Support.STACKS
    if not ranks and observations.siblings:
        return Support.BESIDE
    guessed = kind is Kind.RANK_MISSING and (not observations.roster.live or left_out(ranks, observations))
    return Support.ELIMINATION if guessed else Support.ABSENCE


def of_counts(kind: Kind, culprits: tuple[int, ...], *, agreed: bool, observations: Observations) -> Support:
    """Return what shows it beside counts of NCCL RAS; `agreed`: two reports, and the stacks, say the same."""
    if shown_by_process(kind, culprits, observations):
        return Support.PROCESS
    return Support.COUNTS_AND_STACKS if agreed else Support.COUNTS


def of_lost(kind: Kind, ranks: Sequence[int], observations: Observations, *, dead: bool) -> Support:
    """Return what shows that others wait for processes which do not answer NCCL RAS; `dead`: it has given them up."""
    if shown_by_process(kind, ranks, observations):
        return Support.PROCESS
    views = [observations.roster.ranks[rank] for rank in ranks]
    twice = all(view.presence is Presence.UNREACHABLE for view in views) or (dead and all(view.gone for view in views))
    return Support.ABSENCE if twice else Support.SILENCE


def of_votes(opinions: Sequence[Opinion], culprits: Sequence[int], observations: Observations) -> Support:
    """Return whether log lines stand alone: by the kinds of witnesses that agree, and by what is seen of culprits."""
    if not culprits:
        return Support.LINES
    if len({opinion.witness for opinion in opinions}) > 1 or all(_is_outside(rank, observations) for rank in culprits):
        return Support.AGREED_LINES
    return Support.OWN_LINES if any(opinion.firm for opinion in opinions) else Support.LINES


def _is_outside(rank: int, observations: Observations) -> bool:
    """Do process or stack show, by themselves, that a rank cannot have joined? Absence from files shows nothing."""
    if observations.roster.ranks[rank].presence in (Presence.UNSEEN, Presence.LEFT_OUT):
        return False
    return observations.state(rank) in (WaitState.GONE, WaitState.ELSEWHERE)


def of_circle(culprits: Sequence[int], edges: Sequence[Edge]) -> Support:
    """Return what shows who broke the order in a circle of waits: the order of queues may be inferred."""
    if not culprits:
        return Support.TIE
    return Support.PART_OF_RECORD if any(edge.queued for edge in edges) else Support.RECORD


def of_mismatch(mismatch: Mismatch) -> Support:
    """Return what shows that the calls differ, and who of those that disagree is wrong, where that is told.

    Where no side has a majority nobody is blamed, and that they differ is on record all the same.
    """
    if mismatch.of_roots:
        return Support.ROOTS
    return Support.RECORD if mismatch.certain or not mismatch.culprits else Support.PART_OF_RECORD


def of_stuck(edges: Sequence[Edge], *, open_world: bool) -> Support:
    """Return what shows that nobody is missing where all wait; `open_world`: nothing tells the world size."""
    if open_world:
        return Support.ELIMINATION
    complete = len(edges) == len(edges[0].group.members) or edges[0].is_p2p
    return Support.RECORD if complete else Support.PART_OF_RECORD


@costs_itself(lambda fault, observations: replace(fault, certainty=how_sure(fault.kind, Support.PART_FAILED)))
def tempered(fault: Fault, observations: Observations) -> Fault:
    """That a rank at work will not come is read from the time it takes, which proves nothing; nor does a guess."""
    if _rests_on_counters(fault, observations):
        fault = replace(fault, certainty=TABLE[None, Support.COUNTERS])
    may_come = fault.kind is Kind.RANK_NOT_JOINED and any(_may_come(rank, observations) for rank in fault.culprits)
    if not may_come and not _rests_on_inference(fault, observations):
        return fault
    support = Support.MAY_COME if may_come else Support.INFERRED_GROUP
    return replace(fault, certainty=unproven(fault.certainty, support))


def _rests_on_counters(fault: Fault, observations: Observations) -> bool:
    """Would it rest on flight records, and were none kept of some whose waits or calls it tells of?"""
    involved = {edge.waiter for edge in fault.edges} | {*(fault.mismatch.ranks if fault.mismatch is not None else ())}
    of_records = fault.certainty in map(TABLE.get, ((None, each) for each in _OF_RECORDS))
    return of_records and any(rank in observations.traces and rank not in observations.recorded for rank in involved)


def _may_come(rank: int, observations: Observations) -> bool:
    """Is it at work, or where a healthy rank may be for a while, or was it not seen whole, so that it may be?"""
    activity = observations.activities.get(rank)
    if activity is None:
        return False
    if observations.roster.live and (
        observations.state(rank) is WaitState.UNKNOWN
        or observations.roster.ranks[rank].process is None
        or observations.moves_unseen(rank)
    ):
        return True
    busy = observations.motion.by_rank.get(rank) is Motion.BUSY and not observations.may_wait(rank)
    return busy or activity.may_pass


def _rests_on_inference(fault: Fault, observations: Observations) -> bool:
    """Does it depend on a group whose members were inferred? The default group is the world, once its size is known."""
    if fault.kind in (Kind.RANK_STOPPED, Kind.RANK_EXITED):
        return False
    culprits = set(fault.culprits)  # how the others wait for each other shows who is held up, and not by whom
    told = [edge for edge in fault.edges if not culprits or culprits & set(edge.holders)]
    groups = [edge.group for edge in (*told, *fault.cycle)] + ([fault.group] if fault.group is not None else [])
    return any(
        group.inferred and not (group.is_default and observations.roster.world_size is not None) for group in groups
    )
