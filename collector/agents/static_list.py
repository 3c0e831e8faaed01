"""Which agents there are: host lists from settings and flags, and a file that is read again when it changes."""

import os
from collections.abc import Iterable
from pathlib import Path

from collector.hostlists import MOST_AGENTS, AgentAddress, fold_addresses, parse_hostlist
from shared.errors import InvalidHostlist, InvalidSettings
from shared.missing import Missing, Reason

MOST_BYTES = 8_388_608
"""Of a file of agents."""

_Stamp = tuple[int, int, int]


class StaticInventory:
    """Agents named in host lists and in a file; while the file cannot be read, its last good content is used."""

    def __init__(self, hostlists: Iterable[str] = (), *, file: Path | None = None) -> None:
        """Raise InvalidHostlist or InvalidSettings where the lists or the file cannot be used at all."""
        self._named = fold_addresses(address for text in hostlists for address in parse_hostlist(text))
        self._file = file
        self._stamp: _Stamp | None = None
        self._from_file: tuple[AgentAddress, ...] = ()
        self._trouble: Missing | None = None
        if file is not None:
            self._read(file)

    @property
    def trouble(self) -> Missing | None:
        """Why the file's content may be out of date, or None."""
        return self._trouble

    def addresses(self) -> tuple[AgentAddress, ...]:
        """Return the agents: those of the host lists, then those of the file, repetitions folded."""
        return fold_addresses(address for _, addresses in self.by_source() for address in addresses)

    def by_source(self) -> tuple[tuple[str, tuple[AgentAddress, ...]], ...]:
        """Return the agents by the setting that names them, `agents` or `agents_file`, repetitions included."""
        if self._file is not None:
            self._refresh(self._file)
        return ("agents", self._named), ("agents_file", self._from_file)

    def _refresh(self, file: Path) -> None:
        try:
            self._read(file)
            self._trouble = None
        except (InvalidSettings, InvalidHostlist) as error:
            self._trouble = Missing(
                source=str(file), reason=Reason.UNREADABLE, detail=f"{error}; the agents read before are kept"
            )

    def _read(self, file: Path) -> None:
        try:
            found = os.stat(file)
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp == self._stamp:
                return
            with file.open("rb") as opened:
                content = opened.read(MOST_BYTES + 1)
        except OSError as error:
            raise InvalidSettings(f"the file of agents {file} cannot be read: {error.strerror}") from error
        self._from_file = read_agents_file(content, name=str(file))
        self._stamp = stamp


def read_agents_file(content: bytes, *, name: str) -> tuple[AgentAddress, ...]:
    """Read host lists, one or more per line, with `#` comments. Raises InvalidHostlist with the line's number."""
    if len(content) > MOST_BYTES:
        raise InvalidHostlist(f"the file of agents {name} is larger than {MOST_BYTES} bytes")
    found: list[AgentAddress] = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        try:
            found.extend(parse_hostlist(line.partition("#")[0]))
            if len(found) > MOST_AGENTS:
                raise InvalidHostlist(f"more than {MOST_AGENTS} agents are named")
        except InvalidHostlist as error:
            raise InvalidHostlist(f"{name}, line {number}: {error}", advice=error.advice) from error
    return fold_addresses(found)
