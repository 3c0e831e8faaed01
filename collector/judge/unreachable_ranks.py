"""Step 6, with silent nodes: what stands against ranks of which nothing is known but that others wait for them.

They may wait like everybody else. So where a rank is seen to hold the job up, they are told beside it and not blamed;
unless log lines, connections or NCCL RAS tell more of their nodes than that their agents are silent. Ranks that nobody
looked at are never blamed: on one node of two, or with half of the dumps, that others wait for them says nothing about
them. Unless their own logs say that they failed.
"""

from collections.abc import Sequence
from dataclasses import replace

from collector.align.observations import Observations
from collector.align.roster import Presence, Roster
from collector.judge.fault import Fault
from collector.judge.hardware.descriptors import with_descriptors
from collector.judge.logs.own_failures import first_failure
from shared.answer.words import Kind
from shared.isolation import costs_itself
from shared.plural import either
from shared.rank_sets import ranks_in_words

_MOST_HOSTS = 6


@costs_itself(lambda faults, observations: [])
def of_looked_at(faults: Sequence[Fault], observations: Observations) -> list[Fault]:
    """Leave out the faults that have nothing but unseen ranks to blame."""
    return [fault for fault in faults if not _of_unseen(fault, observations.roster)]


@costs_itself(lambda faults, observations: None)
def waits_for_unseen(faults: Sequence[Fault], observations: Observations) -> Fault | None:
    """Return the first fault that blames unseen ranks alone: where the next look should go."""
    return next((fault for fault in faults if _of_unseen(fault, observations.roster)), None)


def _of_unseen(fault: Fault, roster: Roster) -> bool:
    views = [roster.ranks[rank] for rank in fault.culprits]
    unseen = bool(views) and not fault.named_by and all(view.presence is Presence.UNSEEN for view in views)
    return unseen and not all(first_failure(view.logged) is not None for view in views)


@costs_itself(lambda faults, observations: list(faults))
def beside_the_seen(faults: Sequence[Fault], observations: Observations) -> list[Fault]:
    """Put what is proven before what silence suggests, and make a remark of silence beside a culprit that is seen."""
    silent = [fault for fault in faults if fault.kind is Kind.RANK_UNREACHABLE]
    seen = [fault for fault in faults if fault.kind is not Kind.RANK_UNREACHABLE]
    if not silent or not any(fault.blames_somebody for fault in seen):
        return list(faults)
    seen.sort(key=lambda fault: not fault.blames_somebody)
    named = [bool(with_descriptors(fault, observations).named_by) for fault in silent]
    remarks = [_remark(fault, observations.roster) for fault, more in zip(silent, named, strict=True) if not more]
    first = replace(seen[0], remarks=(*seen[0].remarks, *remarks))
    return [first, *seen[1:], *(fault for fault, more in zip(silent, named, strict=True) if more)]


def _remark(fault: Fault, roster: Roster) -> str:
    who, where = ranks_in_words(fault.culprits), on_silent_nodes(fault.culprits, roster)
    return f"others also wait for {who} on {where} and {either(fault.culprits, 'it', 'they')} may be waiting, too"


def on_silent_nodes(ranks: Sequence[int], roster: Roster) -> str:
    """Say on which nodes they are, that did not answer; ends in a comma."""
    hosts = sorted({host for rank in ranks if (host := roster.ranks[rank].host) is not None})
    if any(roster.ranks[rank].host is None for rank in ranks):
        return either(ranks, "a node that does not answer,", "nodes that do not answer,")
    if len(hosts) == 1:
        return f"{hosts[0]}, which does not answer,"
    more = f" and {len(hosts) - _MOST_HOSTS} more" if len(hosts) > _MOST_HOSTS else ""
    return f"{', '.join(hosts[:_MOST_HOSTS])}{more}, which do not answer,"
