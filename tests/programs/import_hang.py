"""The faulty rank imports a module late, and the module's top level waits for something."""

import sys
import tempfile
from pathlib import Path

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["import", "user_code"]}

SOURCE = "import time\n\ntime.sleep(1e9)\n"


def load_plugin() -> None:
    """Import a module whose top level never ends."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "slow_plugin.py").write_text(SOURCE)
        sys.path.insert(0, directory)
        __import__("slow_plugin")


if __name__ == "__main__":
    rig.train(rig.start(), load_plugin)
