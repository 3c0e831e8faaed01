"""All kinds of log lines that matter for a hang (`rows.toml`), and the parts that lines of different kinds share."""

import re

from shared.formats.recorder.operations import CANONICAL_OPS
from shared.packs import line_rows
from shared.wire.log_events import EventKind

MATCHERS = line_rows(__file__, "rows.toml", EventKind)

# [PG ID 2 PG GUID 9(dp) Rank 4]        [PG 0 (default_pg) Rank 3]        [PG 1 Rank 0]        the rank is the group's
GROUP = re.compile(
    r"\[PG (?:ID )?(?P<group_id>\d{1,9})(?: PG GUID (?P<group>\d{0,9}))? ?(?:\((?P<description>[^()\]]{0,100})\))? ?"
    r"Rank (?P<group_rank>\d{1,7})\]"
)
GROUP_HINT = "[PG "

_OPS = CANONICAL_OPS | {
    "allreduce_sparse": "all_reduce",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "recvanysource": "recv",
}


def canonical_op(op_type: str) -> str:
    """Return the flight recorder's spelling of c10d's OpType, e.g. `all_reduce` for `ALLREDUCE`."""
    return _OPS.get(op_type.lower(), op_type.lower())
