"""What a flight record may take of the agent's memory, whichever way it came."""

from agent.errors import Unavailable
from shared.json_bounds import json_cost
from shared.missing import Reason
from shared.wire.trace import Trace

_MOST_KEPT = 32 * 1024 * 1024
"""Of memory, for the tables of one rank's record: 20,000 operations of which no two have the same shape."""
_TABLES = {"groups", "signatures", "call_sites", "marks"}


def bounded(trace: Trace) -> Trace:
    """Return a record whose tables are not too much to keep of one rank. Raises Unavailable of another."""
    kept = json_cost(trace.model_dump_json(include=_TABLES).encode())
    if kept > _MOST_KEPT:
        told = f"groups, signatures and stacks that would take {kept} bytes of memory"
        raise Unavailable(Reason.REFUSED, f"the recorder holds {told}; at most {_MOST_KEPT} are kept of a rank")
    return trace
