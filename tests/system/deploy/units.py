"""Unit files of systemd, read and expanded."""

import re
import subprocess
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SYSTEMD = REPOSITORY / "deploy" / "systemd"
EXECUTABLE = "/opt/unhang/bin/unhang"
RUN_SECONDS = 60.0


def unit_text(service: str) -> str:
    """Return the text of `unhang-SERVICE.service`."""
    return (SYSTEMD / f"unhang-{service}.service").read_text(encoding="utf-8")


def drop_in_text(service: str, name: str) -> str:
    """Return the text of a drop-in of a unit, e.g. `kernel-log`."""
    return (SYSTEMD / f"unhang-{service}.service.d" / f"{name}.conf").read_text(encoding="utf-8")


def values_of(text: str, name: str) -> list[str]:
    """Return the values of every line `NAME=value`, in order."""
    return re.findall(rf"^{re.escape(name)}=(.*)$", text, re.MULTILINE)


def settings_of(service: str, name: str) -> list[str]:
    """Return the values of every such line of a unit."""
    return values_of(unit_text(service), name)


def allowed_system_calls(service: str) -> frozenset[str]:
    """Return the names that the SystemCallFilter lines of a unit leave, expanded as systemd.exec(5) says."""
    allowed: set[str] = set()
    for line in settings_of(service, "SystemCallFilter"):
        if line.startswith("~"):
            allowed -= {call for word in line[1:].split() for call in _expanded(word)}
        else:
            allowed |= {call for word in line.split() for call in _expanded(word)} | _expanded("@default")
    return frozenset(allowed)


@cache
def _expanded(word: str) -> frozenset[str]:
    if not word.startswith("@"):
        return frozenset({word})
    done = subprocess.run(
        ("systemd-analyze", "syscall-filter", word),
        capture_output=True,
        text=True,
        check=True,
        timeout=RUN_SECONDS,
    )
    lines = (line.strip() for line in done.stdout.splitlines()[1:])
    members = [line for line in lines if line and not line.startswith("#")]
    return frozenset(call for member in members for call in _expanded(member))
