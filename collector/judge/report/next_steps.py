"""Next steps: what to do about a finding, and real commands with the real pids and hosts in them.

1. What lets a held rank go on (`release.py`), else what its cause calls for.
2. What single lines of the logs call for.
3. What the kind of the fault calls for, and how to test the nodes.
4. A look at the culprits that run, else a command that shows what the finding rests on: only where there is such.
5. What to switch on next time.
"""

import re
from collections.abc import Iterator

from collector.align.observations import Observations
from collector.judge.fault import Fault
from collector.judge.report.advice_rows import advised
from collector.judge.report.case import Case
from collector.judge.report.release import steps_to_release
from shared.answer.diagnosis import Evidence, NextStep
from shared.answer.words import Cause, Kind
from shared.isolation import costs_itself
from shared.shell_commands import WHY_NONE, copyable
from shared.wire.log_events import EventKind
from shared.wire.setup import Setup

_MOST_SHOWN = 2
_NEVER_STOPPED = "DTt"
"""States in which a process cannot be stopped once more: blocked in the kernel, stopped, traced."""
_ELSEWHERE = "look at the other replica groups: each is a job of its own, and torchft's lighthouse lists who has joined"
_ENDED = frozenset({Kind.RANK_EXITED, Kind.RANK_MISSING})
"""Kinds in which the culprit's log is all that is left of it."""
_OF_CODE = frozenset({Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION, Kind.P2P_DEADLOCK, Kind.P2P_UNMATCHED})
"""Kinds whose cause is where ranks' code paths part."""


@costs_itself(lambda *_: ())
def next_steps_for(
    fault: Fault, cause: Cause, observations: Observations, evidence: tuple[Evidence, ...]
) -> tuple[NextStep, ...]:
    """Return what to do about `fault`, most useful first."""
    case = Case(fault, cause, observations, evidence)
    if fault.steps:
        return fault.steps
    if fault.victims and not fault.culprits and observations.wait_for_other_jobs(fault.victims):
        return (NextStep(text=_ELSEWHERE, command="unhang jobs"),)
    released = steps_to_release(case)
    steps = [*released, *advised([*([] if released else ["causes"]), "arguments"], case)]  # 1
    steps += advice_of_lines(observations)  # 2
    if fault.lock is None:
        steps += advised(("kinds", "versions", "nodes", "links_in_a_node"), case)  # 3
    shown = [step for rank in fault.culprits[:_MOST_SHOWN] for step in _look_at(rank, case)]
    if shown and fault.kind is not Kind.RANK_STOPPED:
        shown.append(about_job("compare its stacks with the others'", "unhang", "stacks", job=observations.roster.job))
    elif not shown and not any(step.command for step in steps):
        shown = list(_what_it_rests_on(case))
    steps += [*shown, *advised(("next_time",), case)]  # 4, 5
    if fault.group is None and fault.kind is not Kind.RANK_STOPPED and not observations.recorded:
        steps += record_next_time(observations)
    return tuple(dict.fromkeys(steps))


# RuntimeError: CUDA error: an illegal memory access was encountered        HIP error: unspecified launch failure
_LATE_ERROR = re.compile(r"(CUDA|HIP) error: (?!out of memory|invalid device ordinal|no CUDA-capable)", re.IGNORECASE)
# RuntimeError: CUDA error: invalid device ordinal        CUDA error: no CUDA-capable device is detected
_NO_SUCH_DEVICE = re.compile(r"(CUDA|HIP) error: (invalid device ordinal|no (CUDA|ROCm)-capable)", re.IGNORECASE)


def advice_of_lines(observations: Observations) -> Iterator[NextStep]:
    """Yield what lines of the logs call for, each once."""
    told = list(observations.statements.of_kind(EventKind.DEVICE_ERROR, EventKind.EXCEPTION, EventKind.RENDEZVOUS))
    late = next((match for _, event in told if (match := _LATE_ERROR.search(event.text)) is not None), None)
    if late is not None:
        variable = "CUDA_LAUNCH_BLOCKING=1" if late[1].upper() == "CUDA" else "HIP_LAUNCH_BLOCKING=1"
        yield NextStep(
            text=f"start the job again with {variable}: device errors are reported late, and the line named is not "
            "the one that failed"
        )
    if any(_NO_SUCH_DEVICE.search(event.text) for _, event in told):
        yield NextStep(
            text="start no more ranks on a node than it has devices, and check CUDA_VISIBLE_DEVICES or "
            "HIP_VISIBLE_DEVICES there"
        )
    taken = next((event.fields for _, event in told if event.fields.get("taken")), None)
    if taken is not None:
        port = f"port {taken['port']}" if taken.get("port") else "the port"
        yield NextStep(
            text=f"{port} is taken: end what listens there (`ss -ltnp`), or set another MASTER_PORT or rendezvous "
            "endpoint"
        )


def _look_at(rank: int, case: Case) -> Iterator[NextStep]:
    """Commands for a culprit that runs: of one that was stopped, how it goes on."""
    roster = case.observations.roster
    view = roster.ranks[rank]
    if view.identity is None or view.gone or not roster.live:
        return
    on = f" on {view.host}" if view.host else ""
    if case.kind is Kind.RANK_STOPPED:
        yield NextStep(text=f"resume rank {rank}{on}", command=f"kill -CONT {view.identity.pid}", frees=True)
        return
    process = view.process
    native: tuple[str, ...] = ("--native",)
    text = f"show the stack of rank {rank}{on} with its native frames"
    if process is not None and (process.state in _NEVER_STOPPED or process.frozen_by or process.blocked_threads):
        text, native = f"show the stack of rank {rank}{on} again: nothing that attaches, for that may hang, too", ()
    yield about_job(text, "unhang", "stacks", "--rank", str(rank), *native, job=roster.job)


def _what_it_rests_on(case: Case) -> Iterator[NextStep]:
    """A command that shows what a fault rests on, where nothing can be done to its culprits themselves."""
    roster = case.observations.roster
    silent = next((host for rank in case.fault.culprits if (host := roster.ranks[rank].host) is not None), None)
    ended = case.kind in _ENDED
    if case.kind is Kind.RANK_UNREACHABLE and silent is not None and case.live:
        command = copyable("ping", "-c", "3", operands=(silent,))
        yield NextStep(text=f"find out whether {silent} answers at all", command=command)
    elif case.kind is Kind.STARTUP_INCOMPLETE and case.live:
        yield about_job("check how the job was started", "unhang", "check", job=roster.job)
    elif not ended and case.has_stacks and (case.kind in _OF_CODE or not case.recorded):
        yield about_job("compare where the ranks are in their code", "unhang", "stacks", job=roster.job)
    elif not ended and case.recorded:
        yield about_job("see how far each rank has got in each group", "unhang", "sequences", job=roster.job)
    elif case.live:
        yield about_job("read what the ranks logged last", "unhang", "logs", job=roster.job)
    elif case.has_logs:
        yield about_job(
            "see the lines that this rests on, and what else was recognised",
            "unhang",
            "logs",
            "--events",
            job=roster.job,
        )


def about_job(text: str, *words: str, job: str | None) -> NextStep:
    """A step with a command about `job`, whose name its owner chose; with none where it cannot be copied safely."""
    command = copyable(*words, operands=() if not job else (job,))
    return NextStep(text=text if command is not None else f"{text} ({WHY_NONE})", command=command)


def record_next_time(observations: Observations) -> Iterator[NextStep]:
    """Yield how to have a flight record the next time; nothing where PyTorch is in none of the ranks."""
    launchers = {view.identity.launcher for view in observations.roster.present() if view.identity is not None}
    if "torchrun" in launchers or not _runs_no_torch(observations):
        yield NextStep(
            text="next time, put `unhang run --` before the command that starts the job: the flight record that it "
            "switches on shows which operation each rank is in"
        )


def _runs_no_torch(observations: Observations) -> bool:
    """Was it seen what ranks have loaded, and was PyTorch never among it?"""
    newest = (view.looks[-1].setup for view in observations.roster.present() if view.looks)
    read = [setup for setup in newest if isinstance(setup, Setup) and setup.versions.python is not None]
    return bool(read) and all(setup.versions.torch is None and setup.nccl_loaded is None for setup in read)
