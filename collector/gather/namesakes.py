"""Jobs of several users with the same name: which user's is meant, and which ranks belong to it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from collector.align.job_owner import exited_apart
from shared.errors import InvalidInput, quoted
from shared.shell_commands import listed
from shared.wire.job_names import goes_by, qualified, with_job_name
from shared.wire.snapshot import Identity, RankList


def users_of_names(lists: Iterable[RankList]) -> Mapping[str, set[str]]:
    """Return who is known to have ranks of each name, living or ended."""
    users: dict[str, set[str]] = defaultdict(set)
    for found in lists:
        for identity in _told_in(found):
            if identity.job is not None:
                users[identity.job].update(() if identity.user is None else (identity.user,))
    return users


def user_of(job: str | None, lists: Iterable[RankList]) -> str | None:
    """Return the user whose job is named `job`; None if unknown.

    Raises InvalidInput where several users have one of that name.
    """
    if job is None:
        return None
    ranks = [identity for found in lists for identity in _told_in(found) if goes_by(identity, job)]
    users = {identity.user for identity in ranks} - {None}
    if len(users) < 2:
        return next(iter(users), None)
    names = sorted({qualified(identity.job or "", identity.user) for identity in ranks})
    raise InvalidInput(
        f"{len(users)} users have a job named {quoted(job)}",
        advice=f"ask for one of them: {listed(names)}",
    )


def _told_in(found: RankList) -> Iterator[Identity]:
    yield from found.ranks
    yield from (gone.identity for gone in found.exited if gone.identity is not None)


def lists_apart(lists: Iterable[RankList], job: str | None, user: str | None) -> tuple[RankList, ...]:
    """Return the lists with the name `job` on the ranks of that job and user, and on no others."""
    return tuple(_list_apart(found, job, user) for found in lists)


def _list_apart(found: RankList, job: str | None, user: str | None) -> RankList:
    ranks = tuple(with_job_name(identity, job, user) for identity in found.ranks)
    exited = tuple(exited_apart(gone, job, user) for gone in found.exited)
    return found.model_copy(update={"ranks": ranks, "exited": exited})
