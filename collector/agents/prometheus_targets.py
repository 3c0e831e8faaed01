"""Prometheus' lists of targets, as files and HTTP servers give them: `[{"targets": ["node1:8471"], "labels": {}}]`.

The format is that of Prometheus' `file_sd_config` and `http_sd_config`. A target is `HOST:PORT`, or a host alone or a
URL, as in our host lists; the label `__scheme__` chooses between http and https, as it does for Prometheus.
"""

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from collector.agents.agent_source import MOST_SIGHTINGS, Sighting, parse_one
from shared.errors import InvalidHostlist, InvalidInput, InvalidSettings
from shared.mistakes import first_mistake

MOST_BYTES = 8_388_608
MOST_YAML_BYTES = 1_048_576
"""YAML is read a hundred times more slowly than JSON."""

_DEEPEST = 8
_MOST_LABELS = 32
_LONGEST_LABEL = 256
_SCHEME = "__scheme__"


class _Group(BaseModel):
    targets: list[str] = Field(max_length=MOST_SIGHTINGS)
    labels: dict[str, str] = Field(default_factory=dict)


_GROUPS = TypeAdapter(list[_Group])


def parse_targets(content: bytes, *, source: str, yaml: bool = False) -> tuple[Sighting, ...]:
    """Return the agents that a list of target groups names. Raises InvalidInput, which says what is wrong where."""
    if len(content) > (MOST_YAML_BYTES if yaml else MOST_BYTES):
        raise InvalidInput(f"the list of targets has {len(content)} bytes, which is too large")
    try:
        groups = _GROUPS.validate_python(_load_yaml(content)) if yaml else _GROUPS.validate_json(content)
    except ValidationError as error:
        raise InvalidInput(f"it is not a list of target groups: {first_mistake(error)}") from error
    return tuple(_sightings(groups, source))


def _sightings(groups: Iterable[_Group], source: str) -> Iterator[Sighting]:
    count = 0
    for group in groups:
        labels = _bounded(group.labels)
        for target in group.targets:
            count += 1
            if count > MOST_SIGHTINGS:
                raise InvalidHostlist(f"more than {MOST_SIGHTINGS} agents are named")
            yield Sighting(parse_one(_as_url(target, group.labels.get(_SCHEME))), source, labels)


def _as_url(target: str, scheme: str | None) -> str:
    if scheme is None or "://" in target:
        return target
    return f"{scheme}://{target}"


def _bounded(labels: dict[str, str]) -> dict[str, str]:
    """Leave out what is Prometheus' own and what would only fill memory."""
    shown = {name[:_LONGEST_LABEL]: text[:_LONGEST_LABEL] for name, text in labels.items() if not name.startswith("__")}
    return dict(list(shown.items())[:_MOST_LABELS])


def _load_yaml(content: bytes) -> Any:
    """Read YAML that cannot grow: no aliases, which a few bytes can make into gigabytes, and no depth."""
    yaml = require_yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # both are safe, the one in C is quick
    depth = 0
    try:
        for event in yaml.parse(content, Loader=loader):
            opens = isinstance(event, yaml.CollectionStartEvent)
            depth += 1 if opens else -1 if isinstance(event, yaml.CollectionEndEvent) else 0
            if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
                raise InvalidInput("YAML with aliases, or deeply nested, is not a list of target groups")
        return yaml.load(content, Loader=loader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-99-99
        raise InvalidInput(f"it is not YAML: {' '.join(str(error).split())[:200]}") from error


def require_yaml() -> ModuleType:
    """Return PyYAML. Raises InvalidSettings where it is not installed."""
    try:
        import yaml
    except ImportError as error:
        raise InvalidSettings(
            "files of targets in YAML need PyYAML", advice="install it: pip install 'unhang[discovery]'"
        ) from error
    return yaml
