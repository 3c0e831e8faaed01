"""Where ranks' own RAS threads listen: the sockets of NCCL's RAS, in each rank's network namespace."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent.errors import Gone, Unavailable, missing_for
from agent.find.choose_ranks import Rank
from agent.proc.socket_tables import holds_sockets, sockets_of
from agent.sources.look_context import LookContext
from shared.errors import NotPermitted
from shared.missing import Missing, Reason
from shared.server.addresses import Address

PORT = 28028
# localhost:28028        [::1]:9000        0.0.0.0:28030
_PORT = re.compile(r".{0,255}:(\d{1,5})")
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class RasAddress(NamedTuple):
    """Where ranks listen: a network namespace, as the kernel words it, and an address in it."""

    namespace: str
    address: Address


class RasRank(NamedTuple):
    """One rank behind an endpoint, with the pid by which RAS knows it."""

    rank: Rank
    inner_pid: int


def endpoints_of(
    ranks: Iterable[Rank], context: LookContext
) -> tuple[dict[RasAddress, list[RasRank]], tuple[Missing, ...]]:
    """Return who is behind each endpoint, and which ranks have none that can be told."""
    endpoints: dict[RasAddress, list[RasRank]] = defaultdict(list)
    missing: list[Missing] = []
    for rank in ranks:
        try:
            endpoint = _endpoint_of(rank, context)
            if endpoint is not None:
                endpoints[endpoint].append(RasRank(rank, context.procfs.inner_pid(rank.stat.pid)))
            elif rank.environment.get("NCCL_RAS_ENABLE") == "0":
                raise Unavailable(Reason.NOT_ENABLED, "the job has switched RAS off: NCCL_RAS_ENABLE=0")
        except (Unavailable, NotPermitted) as error:
            missing.append(missing_for("ras", error))
        except Gone:
            continue
    return dict(endpoints), tuple(dict.fromkeys(missing))


def has_strangers(behind: Sequence[RasRank], context: LookContext, endpoint: RasAddress) -> bool:
    """Do more sockets share an endpoint than known ranks are behind it? Any of them may be the one that answers."""
    listening = context.sockets(behind[0].rank.stat.pid).listening(endpoint.address.port)
    return sum(_address(address) == endpoint.address for address in listening.values()) > len(behind)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(_ANYWHERE.get(host.strip("[]"), host.strip("[]")), int(port))


def _endpoint_of(rank: Rank, context: LookContext) -> RasAddress | None:
    """Return where the rank's own RAS thread listens; None where it does not."""
    pid = rank.stat.pid
    if not holds_sockets(context.procfs, pid):
        return None
    named = _PORT.fullmatch(rank.environment.get("NCCL_RAS_ADDR", ""))
    listening = context.sockets(pid).listening(PORT if named is None else int(named[1]))
    own = sockets_of(context.procfs, pid) if listening else ()
    address = next((listening[inode] for inode in own if inode in listening), None)
    return None if address is None else RasAddress(context.procfs.link(pid, "ns/net"), _address(address))
