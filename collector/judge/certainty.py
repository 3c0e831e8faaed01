"""How sure a finding is, by what it rests on.

`proven`     what was recorded, or the state of a process, shows it: no healthy job looks so.
`supported`  it follows from two independent pieces of evidence, or from one once all others are excluded.
`suspected`  one weak piece of evidence, a majority of one, or nothing but elimination.
"""

from collections.abc import Sequence
from dataclasses import replace

from collector.align.groups.signature_rules import UNPAIRED
from collector.align.groups.wait_edge import Edge
from collector.align.observations import Observations
from collector.align.progress import Motion
from collector.align.roster import Presence
from collector.align.thresholds import is_majority
from collector.align.wait_states import WaitState
from collector.judge.fault import Fault, left_out
from collector.judge.logs.vote import Opinion
from collector.judge.records.compare_sequences import Mismatch
from shared.answer.words import Certainty, Kind


def shown_by_process(kind: Kind, ranks: Sequence[int], observations: Observations) -> bool:
    """Is the state of their processes all the proof that is needed: stopped, or ended as somebody saw?"""
    return kind is Kind.RANK_STOPPED or all(observations.roster.ranks[rank].exited is not None for rank in ranks)


def of_root(kind: Kind, culprits: tuple[int, ...], edge: Edge | None, observations: Observations) -> Certainty:
    """Return how sure it is that others wait for these ranks, by records.

    Proven where marks or process state show it; what rests on elimination or inference is weaker.
    That others wait and that a node is silent are two pieces of evidence: neither shows what the ranks on that node do.
    """
    if shown_by_process(kind, culprits, observations):
        return Certainty.PROVEN
    if left_out(culprits, observations):
        return Certainty.SUSPECTED
    if kind is Kind.RANK_UNREACHABLE:
        silent = [observations.roster.ranks[rank].unanswered for rank in culprits]
        known = all(node is not None and node.ranks for node in silent)
        most = is_majority(len(silent), len(observations.roster.ranks))  # then it is the way to them that is at fault
        return Certainty.SUPPORTED if known and not most else Certainty.SUSPECTED
    if edge is not None and all(rank in edge.group.lanes or rank in edge.holders for rank in culprits):
        if edge.signature.op in UNPAIRED and not edge.is_p2p:
            return Certainty.SUSPECTED  # it counts as a collective, and may have two members alone
        marked = all(rank in edge.group.lanes for rank in culprits)
        if marked and not (edge.group.inferred and edge.group.name != "0"):
            return Certainty.PROVEN
        return Certainty.SUPPORTED
    return Certainty.SUSPECTED


def of_outsiders(kind: Kind, ranks: tuple[int, ...], observations: Observations) -> Certainty:
    """Return how sure it is that these ranks hold up those whose stacks wait, where no record tells."""
    if ranks and shown_by_process(kind, ranks, observations):
        return Certainty.PROVEN
    if kind is Kind.RANK_NOT_JOINED:
        agreed = ranks and all(observations.activities[rank].kernel_agrees for rank in ranks)
        return Certainty.SUPPORTED if agreed else Certainty.SUSPECTED
    guessed = kind is Kind.RANK_MISSING and (not observations.roster.live or left_out(ranks, observations))
    return Certainty.SUSPECTED if guessed else Certainty.SUPPORTED


def of_counts(kind: Kind, culprits: tuple[int, ...], *, agreed: bool, observations: Observations) -> Certainty:
    """Return how sure counts of NCCL RAS make it; `agreed`: two reports, and the stacks, say the same."""
    if shown_by_process(kind, culprits, observations):
        return Certainty.PROVEN
    return Certainty.SUPPORTED if agreed else Certainty.SUSPECTED


def of_lost(ranks: Sequence[int], *, dead: bool, seen: bool, observations: Observations) -> Certainty:
    """Return how sure it is that others wait for processes which do not answer NCCL RAS.

    `dead`: it has given them up; `seen`: the state of the process shows it.
    """
    views = [observations.roster.ranks[rank] for rank in ranks]
    twice = all(view.presence is Presence.UNREACHABLE for view in views) or (dead and all(view.gone for view in views))
    return Certainty.PROVEN if seen else Certainty.SUPPORTED if twice else Certainty.SUSPECTED


def of_votes(opinions: Sequence[Opinion], culprits: Sequence[int], observations: Observations) -> Certainty:
    """Return how sure log lines make it: by the kinds of witnesses that agree, and by what is seen of the culprits."""
    agreed = len({opinion.witness for opinion in opinions}) > 1 or any(opinion.firm for opinion in opinions)
    outside = all(_is_outside(rank, observations) for rank in culprits)
    return Certainty.SUPPORTED if culprits and (agreed or outside) else Certainty.SUSPECTED


def _is_outside(rank: int, observations: Observations) -> bool:
    """Do process or stack show, by themselves, that a rank cannot have joined? Absence from files shows nothing."""
    if observations.roster.ranks[rank].presence in (Presence.UNSEEN, Presence.LEFT_OUT):
        return False
    return observations.state(rank) in (WaitState.GONE, WaitState.ELSEWHERE)


def of_circle(culprits: Sequence[int], edges: Sequence[Edge]) -> Certainty:
    """Return how sure it is who broke the order in a circle of waits: the order of queues may be inferred."""
    if culprits and not any(edge.queued for edge in edges):
        return Certainty.PROVEN
    ordered = culprits and not all(edge.is_p2p for edge in edges)
    return Certainty.SUPPORTED if ordered else Certainty.SUSPECTED


def of_mismatch(mismatch: Mismatch) -> Certainty:
    """Return how sure it is that the calls differ, and who of those that disagree is wrong, where that is told.

    Where no side has a majority nobody is blamed, and that they differ is on record all the same.
    """
    return Certainty.PROVEN if mismatch.certain or not mismatch.culprits else Certainty.SUPPORTED


def of_stuck(edges: Sequence[Edge], *, open_world: bool) -> Certainty:
    """Return how sure it is that nobody is missing where all wait; `open_world`: nothing tells the world size."""
    if open_world:
        return Certainty.SUSPECTED
    complete = len(edges) == len(edges[0].group.members) or edges[0].is_p2p
    return Certainty.PROVEN if complete else Certainty.SUPPORTED


def tempered(fault: Fault, observations: Observations) -> Fault:
    """That a rank at work will not come is read from the time it takes, which proves nothing; nor does a guess."""
    may_come = fault.kind is Kind.RANK_NOT_JOINED and any(_may_come(rank, observations) for rank in fault.culprits)
    weaker = may_come or _rests_on_inference(fault, observations)
    return replace(fault, certainty=unproven(fault.certainty)) if weaker else fault


def _may_come(rank: int, observations: Observations) -> bool:
    """Is it at work, or where a healthy rank may be for a while, or was it not seen whole, so that it may be?"""
    activity = observations.activities.get(rank)
    if activity is None:
        return False
    if observations.roster.live and (
        observations.state(rank) is WaitState.UNKNOWN or observations.roster.ranks[rank].process is None
    ):
        return True
    busy = observations.motion.by_rank.get(rank) is Motion.BUSY and not observations.may_wait(rank)
    return busy or activity.may_pass


def unproven(certainty: Certainty) -> Certainty:
    """Return the certainty of what rests, besides, on something that may not be so."""
    return Certainty.SUPPORTED if certainty is Certainty.PROVEN else certainty


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
