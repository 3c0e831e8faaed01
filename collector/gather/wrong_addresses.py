"""Does each address lead to the node that it names? A wrong DNS entry leads to another node's agent.

The ranks of the intended node are then unreachable, not absent. These are not contradictions:

- A number in place of a name, a pod's address, a name with and without its domain.
- Two names of one node (`node07` and `ib-node07`): names contradict each other only within one series, as `node07` and
  `node09` do, which differ in numbers alone.
- A node that calls itself otherwise throughout (`node07` answers as `gpu-7`), or two whose names are swapped: all are
  reached. Only where the agent that answers has an address of its own, which answers as it should, is another too many.
"""

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from collector.hostlists import AgentAddress
from shared.errors import quoted
from shared.missing import Missing, Reason

_NUMBER = re.compile(r"[0-9]{1,18}")


def not_reached(answers: Iterable[tuple[AgentAddress, str | None]]) -> dict[str, Missing]:
    """Return by URL which addresses led to another node than they name, and why that is believed.

    `answers`: the addresses that answered, each with the host that the answer says it is from.
    """
    reached = [(address, _named(address), _short(host)) for address, host in answers if host is not None]
    own = {host: address for address, named, host in reached if named is not None and named == host}
    found = {}
    for address, named, host in reached:
        if named is not None and named != host and host in own and named not in own and _is_a_series(named, host):
            found[address.url] = Missing(
                source=address.url,
                reason=Reason.UNREACHABLE,
                detail=f"it leads to {quoted(host)}, whose own address {own[host].url} answers, too: "
                f"{quoted(named)} was not asked; check what its name resolves to",
            )
    return found


def _named(address: AgentAddress) -> str | None:
    """Return the short name of the node that an address names; None where it names none."""
    host = urlsplit(address.url).hostname or ""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _short(host)
    return None


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _is_a_series(one: str, other: str) -> bool:
    """Do two names differ in their numbers alone? `node7` and `node07` do not differ."""
    numbers = [[int(number) for number in _NUMBER.findall(name)] for name in (one, other)]
    return _NUMBER.sub("0", one) == _NUMBER.sub("0", other) and numbers[0] != numbers[1]
