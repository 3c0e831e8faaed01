"""Whose processes are told of: an allow-list of users, by name or number."""

import pwd

from agent.errors import Gone
from agent.procfs import ProcFs
from shared.errors import InvalidSettings, NotPermitted, quoted


def parse_users(text: str) -> frozenset[int]:
    """Read `alice,1234` as user ids. Raises InvalidSettings, which quotes the input."""
    return frozenset(map(_uid, text.replace(",", " ").split()))


def _uid(word: str) -> int:
    if word.isdecimal() and word.isascii() and len(word) <= 10:
        return int(word)
    try:
        return pwd.getpwnam(word).pw_uid
    except KeyError as error:
        raise InvalidSettings(
            f"{quoted(word)} is no user of this machine", advice="write names or user ids, e.g. alice,1234"
        ) from error


def owner_of(procfs: ProcFs, pid: int) -> int | None:
    """Return the real user id of a process, None of one that is gone."""
    try:
        words = procfs.fields(pid, "status").get("Uid", "").split()
    except (Gone, NotPermitted):
        return None
    return int(words[0]) if words and words[0].isdecimal() else None
