"""Schemas of what the Prometheus operator takes, from its own CustomResourceDefinitions, as a package carries them."""

import json
import os
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema

from tests.build.processes.commands import REPOSITORY
from tests.system.deploy.kustomizations import Manifest

GROUP = "monitoring.coreos.com/v1"
_PACKAGE = "cloudcoil.models.prometheus-operator"
_KINDS = ("PodMonitor", "PrometheusRule")


def validate_monitoring(manifest: Manifest) -> None:
    """Hold a manifest against the definition of its kind; unknown fields are refused. Raises ValidationError."""
    if manifest.get("apiVersion") != GROUP or not manifest.get("metadata", {}).get("name"):
        raise jsonschema.ValidationError(f"apiVersion is not {GROUP}, or there is no name")
    _validator(manifest["kind"]).validate(manifest)


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    assert kind in _KINDS
    file = REPOSITORY / "build" / "schemas" / f"{_PACKAGE}-{version(_PACKAGE)}" / f"{kind}.json"
    if not file.exists():
        _make(kind, file)
    return jsonschema.Draft202012Validator(_strict(json.loads(file.read_text(encoding="utf-8"))))


def _make(kind: str, file: Path) -> None:
    """Keep a schema for the next time: the package takes three seconds to import."""
    import cloudcoil.models.prometheus_operator.v1 as operator

    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(getattr(operator, kind).model_json_schema(by_alias=True)), encoding="utf-8")
    draft.replace(file)


def _strict(schema: Any) -> Any:
    """Refuse unknown fields wherever fields are named: the operator's own would be dropped without a word."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _strict(each) for name, each in schema.items()}
    return (
        closed | {"additionalProperties": False}
        if "properties" in schema and schema.get("type") == "object"
        else closed
    )
