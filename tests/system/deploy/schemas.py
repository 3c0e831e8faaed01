"""Schemas of what the Prometheus operator takes, from its own CustomResourceDefinitions, as a package carries them."""

from functools import cache
from typing import Any

import jsonschema

from tests.system.deploy.kustomizations import Manifest

GROUP = "monitoring.coreos.com/v1"
_KINDS = ("PodMonitor", "PrometheusRule")


def validate_monitoring(manifest: Manifest) -> None:
    """Hold a manifest against the definition of its kind; unknown fields are refused. Raises ValidationError."""
    if manifest.get("apiVersion") != GROUP or not manifest.get("metadata", {}).get("name"):
        raise jsonschema.ValidationError(f"apiVersion is not {GROUP}, or there is no name")
    _validator(manifest["kind"]).validate(manifest)


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    """The package takes three seconds to import: not done where tests are only listed."""
    import cloudcoil.models.prometheus_operator.v1 as operator

    assert kind in _KINDS
    return jsonschema.Draft202012Validator(_strict(getattr(operator, kind).model_json_schema(by_alias=True)))


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
