"""Settings that hide the next fault, or that must be the same everywhere: tables, a row for each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from collector.checks.facts import (
    JobFacts,
    Rule,
    in_sides,
    members,
    minority,
    shown,
    variable_of,
    who_in_words,
    who_with,
)
from collector.checks.sayings import check_of, said
from shared.answer.checks import Check, CheckId, Severity
from shared.packs import read_pack
from shared.wire.setup import Setup, is_yes

_LATE_SECONDS = 2 * 3600
"""A timeout longer than this lets an idle job cost more than any checkpoint takes."""

_FOR_EVER_SECONDS = 24 * 3600
"""No one waits a day for one operation: a longer timeout means never."""

_ON_BY_DEFAULT_SINCE = (2, 11)
"""Before this version PyTorch's recorder is off unless asked for (pytorch/pytorch pull request 172843)."""

_ALL_RECORD_SINCE = (2, 8)
"""Before this version only NCCL has a recorder, and its variable another name."""


@dataclass(frozen=True)
class Setting:
    """A setting and what is wrong with some of its values: a row of `settings.toml`, which says what each field is."""

    id: str
    severity: Severity
    variables: str
    why: str
    change: str
    pattern: str = ""
    above: int | None = None
    unless: str = ""
    of_nccl: bool = False
    untraced: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables, of which the first that is set counts."""
        return tuple(self.variables.split())

    def is_bad(self, setup: Setup) -> bool:
        """Has it one of the values that are wrong, and does that matter here?"""
        value = variable_of(setup, *self.names)
        excused = is_yes(variable_of(setup, *self.unless.split()))
        if value is None or excused or (self.of_nccl and setup.nccl_loaded is not True):
            return False
        if self.above is not None:
            return value.isascii() and value.isdecimal() and int(value[:12]) > self.above
        return re.search(self.pattern, value) is not None


SETTINGS = tuple(
    Setting(**{**row, "severity": Severity(row["severity"])}) for row in read_pack(__file__, "settings.toml")["rows"]
)

_OF_OURS = frozenset(CheckId)

MUST_AGREE = (
    "NCCL_ALGO NCCL_PROTO NCCL_NET NCCL_NET_PLUGIN NCCL_IB_DISABLE NCCL_SOCKET_FAMILY NCCL_P2P_DISABLE "
    "NCCL_SHM_DISABLE NCCL_CROSS_NIC NCCL_NVLS_ENABLE NCCL_CUMEM_ENABLE NCCL_BUFFSIZE NCCL_COLLNET_ENABLE "
    "NCCL_IB_GID_INDEX TORCH_NCCL_BLOCKING_WAIT TORCH_DISTRIBUTED_DEBUG CUDA_LAUNCH_BLOCKING"
).split()
"""Settings by which ranks choose how to talk: ranks that choose differently wait for messages that are never sent."""


def bad_value(row: Setting, facts: JobFacts) -> Iterator[Check]:
    """Return what one row of the table says."""
    having = (alike for name in row.names for same in facts.values(name).values() for alike in same)
    bad = {id(alike.setup): alike for alike in having if row.is_bad(alike.setup)}
    who = [each for each in members(bad.values()) if not row.untraced or each.trace is None]
    if who:
        name = next(name for name in row.names if who[0].variable(name) is not None)
        seen = f"{name} is {who[0].variable(name)} for {who_in_words(who)}"
        check = CheckId(row.id) if row.id in _OF_OURS else CheckId.SITE_RULE
        found = check_of(check, row.severity, who, seen=seen, why=row.why, change=row.change)
        yield found if check is not CheckId.SITE_RULE else found.model_copy(update={"rule": row.id})


def recorder_off_by_default(facts: JobFacts) -> Iterator[Check]:
    """Versions of PyTorch whose recorder is off by default."""
    who = [each for each in facts.those(_records_nothing) if each.trace is None]
    if who and who[0].setup is not None:
        version = who[0].setup.versions.torch
        named_anew = (_release(version) or _ON_BY_DEFAULT_SINCE) >= _ALL_RECORD_SINCE
        name = "TORCH_FR_BUFFER_SIZE" if named_anew else "TORCH_NCCL_TRACE_BUFFER_SIZE"
        yield said(
            "recorder_off_by_default",
            who,
            name=name,
            seen=f"{who_with(who, 'run')} PyTorch {version}, whose recorder is off by default",
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
        yield said(
            "timeouts",
            [facts.processes[position] for position, _, _ in long],
            severity=Severity.RISKY if milliseconds > _FOR_EVER_SECONDS * 1000 else Severity.NOTE,
            seen=f"an operation of {where} may take {min(hours, 1e6):.0f} hours",
        )


def nccl_silent(facts: JobFacts) -> Iterator[Check]:
    """On several nodes NCCL's own warnings are half of every diagnosis, and it prints none by default."""
    if not facts.several_hosts:
        return
    who = facts.those(lambda setup: setup.nccl_loaded is True and not setup.variables.get("NCCL_DEBUG"))
    if who:
        yield said("nccl_silent", who, seen=f"NCCL_DEBUG is not set for {who_in_words(who)}")


def settings_differ(facts: JobFacts) -> Iterator[Check]:
    """Return the settings that must be the same everywhere, and are not."""
    for name in MUST_AGREE if facts.with_nccl else ():
        sides = facts.sides(name, unset=True)
        if sides:
            yield said("settings_differ", minority(sides), name=name, seen=in_sides(sides, of=name))


RULES: tuple[Rule, ...] = (
    *(partial(bad_value, row) for row in SETTINGS),
    recorder_off_by_default,
    timeouts,
    nccl_silent,
    settings_differ,
)
