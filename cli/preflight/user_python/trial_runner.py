"""Runs this node's part of trials: one process that imports PyTorch once, and forks a process group for each trial.

Reads orders from standard input, one JSON object on a line, and answers on standard output alike:

    {"start": "t1", "kind": "collective", "ranks": [2, 3], "world": 4, "backend": "gloo", "lead": false,
     "gpus": [], "store": ["10.0.0.1", 40123], "variables": {"NCCL_P2P_DISABLE": "1"}, "bytes": 8388608, "seconds": 30}
    {"end": "t1"}

    {"ready": {"torch": "2.13.0", "cuda": null, "nccl": null, "gpus": 0}}      or {"failed": "no PyTorch: …"}
    {"trial": "t1", "port": 40123}               the store of a trial that this node leads
    {"trial": "t1", "done": [{"rank": 2, "passed": true, "phase": "done", "bytes_per_second": 1.2e9}, …], "said": "…"}

Each trial ends by itself or by SIGKILL to its group after `seconds`. Everything here ends when standard input closes.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:  # `program` puts its source before this one
    from cli.preflight.user_python.rank_work import Figures, collective, cpu_wait, use_device

_PR_SET_PDEATHSIG = 1
_MOST_LINE = 1 << 20
_MOST_SAID = 2000
_OF_LAUNCHERS = ("TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "MV2_")
_PARENT = os.getpid()

Order = dict[str, Any]


def describe() -> "Figures":
    """Return versions and the number of GPUs, asked in a child: a process that has used CUDA cannot fork any more."""
    import torch
    import torch.distributed

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        os.write(writer, json.dumps(count).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        gpus = json.loads(file.read() or b"0")
    os.waitpid(child, 0)
    nccl = torch.distributed.is_nccl_available() and gpus
    version = ".".join(map(str, torch.cuda.nccl.version())) if nccl else None
    python = ".".join(map(str, sys.version_info[:3]))
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "nccl": version, "python": python, "gpus": gpus}


def say(answer: "Figures") -> None:
    """Answer on standard output."""
    print(json.dumps(answer), flush=True)


class Trial:
    """The ranks of one trial on this node."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.name = str(order["start"])
        self.until = time.monotonic() + float(order["seconds"])
        self.results: dict[int, Figures] = {}
        self.pids: list[int] = []
        self.timed_out = False
        self.cpu_wait = 0.0
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the trial

    def start(self, selector: selectors.BaseSelector) -> None:
        """Fork a process for each rank; the first one leads their process group."""
        for local_rank, rank in enumerate(self.order["ranks"]):
            self.results[rank] = {"rank": rank, "passed": False, "phase": "start"}
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                _become_rank(self, rank, local_rank, writer)
            os.close(writer)
            with contextlib.suppress(OSError):
                os.setpgid(pid, self.pids[0] if self.pids else pid)
            self.pids.append(pid)
            os.set_blocking(reader, False)
            selector.register(reader, selectors.EVENT_READ, (self, rank, bytearray()))

    def kill(self) -> None:
        """End what is left of it."""
        for pid in self.pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.pids:
            with contextlib.suppress(OSError):
                os.killpg(self.pids[0], signal.SIGKILL)

    def report(self) -> "Figures":
        """Return the answer about it."""
        size = os.fstat(self.said.fileno()).st_size
        said = os.pread(self.said.fileno(), _MOST_SAID, max(0, size - _MOST_SAID)).decode("utf-8", "replace")
        done = list(self.results.values())
        passed = all(each["passed"] for each in done)
        return {
            "trial": self.name,
            "done": done,
            "timed_out": self.timed_out,
            "cpu_wait": self.cpu_wait,
            "said": "" if passed else said,
        }


def _become_rank(trial: Trial, rank: int, local_rank: int, writer: int) -> NoReturn:
    """Run one rank, and never return."""

    def tell(**fields: Any) -> None:
        os.write(writer, (json.dumps(fields) + "\n").encode())

    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, trial.pids[0] if trial.pids else 0)
        _end_with(_PARENT)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(trial.said.fileno(), 1)
        os.dup2(trial.said.fileno(), 2)
        _set_variables(trial.order, rank, local_rank)
        work = collective if trial.order["kind"] == "collective" else use_device
        tell(passed=True, phase="done", **work(trial.order, rank, local_rank, tell))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the outcome of the trial
        tell(passed=False, error=words_of(error))
    finally:
        os._exit(0)


def words_of(error: BaseException) -> str:
    """Return what an error says in one line: its first one, and what PyTorch adds of NCCL's own last error."""
    # DistBackendError: NCCL error in: …, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.29.7
    # ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
    # Last error:
    # Bootstrap : no socket interface found
    first = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    last = " ".join(str(error).partition("\nLast error:\n")[2].split())[:200]
    return f"{last} ({first})" if last else first


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _set_variables(order: Order, rank: int, local_rank: int) -> None:
    for name in [name for name in os.environ if name.startswith(_OF_LAUNCHERS)]:
        del os.environ[name]
    store = order.get("store") or ["localhost", 0]
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(local_rank),
        WORLD_SIZE=str(order["world"]),
        LOCAL_WORLD_SIZE=str(len(order["ranks"])),
        TORCHELASTIC_RUN_ID=str(order.get("job", order["start"])),
        MASTER_ADDR=str(store[0]),
        MASTER_PORT=str(store[1]),
        **{str(name): str(value) for name, value in order.get("variables", {}).items()},
    )


class Runner:
    """The loop: orders come, ranks report, trials end."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.trials: dict[str, Trial] = {}
        self.orders = bytearray()

    def run(self) -> None:
        """Serve until standard input closes."""
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ, None)
        try:
            while self._step():
                pass
        finally:
            for trial in self.trials.values():
                trial.kill()

    def _step(self) -> bool:
        soonest = min((trial.until for trial in self.trials.values()), default=None)
        pause = None if soonest is None else min(60.0, max(0.0, soonest - time.monotonic()))
        for key, _ in self.selector.select(pause):
            if key.data is None:
                if not self._take_orders():
                    return False
            else:
                self._take_words(key.fd, *key.data)
        for trial in [trial for trial in self.trials.values() if trial.until <= time.monotonic()]:
            trial.timed_out = True
            trial.cpu_wait = max(map(cpu_wait, trial.pids), default=0.0) / float(trial.order["seconds"])
            trial.until = float("inf")
            trial.kill()
        return True

    def _take_orders(self) -> bool:
        part = os.read(0, 65_536)
        self.orders += part
        while b"\n" in self.orders:
            line, _, self.orders = self.orders.partition(b"\n")
            self._obey(json.loads(line))
        return bool(part) and len(self.orders) < _MOST_LINE

    def _obey(self, order: Order) -> None:
        if "end" in order:
            trial = self.trials.get(str(order["end"]))
            if trial is not None:
                trial.kill()
            return
        trial = Trial(order)
        self.trials[trial.name] = trial
        trial.start(self.selector)

    def _take_words(self, fd: int, trial: Trial, rank: int, buffer: bytearray) -> None:
        try:
            part = os.read(fd, 65_536)
        except BlockingIOError:
            return
        buffer += part
        *lines, rest = bytes(buffer).split(b"\n")
        buffer[:] = rest
        for line in lines:
            word = json.loads(line)
            if "port" in word:
                say({"trial": trial.name, "port": word["port"]})
            else:
                trial.results[rank].update(word)
        if part and len(buffer) < _MOST_LINE:
            return
        self.selector.unregister(fd)
        os.close(fd)
        pid = trial.pids[list(trial.results).index(rank)]
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status < 0 and not trial.timed_out:
            trial.results[rank].setdefault("error", f"ended by signal {-status}")
        if not any(key.data and key.data[0] is trial for key in self.selector.get_map().values()):
            trial.kill()
            say(trial.report())
            del self.trials[trial.name]
            trial.said.close()


def main() -> None:
    """Import PyTorch, say so, and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(os.getppid())
    try:
        found = describe()
    except Exception as error:  # noqa: BLE001 - an import may fail in any way
        say({"failed": f"{type(error).__name__}: {error}"[:500]})
        return
    say({"ready": {**found, "host": socket.gethostname()}})
    Runner().run()


if __name__ == "__main__":
    main()
