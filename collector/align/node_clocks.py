"""Step 1: nodes whose clocks are far off, so that what happened on them can be put beside what happened elsewhere.

All nodes of a job are looked at together, and its processes begin together. A node that was looked at at another time
than most, by its own clock, and whose processes began at another time by just as much, has another clock. Either alone
tells nothing: looks may be taken one node after the other, and one node's ranks may have been started anew.
"""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median_low

from collector.align.thresholds import NEAR_NS
from shared.wire.snapshot import RankSnapshot


def clocks_off(looks: Iterable[RankSnapshot]) -> dict[str, int]:
    """Return by how many nanoseconds clocks are ahead of most others', by host; those that are not are left out."""
    looked: dict[str, int] = {}
    begun: dict[str, list[float]] = defaultdict(list)
    for look in looks:
        identity, at = look.identity, look.looked_at_ns
        host, started = identity.host, identity.started_at
        if host is not None and at is not None and started is not None:
            looked[host] = max(at, looked.get(host, at))
            begun[host].append(started)
    if not looked or max(looked.values()) - min(looked.values()) <= NEAR_NS:
        return {}
    started_ns = {host: int(median_low(times) * 1e9) for host, times in begun.items()}
    usual_look, usual_start = median_low(looked.values()), median_low(started_ns.values())
    apart = {host: (at - usual_look, started_ns[host] - usual_start) for host, at in looked.items()}
    return {
        host: by_look
        for host, (by_look, by_start) in sorted(apart.items())
        if abs(by_look) > NEAR_NS and abs(by_look - by_start) <= NEAR_NS
    }
