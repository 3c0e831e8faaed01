"""What a rank of a trial does, in the job's own Python: meet the others, or use one device."""

import contextlib
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

MATRIX = {"cpu": 1024, "cuda": 4096}
"""Rows and columns of the matrices that are multiplied."""

GPU_BYTES = 1 << 28
WARM_UP, MEASURED, PRODUCTS = 1, 3, 4
STORE_SECONDS = 5.0

Order = dict[str, Any]
Figures = dict[str, Any]


def collective(order: Order, rank: int, local_rank: int, tell: Callable[..., None]) -> Figures:
    """Meet the other ranks, add one number up, and then many."""
    import torch
    import torch.distributed as dist

    tell(phase="store")
    host, port = order.get("store") or ("localhost", 0)
    limit = timedelta(seconds=float(order["seconds"]))
    leads = bool(order["lead"]) and local_rank == 0
    if leads:
        store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=limit)
        tell(port=store.port)
    else:
        store = dist.TCPStore(host, int(port), is_master=False, timeout=limit)
    tell(phase="group")
    device = torch.device("cpu")
    if order["backend"] != "gloo":
        device = torch.device("cuda", order["gpus"][local_rank])
        torch.cuda.set_device(device)
    dist.init_process_group(order["backend"], store=store, rank=rank, world_size=order["world"], timeout=limit)
    tell(phase="first_all_reduce")
    began = time.monotonic()
    one = torch.ones(1, device=device)
    dist.all_reduce(one)
    if one.item() != order["world"]:
        raise RuntimeError(f"all_reduce returned {one.item()}, and {order['world']} is right")
    took = time.monotonic() - began
    tell(phase="bandwidth")
    speed, waited = _bandwidth(torch, dist, device, order)
    dist.barrier()
    with contextlib.suppress(Exception):  # all is proved by now, and a rank that left may have taken the store with it
        store.add("gone", 1)
        until = time.monotonic() + STORE_SECONDS
        while leads and store.add("gone", 0) < order["world"] and time.monotonic() < until:
            time.sleep(0.01)  # the store is here, and others may still use it
    return {"first_seconds": took, "bytes_per_second": speed, "cpu_wait": waited}


def cpu_wait(pid: int | str) -> float:
    """Return for how many seconds that thread of a process waited for a CPU which waited longest."""
    waits = [0.0]
    with contextlib.suppress(OSError, ValueError, IndexError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                waits.append(int(file.read().split()[1]) / 1e9)
    return max(waits)


class Stopwatch:
    """Measures time, and how much of it this process waited for a CPU that others used.

    Where its control group held it back, all of the time is its own: no other process is to blame.
    """

    seconds = waited = 0.0

    def __enter__(self) -> "Stopwatch":
        self._held, _ = held_back()
        self._began, self._waited = time.monotonic(), cpu_wait("self")
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began
        self.waited = 0.0 if held_back()[0] > self._held else cpu_wait("self") - self._waited


def held_back() -> tuple[int, str]:
    """Return how often control groups of this process were held back for their share of the CPUs, and the share."""
    times, limits = 0, ["no limit can be read"]
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/cgroup") as file:
            lines = [line.strip().split(":", 2) for line in file]
        for _, controllers, path in lines:
            # 0::/kubepods/pod7        4:cpu,cpuacct:/kubepods/pod7
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = "/sys/fs/cgroup/cpu" if controllers else "/sys/fs/cgroup"
            parts = [part for part in path.split("/") if part not in ("", "..")]
            for depth in range(len(parts) + 1):
                folder = "/".join((top, *parts[:depth]))
                stat = dict(line.split()[:2] for line in _text_of(f"{folder}/cpu.stat").splitlines())
                if int(stat.get("nr_throttled", 0)):
                    times += int(stat["nr_throttled"])
                    quota = _text_of(f"{folder}/cpu.max").split()
                    quota = quota or [_text_of(f"{folder}/cpu.cfs_{each}_us").strip() for each in ("quota", "period")]
                    limits.append(f"it may use {int(quota[0]) / int(quota[1]):.2g} CPUs")
    return times, limits[-1]


def _text_of(path: str) -> str:
    with contextlib.suppress(OSError), open(path) as file:
        return file.read()
    return ""


def _bandwidth(torch: Any, dist: Any, device: Any, order: Order) -> tuple[float | None, float]:
    """Return bytes per second over the slowest link, as nccl-tests count them (bus bandwidth); None for one rank.

    And for which share of that time this rank waited for a CPU.
    """
    if order["world"] < 2 or not order["bytes"]:
        return None, 0.0
    values = torch.ones(max(1, int(order["bytes"]) // 4), device=device)
    times = []
    for _ in range(WARM_UP + MEASURED):
        if device.type == "cuda":
            torch.cuda.synchronize()
        with Stopwatch() as watch:
            dist.all_reduce(values)
            if device.type == "cuda":
                torch.cuda.synchronize()
        times.append((watch.seconds, watch.waited))
    world = order["world"]
    best, waited = min(times[WARM_UP:])
    best = max(best, 1e-9)
    return float(values.numel() * 4 * 2 * (world - 1) / world / best), min(1.0, max(0.0, waited / best))


def use_device(order: Order, rank: int, local_rank: int, tell: Callable[..., None]) -> Figures:
    """Use one GPU, or the CPUs: allocate, multiply, copy, and compare with what is right."""
    import torch

    tell(phase="allocate")
    on_gpu = order["backend"] != "gloo"
    device = torch.device("cuda", order["gpus"][local_rank]) if on_gpu else torch.device("cpu")
    size = MATRIX[device.type]
    row = torch.arange(size, device=device).remainder(7)
    left = row.to(torch.float32).repeat(size, 1)
    right = (row * row.sum()).to(torch.float32)  # whole numbers below 2**24: exact, in TF32 as well
    tell(phase="multiply")
    held_before, _ = held_back()
    for count in (WARM_UP, PRODUCTS):
        with Stopwatch() as watch:
            if not all(bool((left @ left == right).all().item()) for _ in range(count)):
                raise RuntimeError("a product of matrices is wrong")
    held, limit = held_back()
    share = min(1.0, max(0.0, watch.waited / max(watch.seconds, 1e-9)))
    figures: Figures = {"multiply_seconds": watch.seconds, "cpu_wait": share}
    if held > held_before:
        figures["held_back"] = limit
    if on_gpu:
        tell(phase="copy")
        there = torch.arange(GPU_BYTES // 4, dtype=torch.int32)
        began = time.monotonic()
        back = there.to(device).clone().cpu()
        figures["bytes_per_second"] = 2 * GPU_BYTES / (time.monotonic() - began)
        if not torch.equal(there, back):
            raise RuntimeError("what was copied to the GPU and back has changed")
    return figures
