"""Host lists: many agents written as few characters, `node[01-16]:8471,gpu[1,3-5]`.

The notation is the one of Slurm, pdsh and ClusterShell. An item is a name, `name:port`, or a URL; brackets
in a name or port list numbers and keep leading zeros. `[::1]:8471` is an IPv6 address, as in URLs.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from pydantic import Field

from shared.errors import InvalidHostlist, quoted
from shared.value import Value

DEFAULT_PORT = 8471
"""The agent's own default."""

MOST_AGENTS = 131_072
"""A longer list is refused: no cluster is that large and the text may be hostile."""

MOST_CHARACTERS = 8_388_608
"""Enough for every agent's full name, one per line."""

_ADVICE = "write agents as node[01-16]:8471,gpu[1,3-5] or http://node7:8471, separated by commas or spaces"
_ADVICE_NAMES = "write hosts as node[01-16],gpu[1,3-5]; ports and users belong into ~/.ssh/config"
_RANGES = re.compile(r"\[([0-9,\- ]{1,4096})\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]{0,252})")
_SSH_NAME = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}@)?"
    r"(?:[A-Za-z0-9_][A-Za-z0-9_.\-]{0,252}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f.]{0,15}){2,8})"
)
"""As ssh(1) takes it, an IPv6 address without brackets; never a port, nor an option, which begins with a dash."""

_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\]")
_TRAILING_PORT = re.compile(r"(.*?)(?::([0-9]{1,5}))?")


class AgentAddress(Value):
    """Where one agent is asked."""

    host: str = Field(description="The node as the list names it, with its port where two agents share a name.")
    url: str = Field(description="Base URL without a trailing slash, e.g. `http://node07:8471`.")


def parse_hostlist(text: str) -> tuple[AgentAddress, ...]:
    """Read a host list, in its order and with repetitions folded. Raises InvalidHostlist, which quotes the input."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidHostlist(f"a host list of {len(text)} characters is too long", advice=_ADVICE)
    return fold_addresses(_address(name) for item in _items(text) for name in _expand(item))


def parse_host_names(text: str) -> tuple[str, ...]:
    """Read a host list for ssh: `user@` is allowed before a name, ports and URLs are not. Raises InvalidHostlist."""
    if len(text) > MOST_CHARACTERS:
        raise InvalidHostlist(f"a host list of {len(text)} characters is too long", advice=_ADVICE_NAMES)
    names: dict[str, None] = {}
    for count, name in enumerate(name for item in _items(text) for name in _expand(item)):
        if _SSH_NAME.fullmatch(name) is None:
            raise InvalidHostlist(f"{quoted(name)} does not name a host", advice=_ADVICE_NAMES)
        if count >= MOST_AGENTS:
            raise InvalidHostlist(f"the host list names more than {MOST_AGENTS} hosts", advice=_ADVICE_NAMES)
        names[name] = None
    return tuple(names)


def fold_addresses(addresses: Iterable[AgentAddress]) -> tuple[AgentAddress, ...]:
    """Drop repetitions, keep the order, and distinguish agents of one host by port and path, else by URL."""
    by_url: dict[str, AgentAddress] = {}
    for count, address in enumerate(addresses):
        if count >= MOST_AGENTS:  # repetitions count too: they cost time
            raise InvalidHostlist(f"the host list names more than {MOST_AGENTS} agents", advice=_ADVICE)
        by_url.setdefault(address.url, address)
    sharing = Counter(name for address in by_url.values() for name in {address.host, _place(address)})
    names = (next(filter(lambda name: sharing[name] == 1, (a.host, _place(a))), a.url) for a in by_url.values())
    return tuple(a.model_copy(update={"host": name}) for a, name in zip(by_url.values(), names, strict=True))


def _place(address: AgentAddress) -> str:
    """Port and path with the host, but for the scheme."""
    return address.url.partition("://")[2]


def _items(text: str) -> Iterator[str]:
    """Split at commas and white space outside of brackets."""
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character in "[]":
            depth += 1 if character == "[" else -1
            if depth not in (0, 1):
                raise InvalidHostlist(f"brackets do not match in {quoted(text)}", advice=_ADVICE)
        elif depth == 0 and (character == "," or character.isspace()):
            yield from filter(None, (text[start:position],))
            start = position + 1
    if depth != 0:
        raise InvalidHostlist(f"a bracket is not closed in {quoted(text)}", advice=_ADVICE)
    yield from filter(None, (text[start:],))


def _expand(item: str) -> Iterator[str]:
    """Write out every bracket of `item`: `gpu[1,3-4]` gives `gpu1`, `gpu3`, `gpu4`."""
    parts = _RANGES.split(item)
    choices = [_numbers(part, item) if index % 2 else [part] for index, part in enumerate(parts)]
    size = 1
    for choice in choices:
        size *= len(choice)
    if size > MOST_AGENTS:
        raise InvalidHostlist(f"{quoted(item)} names more than {MOST_AGENTS} agents", advice=_ADVICE)
    return ("".join(chosen) for chosen in product(*choices))


def _numbers(ranges: str, item: str) -> list[str]:
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _SPAN.fullmatch(part.strip())
        if match is None:
            raise InvalidHostlist(f"{quoted(part)} in {quoted(item)} is not a range of numbers", advice=_ADVICE)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MOST_AGENTS - len(numbers):
            raise InvalidHostlist(f"the range {quoted(part)} in {quoted(item)} is backwards or too long")
        numbers.extend(str(number).zfill(len(match[1])) for number in range(first, last + 1))
    return numbers


def _address(item: str) -> AgentAddress:
    scheme, separator, rest = item.partition("://")
    if not separator:
        scheme, rest = "http", item
    if scheme not in ("http", "https"):
        raise InvalidHostlist(f"{quoted(item)} is neither http nor https", advice=_ADVICE)
    name, port, path = _split(rest, item)
    if port is None and not separator:
        port = str(DEFAULT_PORT)
    shown = f"[{name}]" if ":" in name else name
    return AgentAddress(host=name, url=f"{scheme}://{shown}{f':{port}' if port else ''}{path}")


def _split(rest: str, item: str) -> tuple[str, str | None, str]:
    authority, slash, path = rest.partition("/")
    match = _TRAILING_PORT.fullmatch(authority)
    name, port = (match[1], match[2]) if match else (authority, None)
    ipv6 = _IPV6.fullmatch(name)
    if not (_NAME.fullmatch(name) if ipv6 is None else _is_ipv6(ipv6[1])):
        raise InvalidHostlist(f"{quoted(item)} does not name a host", advice=_ADVICE)
    if port is not None and not 1 <= int(port) <= 65_535:
        raise InvalidHostlist(f"{quoted(item)} has no valid port", advice=_ADVICE)
    if any(not c.isprintable() or c in "?#" for c in path):
        raise InvalidHostlist(f"{quoted(item)} is not a base URL", advice=_ADVICE)
    shown_port = None if port is None else str(int(port))
    return (ipv6[1] if ipv6 else name.lower()), shown_port, f"{slash}{path}".rstrip("/")


def _is_ipv6(text: str) -> bool:
    try:
        return bool(ipaddress.IPv6Address(text).compressed)
    except ValueError:
        return False
