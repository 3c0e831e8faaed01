"""Who is told of incidents: the notify file, TOML, read once.

A message leaves only for a host that `allow_hosts` states. What an error says never quotes a value: it may be a secret
that was written into the wrong place.
"""

import re
import tomllib
from pathlib import Path

from pydantic import Field, ValidationError, field_validator

from collector.notify.destinations import Destinations, parse_receiver_url
from collector.notify.links import check_template
from collector.notify.receivers import Receiver, Strict
from shared.errors import InvalidSettings, NotFound, quoted
from shared.mistakes import first_mistake
from shared.server.addresses import parse_hosts, parse_networks

_LARGEST_FILE = 1_000_000
_MOST_RECEIVERS = 64
_MOST_LINKS = 8

# pager, chat-gpu_team
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# Logs, GPU dashboard
_TITLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,39}")


class NotifyFile(Strict):
    """The whole file."""

    allow_hosts: tuple[str, ...] = ()
    allow_networks: tuple[str, ...] = ()
    page_url: str = Field(default="", max_length=500, pattern=r"^(https?://[^\s<>|]+)?$")
    links: dict[str, str] = Field(default={}, max_length=_MOST_LINKS)
    receivers: dict[str, Receiver] = Field(default={}, max_length=_MOST_RECEIVERS)

    @field_validator("links")
    @classmethod
    def _are_links(cls, given: dict[str, str]) -> dict[str, str]:
        for title, template in given.items():
            if not _TITLE.fullmatch(title):
                raise ValueError("a link's title is of letters, digits, spaces, - and _")
            check_template(template)
        return given

    @field_validator("receivers")
    @classmethod
    def _are_named(cls, given: dict[str, Receiver]) -> dict[str, Receiver]:
        if not all(_NAME.fullmatch(name) for name in given):
            raise ValueError("names of receivers are lower-case letters, digits, - and _")
        return given

    @property
    def destinations(self) -> Destinations:
        """Where messages may go. Raises InvalidSettings."""
        return Destinations(parse_hosts(" ".join(self.allow_hosts)), parse_networks(" ".join(self.allow_networks)))

    def receiver(self, name: str) -> Receiver:
        """Return one. Raises NotFound."""
        if name not in self.receivers:
            known = ", ".join(sorted(self.receivers)) or "none"
            raise NotFound(f"there is no receiver {quoted(name)} in the notify file", advice=f"receivers: {known}")
        return self.receivers[name]


def read_notify_file(path: Path) -> NotifyFile:
    """Return what a file says; its receivers' secrets can be used. Raises InvalidSettings, which names the place."""
    try:
        with path.open("rb") as opened:
            text = opened.read(_LARGEST_FILE).decode()
        given = tomllib.loads(text)
    except OSError as error:
        raise InvalidSettings(f"the notify file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidSettings(f"the notify file {path} is not TOML: {error}") from error
    try:
        found = _with_whole_paths(NotifyFile.model_validate(given), path.parent)
    except ValidationError as error:
        raise _refused(path, error) from error
    for name, receiver in found.receivers.items():
        try:
            parse_receiver_url(receiver.destination(), found.destinations, needs_tls=receiver.needs_tls)
            receiver.check()
        except InvalidSettings as error:
            raise InvalidSettings(f"the receiver {name} in {path}: {error}", advice=error.advice) from error
    return found


def _with_whole_paths(file: NotifyFile, folder: Path) -> NotifyFile:
    """Paths are relative to the notify file."""

    def whole(receiver: Receiver) -> Receiver:
        paths = {name: folder / value for name, value in receiver if isinstance(value, Path)}
        return receiver.model_copy(update=paths)

    return file.model_copy(update={"receivers": {name: whole(each) for name, each in file.receivers.items()}})


def _refused(path: Path, error: ValidationError) -> InvalidSettings:
    first = first_mistake(error)
    parts = first.place.split(".")
    if len(parts) > 2 and parts[0] == "receivers":  # pydantic names the type between the receiver and its field
        del parts[2]
    advice = "secrets are read from files, e.g. routing_key_file" if first.type == "extra_forbidden" else ""
    return InvalidSettings(f"{quoted('.'.join(parts))} in the notify file {path}: {first.why}", advice=advice)
