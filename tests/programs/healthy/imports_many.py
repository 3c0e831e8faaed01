"""Rank 0 imports thousands of small modules, each from a slow file system; the others wait."""

import importlib
import sys

import ranks

MODULE = "import time\ntime.sleep(0.02)\nTABLE = {number: str(number) for number in range(5000)}\n"


def import_all(deadline: float) -> None:
    """Write and import module after module of a package."""
    package = ranks.FOLDER / "plugins"
    package.mkdir()
    (package / "__init__.py").write_text("")
    sys.path.insert(0, str(ranks.FOLDER))
    number = 0
    while ranks.before(deadline):
        (package / f"plugin{number}.py").write_text(MODULE)
        importlib.invalidate_caches()
        importlib.import_module(f"plugins.plugin{number}")
        number += 1


if __name__ == "__main__":
    ranks.others_wait_while(import_all)
