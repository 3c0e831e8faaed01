"""What the audit log keeps of a look: whose ranks were looked at, and what could not be seen."""

from collections.abc import Mapping
from typing import Any

from shared.missing import Missing
from shared.server.audit import AuditLog
from shared.wire.snapshot import NodeSnapshot


def note_look(audit: AuditLog, taken: NodeSnapshot, who: Mapping[str, str], **details: Any) -> None:
    """Write down one look that `who` asked for."""
    jobs = sorted({rank.identity.job or "" for rank in taken.ranks})
    users = sorted({rank.identity.user or "" for rank in taken.ranks})
    pids = [rank.identity.pid for rank in taken.ranks]
    audit.write(
        **details, **who, jobs=jobs, users=users, pids=pids, result=_result(taken), took_seconds=taken.took_seconds
    )


def _result(taken: NodeSnapshot) -> list[str]:
    """Say what could not be seen, once per source and reason."""
    parts = [*taken.missing, *(getattr(rank, name) for rank in taken.ranks for name in type(rank).model_fields)]
    return sorted({f"{part.source} {part.reason}"[:100] for part in parts if isinstance(part, Missing)})
