"""Sends one rank of somebody else's program astray: put this folder on PYTHONPATH, and say how in LAB_ASTRAY.

`asleep:2`, `branch:2`, `starves:2`: when rank 2 comes to its optimizer for the fourth time it sleeps, or takes part in
a collective that nobody else knows of; or its fourth batch does not come. All ranks tell the test when they are there.
"""

import importlib.abc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from going_astray import check_early, fetch_quota

LAST = 4
"""The step at which it happens; the groups have then a history that agrees."""


def reach(counted: Iterator[int], faulty_rank: int, go_astray: Callable[[], None]) -> None:
    """Count one step of this rank, and see whether it is the last."""
    import torch.distributed as dist

    if dist.is_initialized() and next(counted) == LAST:
        with open(os.environ["UNHANG_TEST_SAID"], "a") as said:
            said.write(f"{dist.get_rank()} {os.getpid()}\n")
        if dist.get_rank() == faulty_rank:
            go_astray()


def change_optimizer(module: Any, reached: Callable[[], None]) -> None:
    """Count steps of every optimizer."""
    module.register_optimizer_step_pre_hook(lambda *_: reached())


def change_fetch(module: Any, reached: Callable[[], None]) -> None:
    """Count batches of every data set."""
    for fetcher in (module._MapDatasetFetcher, module._IterableDatasetFetcher):

        def fetch_counted(self: object, index: object, fetch: Any = fetcher.fetch) -> object:
            reached()
            return fetch(self, index)

        fetcher.fetch = fetch_counted


FAULTS = {
    "asleep": ("torch.optim.optimizer", change_optimizer, fetch_quota),
    "branch": ("torch.optim.optimizer", change_optimizer, check_early),
    "starves": ("torch.utils.data._utils.fetch", change_fetch, fetch_quota),
}


class Change(importlib.abc.MetaPathFinder):
    """Changes one module as it is imported."""

    def __init__(self, fault: str, rank: int) -> None:
        self._name, self._change, go_astray = FAULTS[fault]
        self._reached = partial(reach, itertools.count(1), rank, go_astray)

    def find_spec(self, name: str, path: Any, target: object = None) -> ModuleSpec | None:
        """Find it where it is, with a loader that changes it."""
        spec = PathFinder.find_spec(name, path) if name == self._name else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._change(module, self._reached)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "LAB_ASTRAY" in os.environ:
    _fault, _, _rank = os.environ["LAB_ASTRAY"].partition(":")
    sys.meta_path.insert(0, Change(_fault, int(_rank)))
