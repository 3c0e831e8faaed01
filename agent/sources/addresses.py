"""The addresses of this node as one process sees them: by these other processes, and RAS, know it."""

import ipaddress
import re

from agent.errors import Gone
from agent.procfs import ProcFs
from shared.errors import NotPermitted

_MOST_BYTES = 4 * 1024 * 1024
_MOST_ADDRESSES = 256
#               |-- 10.3.0.14
#                  /32 host LOCAL
_LOCAL = re.compile(r"\|-- (\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})\n +/32 host LOCAL$", re.MULTILINE)
# fd000000000000000000000000000014 02 40 00 80     eth0
_INET6 = re.compile(r"^([0-9a-f]{32}) ", re.MULTILINE)


def addresses_of(procfs: ProcFs, pid: int) -> tuple[str, ...]:
    """Return the addresses of the network namespace of process `pid` that others can reach, sorted."""
    found = {address for address in _LOCAL.findall(_read(procfs, pid, "fib_trie")) if not address.startswith("127.")}
    for digits in _INET6.findall(_read(procfs, pid, "if_inet6")):
        address = ipaddress.IPv6Address(int(digits, 16))
        if not address.is_loopback:
            found.add(str(address))
    return tuple(sorted(found)[:_MOST_ADDRESSES])


def _read(procfs: ProcFs, pid: int, name: str) -> str:
    try:
        return procfs.text(pid, f"net/{name}", most=_MOST_BYTES)
    except (Gone, NotPermitted):
        return ""
