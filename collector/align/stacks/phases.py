"""What a rank is at work on that takes minutes in a healthy job, by its stack, and how long that may be.

A checkpoint, a compilation or an evaluation makes the other ranks wait as a hang does.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from shared.answer.words import Cause


class Phase(StrEnum):
    """What a job may be busy with between its steps."""

    CHECKPOINT = "checkpoint"
    COMPILE = "compile"
    EVALUATION = "evaluation"
    IMPORT = "import"
    FIRST_STEP = "first_step"
    STORAGE = "storage"
    DATA_SET = "data_set"


ALLOWED_SECONDS = {
    Phase.CHECKPOINT: 900.0,  # hundreds of gigabytes to a shared file system
    Phase.COMPILE: 900.0,  # torch.compile with max-autotune; graphs for inference
    Phase.EVALUATION: 900.0,
    Phase.IMPORT: 300.0,  # a thousand ranks import from one NFS server
    Phase.FIRST_STEP: 600.0,  # NCCL's rendezvous, warm caches, the first compilation
    Phase.STORAGE: 300.0,  # a shard of the data that must be fetched first
    Phase.DATA_SET: 1800.0,  # one rank tokenizes for all; Gloo's own timeout ends the others' wait then
}
"""How long a healthy job may stand still in each."""

WORK_BY_CAUSE = {Cause.CHECKPOINT: Phase.CHECKPOINT, Cause.COMPILE: Phase.COMPILE, Cause.IMPORT: Phase.IMPORT}
"""Causes that are such work themselves, where the rank is at it."""

# evaluate (transformers/trainer.py), validation_step (user module of Lightning), _run_eval_epoch, eval_one_epoch
_EVALUATION = re.compile(r"(?:^|_)(?:eval|evaluate|evaluation|validate|validation|validating)(?:_|$)", re.IGNORECASE)
# save_checkpoint (deepspeed/runtime/engine.py), _save_checkpoint (transformers/trainer.py), save_state_dict
_SAVING = re.compile(r"(?:^|_)(?:save|load)_(?:checkpoint|model|state|sharded)|(?:^|_)checkpoint(?:er|ing)?$")

# decorate_context (torch/utils/_contextlib.py): what `@torch.no_grad()` and `@torch.inference_mode()` put around
_WITHOUT_GRADIENTS = ("decorate_context", "torch/utils/_contextlib.py")
_MODULE_CALL = ("_call_impl", "torch/nn/modules/module.py")


# map (datasets/arrow_dataset.py:3079); iflatmap_unordered (datasets/utils/py_utils.py:700): of all the job's data, once
_PREPARES_DATA = re.compile(r"(^|-packages/)datasets/(arrow_dataset|builder|dataset_dict|load|utils/py_utils)\.py$")
# map (datasets/arrow_dataset.py:3079), load_dataset (datasets/load.py): not `__getitem__`, which a training step calls
_MAKES_DATA_SET = re.compile(
    r"map|filter|_map_single|_prepare_split\w*|iflatmap_unordered|load_dataset|download_and_prepare|save_to_disk|sort"
)


class _Frame(Protocol):
    """One frame: of a stack, or of a diagnosis."""

    @property
    def function(self) -> str: ...

    @property
    def file(self) -> str: ...


def phase_of_stack(frames: Sequence[_Frame]) -> Phase | None:
    """Return the phase that a stack shows, given outermost first: by the innermost function whose name tells.

    Whatever is below a call that makes a data set is a part of that. Else a model that runs below a function without
    gradients is evaluated, or generates.
    """
    if any(_makes_data_set(frame) for frame in frames):
        return Phase.DATA_SET
    named = next(filter(None, map(_by_function, reversed(frames))), None)
    if named is not None:
        return named
    within = False
    for frame in frames:
        within = within or _is(frame, _WITHOUT_GRADIENTS)
        if within and _is(frame, _MODULE_CALL):
            return Phase.EVALUATION
    return None


def prepares_data(frames: Sequence[_Frame]) -> bool:
    """Is a data set made ready before the job begins, which one rank does for all?"""
    return any(_PREPARES_DATA.search(frame.file) for frame in frames)


def _makes_data_set(frame: _Frame) -> bool:
    name = frame.function.rpartition(".")[2]
    return _MAKES_DATA_SET.fullmatch(name) is not None and _PREPARES_DATA.search(frame.file) is not None


def _is(frame: _Frame, wanted: tuple[str, str]) -> bool:
    function, file = wanted
    return frame.function.rpartition(".")[2] == function and frame.file.endswith(file)


def _by_function(place: _Frame) -> Phase | None:
    name = place.function.rpartition(".")[2]
    if "train" in name.lower():
        return None  # train_and_evaluate is no evaluation
    if _EVALUATION.search(name):
        return Phase.EVALUATION
    return Phase.CHECKPOINT if _SAVING.search(name) else None
