"""What hosts told over ssh, sorted out: which job is meant, which hosts have to do with it, which are silent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.sources.ssh_round import HostVisit
from collector.align.expected import Expected, Unanswered
from collector.align.job_owner import apart
from collector.gather.jobs import choose_job, concerns, neighbours_of, nodes_without_ranks, ranks_of
from collector.gather.namesakes import lists_apart, user_of
from shared.missing import Missing
from shared.wire.job_names import is_of
from shared.wire.snapshot import Identity, NodeSnapshot, RankList, lists_late


@dataclass(frozen=True)
class Seen:
    """What the hosts told of one job, and which of them did not."""

    snapshots: tuple[NodeSnapshot, ...]
    expected: Expected
    visits: tuple[HostVisit, ...]
    """Those that the snapshots are from."""

    @property
    def homes(self) -> Mapping[tuple[str | None, int], str]:
        """Return the host, as ssh knows it, of each process of the job, by the host's own name and the process id."""
        return {
            (rank.identity.host or look.host, rank.identity.pid): visit.host
            for visit in reversed(self.visits)
            for look in visit.looks
            for rank in look.ranks
            if rank.identity.pid is not None and self._is_of_job(rank.identity)
        }

    def _is_of_job(self, identity: Identity) -> bool:
        job = self.expected.job
        return job is None or is_of(identity, job, self.expected.user)


def see(job: str | None, visits: Sequence[HostVisit], unreadable: Sequence[Missing] = ()) -> Seen:
    """Choose the job, and sort out which hosts have to do with it. Raises as `choose_job` does."""
    lists = {visit.host: who(visit.looks) for visit in visits if visit.looks}
    some_late = any(lists_late(found.missing) for found in lists.values())
    job = choose_job(job, lists.values(), some_silent=some_late or any(not visit.looks for visit in visits))
    user = user_of(job, lists.values())
    used = [visit for visit in visits if visit.host in lists and concerns(lists[visit.host], job, user)]
    used = _without_second_names(used, lists)
    cut_off = [_only_some(visit, lists[visit.host], job) for visit in used if visit.missing is not None]
    expected = Expected(
        job=job,
        user=user,
        neighbours=neighbours_of(job, lists_apart(lists.values(), job, user)),
        unanswered=tuple(
            Unanswered(host=visit.host, missing=visit.missing)
            for visit in visits
            if visit.missing is not None and visit.host not in lists
        ),
        nodes_without_ranks=nodes_without_ranks(lists.values(), job, user),
        unreadable=(*(missing for missing in cut_off if missing is not None), *unreadable),
    )
    return Seen(apart((look for visit in used for look in visit.looks), job, user), expected, tuple(used))


def who(looks: Sequence[NodeSnapshot]) -> RankList:
    """Return whom the last look at all ranks of a host saw there."""
    last = next((look for look in reversed(looks) if look.whole), looks[-1])
    ranks = tuple(rank.identity for rank in last.ranks)
    return RankList(host=last.host or "", ranks=ranks, exited=last.exited, missing=last.missing)


def _without_second_names(visits: Sequence[HostVisit], lists: Mapping[str, RankList]) -> list[HostVisit]:
    """Of two names of one host, leave the first."""
    kept: list[HostVisit] = []
    known: set[tuple[str, int | None, float | None]] = set()
    for visit in visits:
        told = lists[visit.host]
        processes = {(told.host, rank.pid, rank.started_at) for rank in told.ranks}
        if not processes or not processes <= known:
            kept.append(visit)
        known |= processes
    return kept


def _only_some(visit: HostVisit, told: RankList, job: str | None) -> Missing | None:
    if visit.missing is None:
        return None
    detail = f"only {len(visit.looks)} of its looks arrived (ranks {ranks_of(told, job)}): {visit.missing.detail}"
    return visit.missing.model_copy(update={"detail": detail})
