"""Waits until a process imports torch.distributed, and only then loads the rest of the probe.

This much runs in every Python process of a job, so it imports next to nothing. Python 3.8 or later.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_C10D = "torch.distributed.distributed_c10d"


def install() -> None:
    """Wait for torch.distributed. Costs one comparison of strings per import until then."""
    if _C10D in sys.modules:
        _attach(sys.modules[_C10D])
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Lets the other finders find the module, and has a word with it once it is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _C10D:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                _attach_when_loaded(spec)
                return spec
        return None


def _attach_when_loaded(spec: ModuleSpec) -> None:
    load = getattr(spec.loader, "exec_module", None)
    if load is None:
        return

    def exec_module(module: ModuleType) -> None:
        load(module)
        _attach(module)

    spec.loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]


def _attach(module: ModuleType) -> None:
    try:
        import unhang_recorder  # type: ignore[import-not-found]

        unhang_recorder.attach(module)
    except Exception:  # noqa: BLE001 - a job must never fail because of us
        return
