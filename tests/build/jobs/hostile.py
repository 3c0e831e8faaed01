"""A job whose names and lines want to break out of a terminal, a page or a ticket, and the verdict on it."""

from typing import Any

from collector.align.expected import Expected, Unanswered
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.missing import Missing, Reason
from shared.wire.snapshot import NodeSnapshot, Process, Syscall
from shared.wire.stacks import Frame
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.logged import logs_of
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import Seen

EVIL = (
    "\x1b[2J\r\nrm -rf\u202e\x07\ud800 ```</script><img src=x onerror=1> @everyone **b** [l](http://e.vil) <!channel>"
)
"""Tries a terminal, a text direction, a fence, HTML, a mention, markup and a link."""


def hostile() -> Diagnosis:
    """The verdict on a job whose names and lines want to break out."""
    return diagnose(*hostile_job())


def hostile_job() -> tuple[list[NodeSnapshot], Expected]:
    """What is seen of such a job."""
    frame = Frame(EVIL, f"/{EVIL}.py", 3)
    looks = looks_without({0: Seen((frame, frame))}, host=EVIL)
    for rank in range(4):
        looks = with_rank(looks, rank, logs=logs_of([EVIL, f"ValueError: {EVIL}", "x" * 5000], rank=rank, path=EVIL))
    process = Process(
        pid=1000, state="S", name=EVIL, command=EVIL, wchan=EVIL, syscall=Syscall(name="read", fd=1, target=EVIL)
    )
    looks = [_renamed(look) for look in with_rank(looks, 0, process=process)]
    missing = Missing(source=EVIL, reason=Reason.UNREADABLE, detail=EVIL)
    silent = Unanswered(host=EVIL + "2", missing=missing)
    return looks, Expected(job=EVIL, world_size=4, unanswered=(silent,))


def _renamed(look: NodeSnapshot) -> NodeSnapshot:
    """The look with hostile names of the job, its group, its operation and a GPU."""
    ranks = []
    for rank in look.ranks:
        trace: Any = rank.recorder
        groups = tuple(group.model_copy(update={"name": EVIL, "description": EVIL}) for group in trace.groups)
        signatures = tuple(signature._replace(op=EVIL) for signature in trace.signatures)
        ranks.append(
            rank.model_copy(
                update={
                    "identity": rank.identity.model_copy(update={"job": EVIL, "gpu": EVIL}),
                    "recorder": trace.model_copy(update={"groups": groups, "signatures": signatures}),
                }
            )
        )
    return look.model_copy(update={"ranks": tuple(ranks)})
