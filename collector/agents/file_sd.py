"""Agents from files in Prometheus' format, JSON or YAML, read again when they change."""

import glob
import os
from pathlib import Path

from collector.agents.agent_source import Sighting, SourceReading
from collector.agents.prometheus_targets import MOST_BYTES, parse_targets, require_yaml
from collector.concurrency.threads import OwnThread
from shared.errors import InvalidInput, UnhangError, quoted
from shared.missing import Missing, Reason
from shared.server.secret_files import Stamp, stamp_of

_YAML = (".yml", ".yaml")
_MOST_FILES = 1000


class FileTargets:
    """The files of one pattern, or one file. The agents of a broken file stay; other files are not affected."""

    def __init__(self, pattern: str) -> None:
        """Raise InvalidSettings where the pattern is of YAML files and there is no YAML."""
        if pattern.endswith(_YAML):
            require_yaml()
        self._pattern = pattern
        self._known: dict[Path, tuple[Stamp | None, tuple[Sighting, ...]]] = {}
        self._thread = OwnThread("file-sd")

    @property
    def name(self) -> str:
        """`file_sd` and the pattern."""
        return f"file_sd {self._pattern}"

    async def read(self) -> SourceReading:
        """Read the files that have changed. A broken or vanished one is reported in `missing`."""
        known, missing = await self._thread.run(self._look)
        self._known = known
        sightings = tuple(sighting for _, found in known.values() for sighting in found)
        return SourceReading(sightings, missing)

    def _look(self) -> tuple[dict[Path, tuple[Stamp | None, tuple[Sighting, ...]]], tuple[Missing, ...]]:
        # A file that a pattern no longer matches was removed on purpose; a file that was named must exist.
        named = [] if glob.has_magic(self._pattern) else [self._pattern]
        files = [Path(name) for name in sorted({*glob.iglob(self._pattern), *named})]
        if len(files) > _MOST_FILES:
            raise InvalidInput(f"more than {_MOST_FILES} files match")
        if not files:
            raise InvalidInput("no such file")
        known, missing = {}, []
        for file in files:
            before = self._known.get(file, (None, ()))
            try:
                known[file] = _read(file, before, self.name)
            except UnhangError as error:
                if file in self._known:
                    known[file] = (None, before[1])
                missing.append(_broken(file, error))
        return known, tuple(missing)


def _read(
    file: Path, before: tuple[Stamp | None, tuple[Sighting, ...]], source: str
) -> tuple[Stamp | None, tuple[Sighting, ...]]:
    try:
        stamp = stamp_of(file)
        if stamp == before[0]:
            return before
        with open(file, "rb", opener=_open) as reading:
            content = reading.read(MOST_BYTES + 1) or b""
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {error.strerror}") from error
    return stamp, parse_targets(content, source=source, yaml=file.name.endswith(_YAML))


def _open(name: str, flags: int) -> int:
    """Open for `open`, which closes it where it turns out to be a directory. A FIFO would block forever."""
    return os.open(name, flags | os.O_NONBLOCK)


def _broken(file: Path, error: UnhangError) -> Missing:
    detail = f"{quoted(str(file), most=200)}: {error}; the agents read from it before are kept"
    return Missing(source="file_sd", reason=Reason.UNREADABLE, detail=detail)
