"""Settings that hide the next fault, or that must be the same everywhere: tables, a row for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from collector.checks.facts import (
    JobFacts,
    Rule,
    check_of,
    in_sides,
    members,
    minority,
    shown,
    variable_of,
    who_in_words,
    who_with,
)
from shared.answer.checks import Check, CheckId, Severity
from shared.wire.setup import Setup

_NO = frozenset({"0", "n", "no", "f", "false"})
_YES = frozenset({"1", "y", "yes", "t", "true"})
"""What PyTorch takes for no and yes (getCvarBool in torch/csrc/distributed/c10d/Utils.hpp)."""

_LATE_SECONDS = 2 * 3600
"""A watchdog later than this lets an idle job cost more than any checkpoint takes."""

_FOR_EVER_SECONDS = 24 * 3600
"""No one waits a day for one operation: a longer timeout means never."""

_ON_BY_DEFAULT_SINCE = (2, 11)
"""Before this version PyTorch's recorder is off unless asked for (pytorch/pytorch pull request 172843)."""

_ALL_RECORD_SINCE = (2, 8)
"""Before this version only NCCL has a recorder, and its variable another name."""


@dataclass(frozen=True)
class Setting:
    """A setting and what is wrong with some of its values."""

    id: CheckId
    severity: Severity
    names: tuple[str, ...]
    is_bad: Callable[[Setup, str], bool]
    why: str
    change: str
    of_nccl: bool = True
    """Does it matter only where NCCL is loaded?"""
    untraced: bool = False
    """Does it matter only where there is no flight record?"""


def _off(_: Setup, value: str) -> bool:
    return value.lower() in _NO


def _on(_: Setup, value: str) -> bool:
    return value.lower() in _YES


def _late(_: Setup, value: str) -> bool:
    return value.isascii() and value.isdecimal() and int(value[:12]) > _LATE_SECONDS


def _nobody_handles(setup: Setup, value: str) -> bool:
    """With a blocking wait, errors are raised in the waiting thread, and no other thread needs to handle them."""
    waits = variable_of(setup, "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT") or ""
    return value == "0" and waits.lower() not in _YES


SETTINGS: tuple[Setting, ...] = (
    Setting(
        CheckId.ERRORS_IGNORED,
        Severity.RISKY,
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"),
        _nobody_handles,
        "a collective that fails or times out ends nothing: the ranks wait forever",
        "leave TORCH_NCCL_ASYNC_ERROR_HANDLING unset (3, the default), or set it to 1",
    ),
    Setting(
        CheckId.WATCHDOG_OFF,
        Severity.NOTE,
        ("TORCH_NCCL_ENABLE_MONITORING",),
        _off,
        "nothing notices when PyTorch's watchdog itself is stuck in a CUDA or NCCL call",
        "leave TORCH_NCCL_ENABLE_MONITORING unset, or set it to 1",
    ),
    Setting(
        CheckId.WATCHDOG_LATE,
        Severity.NOTE,
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",),
        _late,
        "a stuck watchdog is noticed after more than two hours",
        "set TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC to 7200 or less",
    ),
    Setting(
        CheckId.RECORDER_OFF,
        Severity.NOTE,
        ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
        lambda _, value: value == "0",
        "without a flight record a hang can be suspected from stacks, but seldom proven",
        "set it to 2000; `unhang run --` leaves it as it is",
        of_nccl=False,
        untraced=True,
    ),
    Setting(
        CheckId.LAUNCHES_BLOCK,
        Severity.NOTE,
        ("CUDA_LAUNCH_BLOCKING",),
        _on,
        "the CPU waits for each kernel: good for debugging, slow, and it changes where a hang shows",
        "unset CUDA_LAUNCH_BLOCKING after debugging",
    ),
)

MUST_AGREE = (
    "NCCL_ALGO NCCL_PROTO NCCL_NET NCCL_NET_PLUGIN NCCL_IB_DISABLE NCCL_SOCKET_FAMILY NCCL_P2P_DISABLE "
    "NCCL_SHM_DISABLE NCCL_CROSS_NIC NCCL_NVLS_ENABLE NCCL_CUMEM_ENABLE NCCL_BUFFSIZE NCCL_COLLNET_ENABLE "
    "NCCL_IB_GID_INDEX TORCH_NCCL_BLOCKING_WAIT TORCH_DISTRIBUTED_DEBUG CUDA_LAUNCH_BLOCKING"
).split()
"""Settings by which ranks choose how to talk: ranks that choose differently wait for messages that are never sent."""


def bad_value(row: Setting, facts: JobFacts) -> Iterator[Check]:
    """Return what one row of the table says."""
    having = (alike for name in row.names for same in facts.values(name).values() for alike in same)
    bad = {id(alike.setup): alike for alike in having if _is_bad(row, alike.setup)}
    who = [each for each in members(bad.values()) if not row.untraced or each.trace is None]
    if who:
        name = next(name for name in row.names if who[0].variable(name) is not None)
        seen = f"{name} is {who[0].variable(name)} for {who_in_words(who)}"
        yield check_of(row.id, row.severity, who, seen=seen, why=row.why, change=row.change)


def _is_bad(row: Setting, setup: Setup) -> bool:
    value = variable_of(setup, *row.names)
    concerned = setup.nccl_loaded is True or not row.of_nccl
    return concerned and value is not None and row.is_bad(setup, value)


def recorder_off_by_default(facts: JobFacts) -> Iterator[Check]:
    """Versions of PyTorch whose recorder is off by default."""
    who = [each for each in facts.those(_records_nothing) if each.trace is None]
    if who and who[0].setup is not None:
        version = who[0].setup.versions.torch
        named_anew = (_release(version) or _ON_BY_DEFAULT_SINCE) >= _ALL_RECORD_SINCE
        name = "TORCH_FR_BUFFER_SIZE" if named_anew else "TORCH_NCCL_TRACE_BUFFER_SIZE"
        yield check_of(
            CheckId.RECORDER_OFF,
            Severity.NOTE,
            who,
            seen=f"{who_with(who, 'run')} PyTorch {version}, whose recorder is off by default",
            why="without a flight record a hang can be suspected from stacks, but seldom proven",
            change=f"set {name}=2000, or start with `unhang run --`",
        )


def _records_nothing(setup: Setup) -> bool:
    asked = variable_of(setup, "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    version = _release(setup.versions.torch)
    if asked is not None or version is None:
        return False
    return version < _ON_BY_DEFAULT_SINCE and (setup.nccl_loaded is True or version >= _ALL_RECORD_SINCE)


def _release(version: str | None) -> tuple[int, int] | None:
    major, _, rest = (version or "").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


_OF_REMOTE_CALLS_MS = 2**31 - 1
"""What `init_rpc` gives the group by which its ranks meet (torch/distributed/rpc/constants.py); nobody chooses it."""


def timeouts(facts: JobFacts) -> Iterator[Check]:
    """Groups with such long timeouts that a hang is not reported before someone looks."""
    long = [
        (position, group.timeout_ms, group.description or group.name)
        for position, each in enumerate(facts.processes)
        if each.trace is not None
        for group in each.trace.groups
        if group.timeout_ms is not None and group.timeout_ms > _LATE_SECONDS * 1000
        if group.timeout_ms != _OF_REMOTE_CALLS_MS
    ]
    if long:
        milliseconds, name = max((milliseconds, name) for _, milliseconds, name in long)
        hours = milliseconds / 3_600_000
        where = f"group {shown(name)}" if name else "a group without a name"
        yield check_of(
            CheckId.TIMEOUT_LONG,
            Severity.RISKY if milliseconds > _FOR_EVER_SECONDS * 1000 else Severity.NOTE,
            [facts.processes[position] for position, _, _ in long],
            seen=f"an operation of {where} may take {min(hours, 1e6):.0f} hours",
            why="a hang blocks the whole job that long before PyTorch ends it",
            change="give init_process_group and new_group two hours at most; put slow steps in a group of their own",
        )


def nccl_silent(facts: JobFacts) -> Iterator[Check]:
    """On several nodes NCCL's own warnings are half of every diagnosis, and it prints none by default."""
    if not facts.several_hosts:
        return
    who = facts.those(lambda setup: setup.nccl_loaded is True and not setup.variables.get("NCCL_DEBUG"))
    if who:
        yield check_of(
            CheckId.NCCL_SILENT,
            Severity.NOTE,
            who,
            seen=f"NCCL_DEBUG is not set for {who_in_words(who)}",
            why="NCCL then does not log even its warnings, such as a lost connection with the peer's name",
            change="set NCCL_DEBUG=WARN; INFO with NCCL_DEBUG_SUBSYS=INIT,NET while debugging",
        )


def settings_differ(facts: JobFacts) -> Iterator[Check]:
    """Return the settings that must be the same everywhere, and are not."""
    for name in MUST_AGREE if facts.with_nccl else ():
        sides = facts.sides(name, unset=True)
        if sides:
            yield check_of(
                CheckId.SETTINGS_DIFFER,
                Severity.RISKY,
                minority(sides),
                seen=in_sides(sides, of=name),
                why="ranks that choose different transports or protocols wait for messages that are never sent",
                change=f"set the same {name} for all ranks, in the job's script and not in a login profile",
            )


RULES: tuple[Rule, ...] = (
    *(partial(bad_value, row) for row in SETTINGS),
    recorder_off_by_default,
    timeouts,
    nccl_silent,
    settings_differ,
)
