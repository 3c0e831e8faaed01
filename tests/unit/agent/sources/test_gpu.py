"""What the GPUs tell: a made-up library with NVML's interface, compiled here, and the real one where there is a GPU."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.deadline import Deadline, ThreadPool
from agent.errors import Unavailable
from agent.look.node_facts import Surroundings
from agent.proc.procfs import ProcFs
from agent.sources.gpu import read_gpus
from agent.sources.kernel_log import KernelLog
from agent.tools.nvml_child import report
from shared.missing import Missing, Reason
from shared.wire.devices import Gpus, Ports
from shared.wire.kernel_events import KernelEvents
from tests.needed import skip_without

SOURCE = Path(__file__).with_name("fake_nvml.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, in a folder of its own."""
    skip_without("cc")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", str(target), str(SOURCE)], check=True)
    return target


@pytest.fixture
def driver(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with a driver whose library is ours."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    (tmp_path / "version").touch()
    return tmp_path / "version"


def behaving(how: str, driver: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the library misbehave, which it knows by the name of its folder."""
    folder = driver.parent / how
    folder.mkdir()
    shutil.copy(library, folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return driver


def test_everything_that_the_library_tells(driver: Path) -> None:
    """Use, memory, power, clocks, errors, links and processes; what one GPU does not tell is None."""
    found = read_gpus(Deadline(20), [driver])
    assert found.driver == "999.1"
    assert [gpu.device for gpu in found.gpus] == ["0000:3b:00.0", "0000:3c:00.0", "0000:3d:00.0", "0000:3e:00.0"]
    first, second, lost, sick = found.gpus
    assert (first.uuid, first.name, first.utilization_percent) == ("GPU-0", "Made-up 9000", 100)
    assert (first.memory_used_bytes, first.power_watts, first.power_limit_watts) == (10 << 30, 123.456, None)
    assert (first.sm_clock_mhz, first.sm_clock_max_mhz, first.slowed_by) == (345, 1980, ())
    assert [(process.pid, process.instance) for process in first.processes] == [(4242, None), (4243, None)]
    assert (first.nvlinks_up, first.nvlinks_down, second.nvlinks_down) == (4, 0, 1)
    assert (lost.fault, first.fault) == ("GPU is lost", None)
    assert sick.slowed_by == ("hardware slowdown", "hardware thermal slowdown")
    assert (sick.ecc_uncorrected, sick.rows_pending, sick.rows_failed) == (7, True, False)


def test_node_without_a_driver(tmp_path: Path) -> None:
    """Nothing is started, and the reason is quiet."""
    with pytest.raises(Unavailable) as missing:
        read_gpus(Deadline(5), [tmp_path / "version"])
    assert missing.value.reason is Reason.NOT_FOUND


@pytest.mark.parametrize(
    ("how", "reason", "told", "seconds"),
    [
        ("absent", Reason.NOT_FOUND, "Driver Not Loaded", 20),
        ("crash", Reason.UNREADABLE, "status -6", 20),
        ("hang", Reason.TIMED_OUT, "driver may be stuck", 1.0),
    ],
)
def test_library_that_fails(
    how: str,
    reason: Reason,
    told: str,
    seconds: float,
    driver: Path,
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash ends what was started for it, and not the agent; one that hangs costs one Missing, by the deadline."""
    with pytest.raises(Unavailable, match=told) as missing:
        read_gpus(Deadline(seconds), [behaving(how, driver, library, monkeypatch)])
    assert missing.value.reason is reason


def test_library_that_is_not_there(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may have the driver's files and not its library."""
    monkeypatch.delenv("LD_LIBRARY_PATH")
    with pytest.raises(Unavailable) as missing:
        read_gpus(Deadline(20), [driver])
    assert missing.value.reason in (Reason.NOT_FOUND, Reason.UNREADABLE)


class FakeError(Exception):
    """What the package raises."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


def test_gpu_that_cannot_even_be_named() -> None:
    """Its index and the reason are told, and the others as ever."""

    def handle(index: int) -> int:
        if index == 0:
            raise FakeError(15)
        return index

    nvml = SimpleNamespace(
        NVMLError=FakeError,
        nvmlDeviceGetCount=lambda: 2,
        nvmlSystemGetDriverVersion=lambda: b"470.1",
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetUUID=lambda _: b"GPU-x\xff",
    )
    found = Gpus.model_validate_json(json.dumps(report(nvml)))
    assert (found.driver, found.gpus[0].fault, found.gpus[1].uuid) == ("470.1", "error 15", "GPU-x�")


def gpus_told(read: Callable[[Deadline], Gpus], times: int = 1) -> list[Any]:
    """Ask for the GPUs by `read`, beside the kernel log of this machine."""
    one = Surroundings(ThreadPool(), KernelLog(ProcFs()), read, Ports, 0.5)
    told = [one.begin(Deadline(5)).told() for _ in range(times)]
    assert all(isinstance(each["kernel_events"], KernelEvents | Missing) for each in told)
    return [each["gpus"] for each in told]


def test_both_are_told_side_by_side() -> None:
    """The kernel log of this machine, and GPUs; a failure is a Missing, whatever it is."""

    def fail(_: Deadline) -> Gpus:
        raise ValueError("strange")

    assert gpus_told(lambda _: Gpus(driver="1")) == [Gpus(driver="1")]
    assert [each.reason for each in gpus_told(fail)] == [Reason.UNREADABLE]


def test_driver_that_hangs_for_good_is_asked_once() -> None:
    """Not even SIGKILL ends a process in state D: whoever waits for it is left behind, and nobody joins."""
    asked, end = [], threading.Event()

    def hang(_: Deadline) -> Gpus:
        asked.append(1)
        end.wait(60)
        return Gpus()

    begun = time.monotonic()
    assert [each.reason for each in gpus_told(hang, times=3)] == [Reason.TIMED_OUT] * 3
    assert time.monotonic() - begun < 60
    end.set()
    assert len(asked) == 1


@pytest.mark.gpu
def test_real_gpus() -> None:
    """Each is named, and has memory."""
    if not os.path.exists("/dev/nvidiactl"):
        pytest.skip("no NVIDIA GPU")
    found = read_gpus(Deadline(30))
    assert found.gpus
    assert all(gpu.uuid and gpu.memory_total_bytes for gpu in found.gpus)
