"""Were there as many processes started as meant, each with a device and CPUs of its own, of one version?"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

from collector.checks.facts import (
    JobFacts,
    RankFacts,
    Rule,
    grouped,
    in_sides,
    minority,
    shown,
    who_in_words,
    who_with,
)
from collector.checks.sayings import said
from shared.answer.checks import Check, Severity
from shared.wire.setup import Setup

_STARTED_SECONDS = 60.0
"""Ranks of one job start within a minute; until then a lone one is no sign."""

_VISIBLE = "CUDA_VISIBLE_DEVICES"

_NO_REAL_STEP = 4_294_967_280
"""Slurm gives the batch script, the extern step and interactive steps numbers from here on (slurm/slurm.h)."""


def one_process_of_many(facts: JobFacts) -> Iterator[Check]:
    """WORLD_SIZE says many, a plain `python train.py` started one."""
    if len(facts.processes) != 1 or not facts.all_answered:
        return
    (only,) = facts.processes
    size = only.identity.world_size or 1
    if only.trace is not None and len(only.trace) > 0:
        return  # the others have come, and an agent does not tell of them: they are another user's
    if size > 1 and only.identity.launcher == "env" and only.age_seconds >= _STARTED_SECONDS:
        slurm = only.variable("SLURM_JOB_ID") is not None and not _is_step(only)
        yield said(
            "in_batch_script" if slurm else "started_alone",
            [only],
            seen=f"one process of WORLD_SIZE {size} is seen"
            + (", started in the batch script of a Slurm job and not by srun" if slurm else ", started by no launcher"),
        )


def group_of_one(facts: JobFacts) -> Iterator[Check]:
    """A process that has called init_process_group for itself alone, though its launcher started many."""
    for each in facts.processes:
        meant = _meant_size(each)
        if each.identity.world_size == 1 and meant > 1:
            yield said(
                "group_of_one",
                [each],
                seen=f"its process group has 1 rank, and its launcher says that there are {meant}",
            )


def _meant_size(each: RankFacts) -> int:
    """Return how many ranks the variables of its launcher tell of."""
    names = ("WORLD_SIZE", "SLURM_NTASKS") if _is_step(each) else ("WORLD_SIZE",)
    size = each.variable(*names) or ""
    return int(size) if size.isascii() and size.isdecimal() and len(size) <= 7 else 0


def _is_step(each: RankFacts) -> bool:
    step = each.variable("SLURM_STEP_ID", "SLURM_STEPID") or ""
    return step.isascii() and step.isdecimal() and int(step[:12]) < _NO_REAL_STEP


def devices_shared(facts: JobFacts) -> Iterator[Check]:
    """Several ranks of one host that take the same GPU."""
    for who in facts.by_host.values():
        on_gpus = [each for each in who if each.setup is not None and each.setup.gpus]
        used = _used(facts, who[0].host)
        for device, sharing in grouped(on_gpus, partial(_device, used)).items():
            if device and len(sharing) > 1 and len({each.rank for each in sharing}) > 1:
                yield said(
                    "devices_shared",
                    sharing,
                    seen=f"{who_in_words(sharing)} use the same device, {shown(str(device))}, by LOCAL_RANK "
                    f"{_local_ranks(sharing)} and CUDA_VISIBLE_DEVICES {_values(sharing, _VISIBLE)}",
                )


def _device(used: Mapping[int | None, set[str]], each: RankFacts) -> str | None:
    """Return the device that it computes on, or that LOCAL_RANK leads to; None if unknown."""
    own = used.get(each.identity.pid)
    if own:
        return next(iter(own)) if len(own) == 1 else None
    local_rank = each.identity.local_rank
    visible = each.variable(_VISIBLE, "HIP_VISIBLE_DEVICES")
    if visible is None:
        return None if local_rank is None else str(local_rank)
    devices = _listed(visible)
    if len(devices) == 1:
        return devices[0]
    return devices[local_rank] if local_rank is not None and local_rank < len(devices) else None


def _listed(visible: str | None) -> list[str]:
    """Return the devices of a list such as CUDA_VISIBLE_DEVICES."""
    return [part.strip() for part in (visible or "").split(",") if part.strip()]


def _used(facts: JobFacts, host: str | None) -> dict[int | None, set[str]]:
    """Return the devices on which the driver of a host sees each process itself, by pid."""
    used: dict[int | None, set[str]] = defaultdict(set)
    for gpu in facts.gpus.get(host, ()):
        for process in gpu.processes:
            used[process.pid].add(f"GPU {gpu.index}" + (f" (MIG {process.instance})" if process.instance else ""))
    return used


def _local_ranks(who: list[RankFacts]) -> str:
    local_ranks = ("unset" if each.identity.local_rank is None else str(each.identity.local_rank) for each in who)
    return "/".join(dict.fromkeys(local_ranks))


def _values(who: list[RankFacts], name: str) -> str:
    return shown("/".join(dict.fromkeys(each.variable(name) or "unset" for each in who)))


def device_beyond_visible(facts: JobFacts) -> Iterator[Check]:
    """LOCAL_RANK counts further than the visible devices do. One device each is another way, and right."""
    visible = {id(alike.setup): len(_listed(alike.setup.variables.get(_VISIBLE))) for alike in facts.by_setup}
    lost = [each for each in facts.read if 1 < visible[id(each.setup)] <= (each.identity.local_rank or 0)]
    if lost:
        yield said(
            "device_beyond_visible",
            lost,
            seen=f"{who_with(lost, 'have')} LOCAL_RANK {_values(lost, 'LOCAL_RANK')} with CUDA_VISIBLE_DEVICES "
            f"{_values(lost, _VISIBLE)}",
        )


def gpus_idle(facts: JobFacts) -> Iterator[Check]:
    """One process in all, and several GPUs before it. Some programs use them all from one process."""
    if len(facts.processes) != 1 or facts.processes[0].identity.world_size not in (None, 1):
        return
    (only,) = facts.processes
    visible = only.variable(_VISIBLE)
    there = only.setup.gpus or 0 if only.setup is not None else 0
    usable = there if visible is None else min(there, len(_listed(visible)))
    if usable > 1 and len(_used(facts, only.host).get(only.identity.pid, ())) < 2:
        yield said(
            "gpus_idle", [only], usable=usable, seen=f"one process with WORLD_SIZE 1, and {usable} GPUs that it may use"
        )


def versions_differ(facts: JobFacts) -> Iterator[Check]:
    """Libraries that talk to each other should be of one version."""
    for name, severity, change in _VERSIONS:
        sides = facts.sides_by(partial(_version, name))
        if sides:
            yield said(
                "versions_differ",
                minority(sides),
                severity=severity,
                change=change,
                seen=in_sides(sides, verb="run", of=_NAMES[name]),
            )


_NAMES = {"torch": "PyTorch", "nccl": "NCCL", "cuda": "PyTorch for CUDA", "python": "Python", "driver": "NVIDIA driver"}
_ONE_IMAGE = "use one image or environment on all nodes"
_VERSIONS = (
    ("torch", Severity.RISKY, _ONE_IMAGE),
    ("nccl", Severity.WRONG, _ONE_IMAGE + "; look for a second libnccl.so.2 in LD_LIBRARY_PATH"),
    ("cuda", Severity.RISKY, _ONE_IMAGE),
    ("python", Severity.NOTE, _ONE_IMAGE),
    ("driver", Severity.NOTE, "install the same driver on all nodes, or keep the odd ones out of this job"),
)


def _version(name: str, setup: Setup) -> str | None:
    version: str | None = getattr(setup.versions, name)
    return version


def cpus(facts: JobFacts) -> Iterator[Check]:
    """Ranks that train on GPUs and may use one CPU alone, or that take many times the CPUs there are."""
    threads = {id(alike.setup): _threads(alike.setup) for alike in facts.by_setup}
    for who in facts.by_host.values():
        fed = [each for each in who if each.setup is not None and each.setup.gpus and each.setup.cpus == 1]
        if fed:
            yield said("few_cpus", fed, seen=f"{who_in_words(fed)} may use one CPU")
        yield from _too_many_threads(who, sum(threads.get(id(each.setup), 0) for each in who))


def _too_many_threads(who: list[RankFacts], threads: int) -> Iterator[Check]:
    there = max((each.setup.cpus or 0 for each in who if each.setup is not None), default=0)
    if there and len(who) > 1 and threads > 2 * there:
        yield said(
            "too_many_threads",
            who,
            fits=max(1, there // len(who)),
            seen=f"OMP_NUM_THREADS of {who_in_words(who)} make {threads} threads for {there} CPUs",
        )


def _threads(setup: Setup) -> int:
    text = setup.variables.get("OMP_NUM_THREADS", "")
    return int(text[:6]) if text.isascii() and text.isdecimal() else 0


START: tuple[Rule, ...] = (
    one_process_of_many,
    group_of_one,
    devices_shared,
    device_beyond_visible,
    gpus_idle,
    versions_differ,
    cpus,
)
