"""Which Pythons on which machines `unhang.pyz` is built for, and how a caller names fewer of them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
_OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
_WORD = re.compile(r"(?:(?P<python>\d+\.\d+)-)?(?P<machine>[a-z]\w+)|(?P<alone>\d+\.\d+)")


class UnknownTarget(ValueError):
    """A word names no target."""


@dataclass(frozen=True, order=True)
class Target:
    """One version of CPython on Linux with glibc 2.17 or newer."""

    python: str
    """Such as `3.12`."""
    machine: str
    """As `uname -m` says it: `x86_64`, `aarch64`."""

    @property
    def tag(self) -> str:
        """The name that `start.py` makes of the interpreter that runs it, such as `cp312-x86_64`."""
        return f"cp{self.python.replace('.', '')}-{self.machine}"

    def marker_environment(self) -> dict[str, str]:
        """Return what the markers of a requirement are evaluated with there (PEP 508)."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }

    def pip_options(self) -> tuple[str, ...]:
        """Return what makes pip choose wheels for it, not for the machine that runs pip."""
        return (
            *("--python-version", self.python, "--implementation", "cp", "--only-binary", ":all:"),
            *("--platform", f"manylinux_2_17_{self.machine}", "--platform", f"manylinux2014_{self.machine}"),
        )


ALL = tuple(Target(python, machine) for machine in MACHINES for python in PYTHONS)


def parse_targets(text: str) -> tuple[Target, ...]:
    """Read words such as `3.12-x86_64`, `3.13` (any machine), `arm64` (any Python); none: all. Raises UnknownTarget."""
    words = text.replace(",", " ").split()
    wanted = {target for word in words for target in _named(word)}
    return tuple(target for target in ALL if not words or target in wanted)


def _named(word: str) -> list[Target]:
    match = _WORD.fullmatch(word)
    python = match and (match["python"] or match["alone"])
    machine = match and match["machine"] and _OTHER_NAMES.get(match["machine"], match["machine"])
    named = [each for each in ALL if python in (None, each.python) and machine in (None, each.machine)]
    if match is None or not named:
        raise UnknownTarget(f"{word!r} names nothing that can be built for; there are {describe(ALL)}")
    return named


def describe(targets: Iterable[Target]) -> str:
    """Say it in words: `Python 3.11, 3.12 on x86_64; Python 3.12 on aarch64`."""
    pythons: dict[str, list[str]] = {}
    for target in targets:
        pythons.setdefault(target.machine, []).append(target.python)
    machines: dict[str, list[str]] = {}
    for machine, versions in pythons.items():
        machines.setdefault(", ".join(versions), []).append(machine)
    return "; ".join(f"Python {versions} on {', '.join(names)}" for versions, names in machines.items())
