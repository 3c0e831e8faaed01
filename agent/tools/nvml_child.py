"""Asks NVIDIA's management library about all GPUs of this machine and prints what it says, as JSON.

Run on its own by `agent/sources/gpu.py`, never inside the agent: the library may crash, and where the driver is sick
it hangs in a way that not even SIGKILL ends. It needs the package nvidia-ml-py (module pynvml) and nothing of ours; its
argument is the folder of that.
Exit status 3: there is no library, driver or GPU; the reason stands on stderr. What one GPU does not tell is null.
"""

import json
import sys
from typing import Any

NOT_FOUND = 3
_MOST_GPUS = 64
_MOST_PROCESSES = 256
_ABSENT_ERRORS = (9, 12, 13)
"""NVML_ERROR_DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND, _FUNCTION_NOT_FOUND"""
_LOST_ERRORS = (15, 16)
"""NVML_ERROR_GPU_IS_LOST, _RESET_REQUIRED"""
_SLOWED_BY = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""nvmlClocksEventReason…: those that healthy GPUs do not have for long. A power cap under load is normal."""
_NVLINK_COUNTERS = (138, 139)
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and _RX, in KiB"""
_ALL_LINKS = 0xFFFF_FFFF
_SM_CLOCK, _CORE_TEMPERATURE, _UNCORRECTED, _VOLATILE = 1, 0, 1, 0


class _Device:
    """One GPU. Whatever fails is None; that the GPU is lost is kept."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self.fault: str | None = None

    def ask(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in _LOST_ERRORS:
                self.fault = _text(str(error))
            return None
        except (AttributeError, UnicodeDecodeError, TypeError):  # an older package, or a name that is no text
            return None


def report(nvml: Any) -> dict[str, Any]:
    """Return what the library says of all GPUs, in the form of shared/wire/devices.py."""
    count = min(nvml.nvmlDeviceGetCount(), _MOST_GPUS)
    return {"driver": _text(nvml.nvmlSystemGetDriverVersion()), "gpus": [_gpu(nvml, index) for index in range(count)]}


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    try:
        device = _Device(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
    except nvml.NVMLError as error:
        return {"index": index, "fault": _text(str(error))}
    pci = device.ask("nvmlDeviceGetPciInfo")
    memory = device.ask("nvmlDeviceGetMemoryInfo")
    used = device.ask("nvmlDeviceGetUtilizationRates")
    rows = device.ask("nvmlDeviceGetRemappedRows")
    told = {
        "index": index,
        "uuid": _text(device.ask("nvmlDeviceGetUUID")),
        "name": _text(device.ask("nvmlDeviceGetName")) or "",
        "device": None if pci is None else _address(pci),
        "utilization_percent": None if used is None else used.gpu,
        "memory_used_bytes": None if memory is None else memory.used,
        "memory_total_bytes": None if memory is None else memory.total,
        "power_watts": _thousandth(device.ask("nvmlDeviceGetPowerUsage")),
        "power_limit_watts": _thousandth(device.ask("nvmlDeviceGetPowerManagementLimit")),
        "temperature_celsius": device.ask("nvmlDeviceGetTemperature", _CORE_TEMPERATURE),
        "sm_clock_mhz": device.ask("nvmlDeviceGetClockInfo", _SM_CLOCK),
        "sm_clock_max_mhz": device.ask("nvmlDeviceGetMaxClockInfo", _SM_CLOCK),
        "slowed_by": _slowed_by(device),
        "ecc_uncorrected": device.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
        "rows_pending": None if rows is None else bool(rows[2]),
        "rows_failed": None if rows is None else bool(rows[3]),
        "processes": _processes(device),
        "nvlink_bytes": _nvlink_bytes(device),
        **_links(device, getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)),
    }
    return {**told, "fault": device.fault}


def _address(pci: Any) -> str:
    """Return the address in the kernel's form; the library's own has a domain of eight digits."""
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _slowed_by(device: _Device) -> list[str]:
    reasons = device.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:  # before driver 535
        reasons = device.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    return [word for bit, word in _SLOWED_BY.items() if (reasons or 0) & bit]


def _links(device: _Device, most: int) -> dict[str, int | None]:
    states = []
    for link in range(most):
        state = device.ask("nvmlDeviceGetNvLinkState", link)
        if state is None:  # a GPU without NVLink, or with fewer links
            break
        states.append(bool(state))
    up = sum(states)
    return {"nvlinks_up": up, "nvlinks_down": len(states) - up} if states else {}


def _nvlink_bytes(device: _Device) -> int | None:
    """Return what all links have carried; drivers from 450 tell it for all of them at once."""
    found = device.ask("nvmlDeviceGetFieldValues", [(counter, _ALL_LINKS) for counter in _NVLINK_COUNTERS])
    if found is None or len(found) != len(_NVLINK_COUNTERS) or any(each.nvmlReturn for each in found):
        return None
    return sum(int(each.value.ullVal) for each in found) * 1024


def _processes(device: _Device) -> list[dict[str, Any]]:
    found = device.ask("nvmlDeviceGetComputeRunningProcesses") or []
    return [
        {"pid": each.pid, "used_bytes": each.usedGpuMemory, "instance": _instance(each)}
        for each in found[:_MOST_PROCESSES]
    ]


def _instance(process: Any) -> str | None:
    whole = getattr(process, "gpuInstanceId", None)
    part = getattr(process, "computeInstanceId", None)
    none = 0xFFFF_FFFF
    return None if whole in (None, none) else f"{whole}/{'' if part in (None, none) else part}"


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def main() -> None:
    """Ask, print, and leave the library again: a driver in use cannot be reset."""
    sys.path += sys.argv[1:2]  # where the package is, if Python does not know: the archive lays it out elsewhere
    try:
        import pynvml as nvml
    except ImportError:
        sys.stderr.write("nvidia-ml-py is not installed")
        sys.exit(NOT_FOUND)
    try:
        nvml.nvmlInit()
        found = report(nvml)
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        sys.stderr.write(_text(str(error)) or "")
        sys.exit(NOT_FOUND if error.value in _ABSENT_ERRORS else 1)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
