"""When not to ask RAS: what asking has done to jobs, by version of NCCL.

A report that is refused costs evidence, one that crashes a job costs the job. Which version crashes when stands in
`shared/answer/nccl_faults.toml`; `ras=always` in the agent's settings asks all the same.
"""

from collections.abc import Iterable
from typing import NamedTuple

from agent.proc.library_versions import NcclVersion
from shared.answer.nccl_faults import NCCL_FAULTS, Asking
from shared.wire.snapshot import Exited, Identity, Process, RankSnapshot
from shared.wire.stacks import Stacks

FIRST = NcclVersion(2, 24, 0)
_TELLS = NcclVersion(2, 29, 2)
"""The first that tells of processes unasked; its RAS thread reads no communicator for that."""

_YOUNG_SECONDS = 60.0
"""Communicators are made at the first collective, which no frame tells from a later one."""

# init_process_group (torch/distributed/distributed_c10d.py:1815)        ncclCommInitRankConfig (libnccl.so.2.26.2)
_MAKING = frozenset(
    "init_process_group new_group new_subgroups new_subgroups_by_enumeration split_group _new_group_with_tag "
    "_new_process_group_helper init_device_mesh".split()
)
_MAKING_NATIVE = ("ncclCommInit", "ncclCommSplit", "ncclCommGrow")


class Signs(NamedTuple):
    """What the look itself has shown that makes asking unsafe; empty where nothing."""

    making: str = ""
    """Communicators are being made."""
    young: str = ""
    gaps: str = ""
    """Processes that will not answer."""


def refusal(version: NcclVersion | None, signs: Signs) -> str | None:
    """Say why RAS must not be asked now; None: it may."""
    if version is None:
        return "the version of NCCL that the rank has loaded is unknown, and some crash when RAS is asked"
    now = {Asking.ALWAYS: "", Asking.MAKING: signs.making, Asking.YOUNG: signs.young, Asking.GAPS: signs.gaps}
    for fault in NCCL_FAULTS:
        sign = None if fault.asking is None else now[fault.asking]
        if sign is None or not fault.has(version) or (not sign and fault.asking is not Asking.ALWAYS):
            continue
        why = fault.why.format(version=version) if sign else f"NCCL {version} can crash the job when RAS is asked"
        return f"{sign}, and {why} ({fault.report})" if sign else f"{why} ({fault.report})"
    return None


def may_tell(version: NcclVersion | None, identity: Identity, now: float) -> bool:
    """May RAS be asked to tell of processes from now on? Never while a rank starts, nor of an unknown version."""
    return version is not None and version >= _TELLS and not _is_young(identity, now)


def signs_of(looks: Iterable[RankSnapshot], exited: Iterable[Exited], crowd: Iterable[Identity] = ()) -> Signs:
    """Return what the looks at a job's ranks on this node show; `crowd`: all ranks that might answer in their place."""
    looks = tuple(looks)
    now = max((look.looked_at_ns or 0 for look in looks), default=0) / 1e9
    everyone = (*(look.identity for look in looks), *crowd)
    making = next((f"rank {look.identity.rank} is making communicators" for look in looks if _is_making(look)), "")
    young = next((f"rank {identity.rank} has just started" for identity in everyone if _is_young(identity, now)), "")
    gone = next((f"process {gone.pid} has exited" for gone in exited), "")
    stopped = next((f"rank {look.identity.rank} is stopped" for look in looks if _is_stopped(look)), "")
    return Signs(making, young, gone or stopped)


def _is_making(look: RankSnapshot) -> bool:
    frames = look.stacks.frames if isinstance(look.stacks, Stacks) else ()
    return any(
        frame.function.startswith(_MAKING_NATIVE) if frame.native else frame.function in _MAKING for frame in frames
    )


def _is_young(identity: Identity, now: float) -> bool:
    return identity.started_at is None or now - identity.started_at < _YOUNG_SECONDS


def _is_stopped(look: RankSnapshot) -> bool:
    return isinstance(look.process, Process) and look.process.state in "TtZX"
