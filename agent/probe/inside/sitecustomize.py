"""Python imports this by itself at start when its directory is on PYTHONPATH.

It sets the probe up, then makes way for the `sitecustomize` that would have been imported without it. It
runs in every Python process of a job, the launcher and its helpers included, under Python 3.8 or later.
"""

import importlib.machinery
import importlib.util
import os
import sys

try:
    from unhang_probe import install  # type: ignore[import-not-found]

    install()
except Exception:  # noqa: BLE001, SIM105, RUF100 - a job must never fail because of us
    pass


def _make_way() -> None:
    """Import the next `sitecustomize` on the path. What it raises, Python reports as it would have without us."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_make_way()
