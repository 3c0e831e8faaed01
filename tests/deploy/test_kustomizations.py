"""What the other tests of the manifests build is what Kubernetes' own tool builds, where that is installed."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.kubernetes import COMPONENTS, OVERLAYS, with_components
from tests.deploy.kustomizations import build
from tests.deploy.units import RUN_SECONDS


def in_order(value: Any) -> Any:
    """Return a manifest with its lists of mappings in one order: where a merge puts a new item is no difference."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        items = [in_order(each) for each in value]
        return sorted(items, key=repr) if all(isinstance(each, dict) for each in items) else items
    return value


def same_as_kubectl(folder: Path) -> bool:
    """Does kubectl build the same? True as well where there is none: it is a check of our tests, not of the product."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return True
    done = subprocess.run(
        (kubectl, "kustomize", folder), capture_output=True, text=True, timeout=RUN_SECONDS, check=True
    )
    return bool(in_order(list(yaml.safe_load_all(done.stdout))) == in_order(build(folder)))


def test_overlays_are_built_alike() -> None:
    """Each overlay as it stands."""
    assert all(same_as_kubectl(folder) for folder in OVERLAYS)


def test_components_are_built_alike(tmp_path: Path) -> None:
    """All components on top of an overlay."""
    assert same_as_kubectl(with_components(OVERLAYS[0], COMPONENTS, tmp_path))
