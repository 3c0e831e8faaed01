"""What a node has beside Slurm: `unhang` itself, and for systemd, which these hosts do not run, what it is told."""

import time
from pathlib import Path

from tests.system.live.asking import unhang

_NODE_PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
_UNHANG = "/opt/unhang/bin/unhang"
_SECONDS = 30.0


class Programs:
    """A folder that the scripts of deploy/slurm find first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.unhang = folder / "unhang"
        self.says("logger", f'echo "$SLURMD_NODENAME logger: $*" >> {self.log}')
        self.says("systemctl", f'[ "$1" != is-active ] || exit 3; echo "$SLURMD_NODENAME $*" >> {self.log}')

    def says(self, name: str, body: str) -> None:
        """Put a program there."""
        program = self.folder / name
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)

    def install(self) -> None:
        """Put `unhang` there."""
        words = " ".join(repr(word) if '"' not in word else f'"{word}"' for word in unhang())
        self.says("unhang", f'exec {words} "$@"')

    def placed(self, script: str) -> str:
        """Return a script as it finds these programs, and keeps its files in our folder."""
        for there, here in ((_NODE_PATH, f"PATH={self.folder}:/usr/bin:/bin"), (_UNHANG, str(self.unhang))):
            script = script.replace(there, here)
        script = script.replace("/run/unhang-jobs", f"{self.folder}/$SLURMD_NODENAME.seats")
        return script.replace("/var/log", str(self.folder))

    def told(self, *words: str) -> list[str]:
        """Wait until all of these were said to systemd or the log, and return what was."""
        until = time.monotonic() + _SECONDS
        while True:
            said = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
            if all(any(word in line for line in said) for word in words) or time.monotonic() > until:
                return said
            time.sleep(0.05)
