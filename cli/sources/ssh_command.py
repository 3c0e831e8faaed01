"""The command lines of one round over ssh: what runs here, and what the shell on the other side is told to run."""

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.errors import InvalidSettings
from shared.shell_commands import shell_words

LARGEST_ZIPAPP = 64 * 1024 * 1024

_FIXED = ("BatchMode=yes", "ClearAllForwardings=yes", "ControlMaster=no")
"""Ask nobody for a password, open no ports, leave no connection behind. Whom to believe is for the user's own
configuration to say: nothing here touches StrictHostKeyChecking or known_hosts, see ssh_config(5)."""

_DEFAULTS = ("ConnectTimeout=10",)
"""Stand behind the user's: of several values ssh takes the first."""

# Takes the program from standard input and leaves the rest of it alone: its end says that whoever asked is gone.
# `python3 -` would read all of it. A file in memory leaves nothing behind, on no disk. It goes there as one line
# without an exclamation mark: csh is some people's shell.
_LOADER = """
import hashlib, os, sys
left, digest, parts = int(sys.argv[1]), sys.argv[2], []
while left:
    part = os.read(0, min(left, 1 << 20))
    if not part: sys.exit("unhang.pyz was cut off")
    parts.append(part)
    left -= len(part)
data = b"".join(parts)
hashlib.sha256(data).hexdigest() == digest or sys.exit("unhang.pyz arrived changed")
file = os.memfd_create("unhang.pyz", 0)
with open(file, "wb", closefd=False) as to: to.write(data)
os.execv(sys.executable, [sys.executable, "-I", "/proc/self/fd/%d" % file, *sys.argv[3:]])
"""


@dataclass(frozen=True)
class HostQuestion:
    """What a host is asked."""

    job: str | None = None
    count: int = 2
    interval_seconds: float = 3.0
    stacks: str = "plain"
    pids: tuple[int, ...] = ()
    """Only these processes; none named: all ranks."""
    ras: bool = False
    """Ask for NCCL's RAS report, too."""

    def arguments(self) -> list[str]:
        """Return the arguments of `unhang` on the other side.

        A name that no line of a shell can hold is left out, and a number, which may be Slurm's: then all ranks are
        looked at there, and sorted out here.
        """
        plain = self.job is not None and self.job.isprintable() and not self.job.isdecimal()
        named = [f"--job={self.job}"] if plain else []
        words = ["snapshot", "-o", "-", "--allow-empty", "--end-with-stdin", "--stacks", self.stacks]
        words += ["--looks", str(self.count), "--interval", f"{self.interval_seconds:g}"]
        words += [word for pid in self.pids for word in ("--pid", str(pid))]
        return [*words, *(["--ras"] if self.ras else []), *named]


@dataclass(frozen=True)
class Way:
    """How hosts are reached, and what answers there."""

    client: tuple[str, ...] = ("ssh",)
    options: tuple[str, ...] = ()
    """For `-o`, such as `Port=2222`."""
    remote: str | None = None
    """How `unhang` is called there, or Python where the program is brought along; goes to the other side's shell."""
    program: bytes | None = None
    """The zipapp to bring along."""

    def command(self, host: str, look: HostQuestion) -> list[str]:
        """Return what to run here for one host. `host` must not begin with a dash."""
        return self.command_for(host, look.arguments())

    def command_for(self, host: str, arguments: Sequence[str]) -> list[str]:
        """Return what to run here for `unhang` with these arguments there."""
        options = [word for each in (*_FIXED, *self.options, *_DEFAULTS) for word in ("-o", each)]
        return [*self.client, "-T", "-a", "-x", *options, "--", host, self._remote_command(arguments)]

    def _remote_command(self, arguments: Sequence[str]) -> str:
        if self.program is None:
            return f"{self.remote or 'unhang'} {shell_words(arguments)}"
        loader = [
            "-c",
            f"exec({json.dumps(_LOADER)})",
            str(len(self.program)),
            hashlib.sha256(self.program).hexdigest(),
            *arguments,
        ]
        return f"{self.remote or 'python3'} {shell_words(loader)}"


def read_program(path: Path) -> bytes:
    """Read a zipapp to bring along. Raises InvalidSettings."""
    try:
        with path.open("rb") as file:
            program = file.read(LARGEST_ZIPAPP + 1)
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}", advice="make zipapp builds it") from error
    if len(program) > LARGEST_ZIPAPP or b"PK\x05\x06" not in program[-65_600:]:
        raise InvalidSettings(f"{path} is not a zipapp", advice="make zipapp builds dist/unhang.pyz")
    return program


def read_client(text: str) -> tuple[str, ...]:
    """Split what `--ssh-command` names. Raises InvalidSettings."""
    try:
        words: Sequence[str] = shlex.split(text)
    except ValueError as error:
        raise InvalidSettings(f"--ssh-command cannot be read: {error}") from error
    if not words:
        raise InvalidSettings("--ssh-command is empty", advice="leave it out for ssh")
    return tuple(words)
