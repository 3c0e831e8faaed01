"""What the holder of a token may see and do: all of it, or the jobs of some users or namespaces, or only reading.

A line of a token file is a token, and after it what binds it:

    8f3a…                                         everything, as ever
    77c1… users=1001,alice may=read               what was found about the jobs of these users; no new look at them
    1d0e… namespaces=team-a                       the jobs whose pods all run in that namespace

Of several bounds each must hold. What cannot be told of a job counts as not allowed.
"""

import pwd
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shared.errors import InvalidSettings, quoted
from shared.wire.job_names import NAMESPACE, USER

# users=1001,c1000,alice    namespaces=team-a,team-b    may=read
_BOUND = re.compile(r"(users|namespaces|may)=([\w.,$-]{1,4096})", re.ASCII)
_USER, _NAMESPACE = re.compile(USER), re.compile(NAMESPACE)

_ADVICE = "write TOKEN, then none or some of users=1001,alice namespaces=team-a may=read (or may=look)"


@dataclass(frozen=True)
class Access:
    """What one caller may see and do. None: not bound."""

    users: frozenset[str] | None = None
    """User ids as agents report them: `1001`, or `c1000` inside a container."""
    namespaces: frozenset[str] | None = None
    may_look: bool = True
    """May it have jobs looked at, and say something to incidents? Else it reads what is there."""

    @property
    def is_bound(self) -> bool:
        """Does it see some jobs only?"""
        return self.users is not None or self.namespaces is not None

    def sees(self, user: str | None, namespaces: Iterable[str | None]) -> bool:
        """May it know of a job of `user` that runs in these namespaces (None in it: some rank's is not known)?"""
        if self.users is not None and user not in self.users:
            return False
        if self.namespaces is None:
            return True
        where = set(namespaces)
        return bool(where) and where <= self.namespaces


UNBOUND = Access()


def parse_token_line(line: bytes) -> tuple[bytes, Access]:
    """Return the token of a line of a token file, and what it may do. Raises InvalidSettings, and names no token.

    Where no word behind the first has a `=`, all of the line is the token, as it was before there were bounds.
    """
    token, *words = line.split()
    if not any(b"=" in word for word in words):
        return line, UNBOUND
    found: dict[str, frozenset[str]] = {}
    for word in words:
        match = _BOUND.fullmatch(word.decode("latin-1"))
        if match is None or match[1] in found:
            raise InvalidSettings("a line of the token file cannot be read behind its token", advice=_ADVICE)
        found[match[1]] = _parsed(match[1], match[2])
    may = found.get("may", frozenset({"look"}))
    return token, Access(found.get("users"), found.get("namespaces"), may_look="look" in may)


def _parsed(name: str, text: str) -> frozenset[str]:
    return frozenset(_PARSERS[name](value) for value in text.split(","))


def _user(text: str) -> str:
    """Return a user's id. A name is looked up here: where nodes number their users otherwise, write the number."""
    if _USER.fullmatch(text):
        return text
    try:
        return str(pwd.getpwnam(text).pw_uid)
    except KeyError as error:
        raise InvalidSettings(
            f"the token file names a user {quoted(text)} whom this machine does not know", advice="write the user's id"
        ) from error


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise InvalidSettings(f"the token file names {quoted(text)}, which is no namespace", advice=_ADVICE)
    return text


def _right(text: str) -> str:
    if text not in ("read", "look"):
        raise InvalidSettings(f"the token file allows {quoted(text)}, which is no right", advice=_ADVICE)
    return text


_PARSERS: dict[str, Callable[[str], str]] = {"users": _user, "namespaces": _namespace, "may": _right}
