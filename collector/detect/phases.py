"""What a job is at work on while it stands still, by the stacks in a diagnosis, and how long that may take.

A checkpoint, a compilation or an evaluation makes the other ranks wait as a hang does. An alarm is held back for as
long as a healthy job takes for it.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

from collector.detect.limits import UNREACHABLE_SECONDS
from shared.answer.diagnosis import Diagnosis, Finding, Place, Where
from shared.answer.words import Cause, Kind
from shared.rank_sets import unfold


class Phase(StrEnum):
    """What a job may be busy with between its steps."""

    CHECKPOINT = "checkpoint"
    COMPILE = "compile"
    EVALUATION = "evaluation"
    IMPORT = "import"
    FIRST_STEP = "first_step"
    STORAGE = "storage"


ALLOWED_SECONDS = {
    Phase.CHECKPOINT: 900.0,  # hundreds of gigabytes to a shared file system
    Phase.COMPILE: 900.0,  # torch.compile with max-autotune; graphs for inference
    Phase.EVALUATION: 900.0,
    Phase.IMPORT: 300.0,  # a thousand ranks import from one NFS server
    Phase.FIRST_STEP: 600.0,  # NCCL's rendezvous, warm caches, the first compilation
    Phase.STORAGE: 300.0,  # a shard of the data that must be fetched first
}
"""How long a healthy job may stand still in each."""

_BY_CAUSE = {
    Cause.CHECKPOINT: Phase.CHECKPOINT,
    Cause.COMPILE: Phase.COMPILE,
    Cause.IMPORT: Phase.IMPORT,
    Cause.RENDEZVOUS: Phase.FIRST_STEP,
    Cause.FILESYSTEM: Phase.STORAGE,
    Cause.DATALOADER: Phase.STORAGE,
}

# evaluate (transformers/trainer.py), validation_step (user module of Lightning), _run_eval_epoch, eval_one_epoch
_EVALUATION = re.compile(r"(?:^|_)(?:eval|evaluate|evaluation|validate|validation|validating)(?:_|$)", re.IGNORECASE)
# save_checkpoint (deepspeed/runtime/engine.py), _save_checkpoint (transformers/trainer.py), save_state_dict
_SAVING = re.compile(r"(?:^|_)(?:save|load)_(?:checkpoint|model|state|sharded)|(?:^|_)checkpoint(?:er|ing)?$")

_NEVER_WORK = frozenset(
    {Kind.RANK_EXITED, Kind.RANK_STOPPED, Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION, Kind.P2P_DEADLOCK}
)
"""What no phase of a healthy job looks like."""
_UNSEEN = frozenset({Kind.RANK_UNREACHABLE, Kind.RANK_MISSING})


def phase_of(diagnosis: Diagnosis) -> Phase | None:
    """Return what the culprit of the first finding is at work on, else what some ranks are; None: nothing of these."""
    if diagnosis.findings:
        finding = diagnosis.findings[0]
        if finding.kind in _NEVER_WORK:
            return None
        if finding.kind is Kind.STARTUP_INCOMPLETE:
            return Phase.FIRST_STEP
        by_cause = _BY_CAUSE.get(finding.cause)
        return by_cause or next(filter(None, map(_by_function, _places(diagnosis, finding))), None)
    stacks = (place for each in diagnosis.stack_classes for place in each.frames)
    return next(filter(None, map(_by_function, stacks)), None)


def held_for(diagnosis: Diagnosis, phase: Phase | None, timeout_seconds: float | None, usual_seconds: float) -> float:
    """Return how long ranks must have stood still until the first finding is an alarm, in seconds.

    Where ranks could not be looked at, their node may stand still for a while, and what is known of the others is less.
    """
    finding = diagnosis.findings[0]
    is_work = phase is not None and finding.kind not in _NEVER_WORK
    allowed = max(ALLOWED_SECONDS[phase], usual_seconds) if is_work and phase is not None else 0.0
    if is_seen_in_part(diagnosis):
        allowed = max(allowed, UNREACHABLE_SECONDS)
    return allowed if timeout_seconds is None else min(allowed, timeout_seconds)


def is_seen_in_part(diagnosis: Diagnosis) -> bool:
    """Were there ranks that could not be looked at? On a busy machine that may be otherwise the next time."""
    coverage = diagnosis.coverage
    unseen = any(finding.kind in _UNSEEN for finding in diagnosis.findings[:1])
    return unseen or coverage.answered < max(coverage.seen, coverage.expected or 0)


def _places(diagnosis: Diagnosis, finding: Finding) -> Iterator[Place]:
    """Return the frames of the culprits; where nobody is named, those of the ranks that do not wait."""
    where = finding.where or Where()
    yield from (place for place in (where.user, where.call, where.library) if place is not None)
    culprits, victims = set(finding.culprit_ranks), set(unfold(finding.victims))
    for each in diagnosis.stack_classes:
        ranks = unfold(each.ranks)
        if not culprits.isdisjoint(ranks) if culprits else victims.isdisjoint(ranks):
            yield from reversed(each.frames)


def _by_function(place: Place) -> Phase | None:
    name = place.function.rpartition(".")[2]
    if "train" in name.lower():
        return None  # train_and_evaluate is no evaluation
    if _EVALUATION.search(name):
        return Phase.EVALUATION
    return Phase.CHECKPOINT if _SAVING.search(name) else None
