"""The manifests for Kubernetes, built."""

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.system.deploy.kustomizations import Manifest, build
from tests.system.deploy.units import REPOSITORY

KUBERNETES = REPOSITORY / "deploy" / "kubernetes"
OVERLAYS = tuple(sorted((KUBERNETES / "overlays").iterdir()))
COMPONENTS = tuple(sorted((KUBERNETES / "components").iterdir()))


@cache
def overlay(name: str) -> tuple[Manifest, ...]:
    """Return the manifests of an overlay; not to be changed."""
    return tuple(build(KUBERNETES / "overlays" / name))


def with_components(folder: Path, components: Iterable[Path], into: Path) -> Path:
    """Write a kustomization of an overlay and components, as somebody's own would be, and return its folder."""
    asked: dict[str, Any] = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    asked["resources"] = [os.path.relpath(folder, into.resolve())]
    asked["components"] = [os.path.relpath(component, into.resolve()) for component in components]
    (into / "kustomization.yaml").write_text(yaml.safe_dump(asked), encoding="utf-8")
    return into


def one(manifests: Iterable[Manifest], kind: str, name: str) -> Manifest:
    """Return the one manifest of a kind and a name."""
    (found,) = (each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found
