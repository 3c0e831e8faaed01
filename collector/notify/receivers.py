"""The kinds of receivers of incidents, and the secrets that they name, which are read for each message."""

import base64
import binascii
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from shared.answer.incidents import IncidentChangeKind
from shared.errors import InvalidSettings
from shared.plugins import RECEIVERS, plugins
from shared.server.secret_files import read_secret
from shared.value import Value

_SHORTEST_SECRET, _LONGEST_SECRET = 24, 64
"""Bytes of a signing secret, as Standard Webhooks has it."""

# severity; not 9lives, job-name
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")
# R0123456789ABCDEF0123456789ABCDEF, without the R for the key of a service
_ROUTING_KEY = re.compile(r"[A-Za-z0-9]{32,40}")

_ALL_CHANGES = (
    IncidentChangeKind.OPENED,
    IncidentChangeKind.REOPENED,
    IncidentChangeKind.ACKNOWLEDGED,
    IncidentChangeKind.RESOLVED,
    IncidentChangeKind.FALSE_ALARM,
)


class Include(StrEnum):
    """What comes from a job, and goes to a receiver only where its `include` has it."""

    NAMES = "names"
    """Of the job, its user, nodes and process group, and what people say of the incident."""
    HEADLINE = "headline"
    """The diagnosis in one sentence: it names functions, files and process groups."""
    STACKS = "stacks"
    """Where the culprits are."""
    LINES = "lines"
    """Log lines that the diagnosis rests on."""


_FOR_WHO_IS_ON_CALL = frozenset({Include.NAMES, Include.HEADLINE})
"""Which job, which node and what is wrong: without these nobody knows whom a page is for."""


class Strict(Value):
    """What a person writes: a name that is not known is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Receiver(Strict):
    """What all receivers have in common."""

    changes: ClassVar[tuple[IncidentChangeKind, ...]] = _ALL_CHANGES
    """What it is told of."""
    needs_tls: ClassVar[bool] = False
    """Whether each message carries a secret."""

    include: frozenset[Include] = _FOR_WHO_IS_ON_CALL
    ca_file: Path | None = None
    give_up_hours: float = Field(default=24.0, gt=0.0, le=168.0)

    def destination(self) -> str:
        """Return the URL to send to. Raises InvalidSettings where a file that holds it cannot be used."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises InvalidSettings where its secret cannot be used."""
        self.destination()


class AlertmanagerReceiver(_Receiver):
    """Alertmanager, API v2. It is sent what goes on again and again, and forgets what it is not sent."""

    changes = tuple(kind for kind in _ALL_CHANGES if kind is not IncidentChangeKind.ACKNOWLEDGED)

    type: Literal["alertmanager"]
    url: str
    labels: dict[str, str] = Field(default={}, max_length=32)
    token_file: Path | None = None
    resend_seconds: float = Field(default=60.0, ge=1.0, le=3600.0)

    @field_validator("labels")
    @classmethod
    def _are_labels(cls, given: dict[str, str]) -> dict[str, str]:
        if not all(_LABEL.fullmatch(name) for name in given):
            raise ValueError("names of labels are letters, digits and _, and begin with no digit")
        return given

    def destination(self) -> str:
        """Return where alerts are posted."""
        return self.url.rstrip("/") + "/api/v2/alerts"

    def token(self) -> str | None:
        """Return the bearer token, if one is configured. Raises InvalidSettings."""
        return None if self.token_file is None else _secret(self.token_file, "token")[0]

    def check(self) -> None:
        """Raises InvalidSettings where the token cannot be used."""
        self.token()


class PagerDutyReceiver(_Receiver):
    """PagerDuty, Events API v2."""

    needs_tls = True

    type: Literal["pagerduty"]
    url: str = "https://events.pagerduty.com"
    routing_key_file: Path
    severity: Literal["critical", "error", "warning", "info"] = "critical"

    def destination(self) -> str:
        """Return where events are posted."""
        return self.url.rstrip("/") + "/v2/enqueue"

    def routing_key(self) -> str:
        """Return the integration key. Raises InvalidSettings."""
        key = _secret(self.routing_key_file, "routing key")[0]
        if not _ROUTING_KEY.fullmatch(key):
            raise InvalidSettings(f"{self.routing_key_file} holds no integration key", advice="it has 32 characters")
        return key

    def check(self) -> None:
        """Raises InvalidSettings where the key cannot be used."""
        self.routing_key()


class SlackReceiver(_Receiver):
    """Slack: an incoming webhook, whose URL is a secret, or an app that may write to a channel."""

    needs_tls = True

    type: Literal["slack"]
    url_file: Path | None = None
    token_file: Path | None = None
    channel: str = Field(default="", max_length=80)
    url: str = "https://slack.com"

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if (self.url_file is None) == (self.token_file is None) or bool(self.channel) == (self.token_file is None):
            raise ValueError("a webhook has url_file; an app has token_file and channel")
        return self

    def destination(self) -> str:
        """Return the webhook's URL, or the API's. Raises InvalidSettings."""
        if self.url_file is None:
            return self.url.rstrip("/") + "/api/chat.postMessage"
        return _secret(self.url_file, "file of the webhook's URL")[0]

    def token(self) -> str | None:
        """Return the app's, None of a webhook. Raises InvalidSettings."""
        return None if self.token_file is None else _secret(self.token_file, "token")[0]

    def check(self) -> None:
        """Raises InvalidSettings where the URL or the token cannot be used."""
        self.destination()
        self.token()


class WebhookReceiver(_Receiver):
    """Any server: CloudEvents 1.0, signed as Standard Webhooks."""

    type: Literal["webhook"]
    url: str
    secret_file: Path

    def destination(self) -> str:
        """Return where events are posted."""
        return self.url

    def secrets(self) -> tuple[bytes, ...]:
        """Return the signing secrets: the new one and the old one while they are changed. Raises InvalidSettings."""
        return tuple(_signing_secret(line, self.secret_file) for line in _secret(self.secret_file, "signing secret"))

    def check(self) -> None:
        """Raises InvalidSettings where a secret cannot be used."""
        self.secrets()


class SiteReceiver(_Receiver):
    """A service of the site's: a function of the entry point group `unhang.receivers` composes each message."""

    type: str
    url: str
    secret_file: Path | None = None
    options: dict[str, str] = Field(default={}, max_length=32)

    @field_validator("type")
    @classmethod
    def _is_known(cls, given: str) -> str:
        if given not in (installed := plugins(RECEIVERS).usable):
            raise ValueError(f"no type of receiver: known are {', '.join((*_OURS, *installed))}")
        return given

    def destination(self) -> str:
        """Return where messages are posted."""
        return self.url

    def secret(self) -> str:
        """Return the first line of its file of secrets, `""` where it has none. Raises InvalidSettings."""
        return "" if self.secret_file is None else _secret(self.secret_file, "secret")[0]

    def check(self) -> None:
        """Raises InvalidSettings where the secret cannot be used."""
        self.secret()


_OURS = ("alertmanager", "pagerduty", "slack", "webhook")
_BY_PLUGIN = "plugin"


def _type_of(given: object) -> str | None:
    found = given.get("type") if isinstance(given, dict) else getattr(given, "type", None)
    return found if found in _OURS or found is None else _BY_PLUGIN


Receiver = Annotated[
    Annotated[AlertmanagerReceiver, Tag("alertmanager")]
    | Annotated[PagerDutyReceiver, Tag("pagerduty")]
    | Annotated[SlackReceiver, Tag("slack")]
    | Annotated[WebhookReceiver, Tag("webhook")]
    | Annotated[SiteReceiver, Tag(_BY_PLUGIN)],
    Discriminator(_type_of),
]


def _secret(path: Path, what: str) -> tuple[str, ...]:
    """Return the lines of a file of secrets; empty ones and comments do not count."""
    try:
        lines = [line.strip() for line in read_secret(path, what).decode("ascii").splitlines()]
    except UnicodeDecodeError as error:
        raise InvalidSettings(f"{what} {path} holds other than ASCII characters") from error
    found = tuple(line for line in lines if line and not line.startswith("#"))
    if not found:
        raise InvalidSettings(f"{what} {path} is empty", advice="write it on one line")
    return found


def _signing_secret(line: str, path: Path) -> bytes:
    advice = "write `whsec_` and 32 random bytes in base64, e.g. of: openssl rand -base64 32"
    if not line.startswith("whsec_"):
        raise InvalidSettings(f"a secret in {path} does not begin with whsec_", advice=advice)
    try:
        secret = base64.b64decode(line.removeprefix("whsec_"), validate=True)
    except binascii.Error as error:
        raise InvalidSettings(f"a secret in {path} is not base64", advice=advice) from error
    if not _SHORTEST_SECRET <= len(secret) <= _LONGEST_SECRET:
        raise InvalidSettings(f"a secret in {path} has {len(secret)} bytes, not 24 to 64", advice=advice)
    return secret
