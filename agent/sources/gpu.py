"""What the node's GPUs do, by NVIDIA's management library (extra `gpu`), asked in a process of its own.

Without a driver nothing is started at all. Where the driver is sick the library may hang for good: then what was
started is left behind, once, and not asked again while it hangs (`agent/look/node_facts.py` sees to that).
"""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.tools.nvml_child import NOT_FOUND
from agent.tools.run_bounded import run_bounded
from shared.missing import Reason
from shared.wire.devices import Gpus

_CHILD = Path(__file__).parents[1] / "tools" / "nvml_child.py"
_DRIVERS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
_SECONDS = 3.0
_NOT_INSTALLED = "there is an NVIDIA driver, but nvidia-ml-py is not installed: `pip install 'unhang[gpu]'`"


def read_gpus(deadline: Deadline, drivers: Sequence[Path] = _DRIVERS) -> Gpus:
    """Return the GPUs of this node. Raises Unavailable, with NOT_FOUND where there are none."""
    if not any(path.exists() for path in drivers):
        raise Unavailable(Reason.NOT_FOUND, "no NVIDIA driver on this node")
    package = importlib.util.find_spec("pynvml")
    if package is None or package.origin is None:
        raise Unavailable(Reason.NOT_ENABLED, _NOT_INSTALLED)
    command = [sys.executable, "-P", str(_CHILD), str(Path(package.origin).parent)]
    limit = deadline.at_most(_SECONDS)
    output = run_bounded(command, limit, keep=("LD_LIBRARY_PATH",))
    if output.status is None:
        raise Unavailable(
            Reason.TIMED_OUT, f"NVML had not finished after {limit.seconds:.1f} s: the driver may be stuck"
        )
    if output.status != 0:
        complaint = output.stderr.decode(errors="replace").strip()[-200:]
        reason = Reason.NOT_FOUND if output.status == NOT_FOUND else Reason.UNREADABLE
        raise Unavailable(reason, f"NVML: {complaint or f'ended with status {output.status}'}")
    try:
        return Gpus.model_validate_json(output.stdout)
    except ValidationError as error:
        raise Unavailable(Reason.UNREADABLE, f"NVML answered with something else: {str(error)[:200]}") from error
