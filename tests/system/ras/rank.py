"""A rank whose NCCL answers RAS: `python -m tests.system.ras.rank FILE DOING`; FILE is a plan of `server.py`.

DOING is `waits`, blocked below a frame that looks like PyTorch's all_reduce, or `sleeps`, in its own code.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from tests.system.ras.server import serve

_COLLECTIVES = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def all_reduce() -> None:
    """Block for ever, seen from outside as PyTorch blocks in a collective."""
    there: dict[str, object] = {"block": os.read, "nothing": os.pipe()[0]}
    exec(compile("def all_reduce(): block(nothing, 1)\nall_reduce()", _COLLECTIVES, "exec"), there)  # noqa: S102


def train(doing: str) -> None:
    """What the job's own code does."""
    all_reduce() if doing == "waits" else time.sleep(86_400)


if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    (Path(plan["pids"]) / os.environ["RANK"]).write_text(str(os.getpid()))
    threading.Thread(target=serve, args=(plan,), daemon=True).start()
    train(sys.argv[2])
