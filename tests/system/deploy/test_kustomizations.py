"""What the other tests of the manifests build is what Kubernetes' own tool builds, where that is installed."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.build.jobs.folders import write_files
from tests.system.deploy.kubernetes import COMPONENTS, OVERLAYS, with_components
from tests.system.deploy.kustomizations import build
from tests.system.deploy.units import RUN_SECONDS


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


SMALL = {
    "base/kustomization.yaml": "resources: [pod.yaml, account.yaml]",
    "base/account.yaml": "{apiVersion: v1, kind: ServiceAccount, metadata: {name: gone}}",
    "base/pod.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      hosts: [a, b]
      volumes: [{name: state, emptyDir: {}}, {name: tmp, emptyDir: {}}]
      containers: [{name: web, image: web, args: [one, two], env: [{name: A, value: old}, {name: B, value: kept}]}]
""",
    "top/kustomization.yaml": """
namespace: there
resources: [../base]
images: [{name: web, newName: registry.example/web, newTag: "7"}]
patches:
  - path: patch.yaml
  - patch: "{$patch: delete, apiVersion: v1, kind: ServiceAccount, metadata: {name: gone}}"
  - target: {kind: Deployment, name: web}
    patch: '[{"op": "add", "path": "/spec/template/spec/hosts/-", "value": "c"}]'
""",
    "top/patch.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      volumes: [{name: state, emptyDir: null, hostPath: {path: /x}}]
      containers: [{name: web, args: [three], env: [{name: A, value: new}, {name: C, value: added}]}]
""",
}
BUILT = {
    "hosts": ["a", "b", "c"],
    "volumes": [{"name": "state", "hostPath": {"path": "/x"}}, {"name": "tmp", "emptyDir": {}}],
    "containers": [
        {
            "name": "web",
            "image": "registry.example/web:7",
            "args": ["three"],
            "env": [{"name": "A", "value": "new"}, {"name": "B", "value": "kept"}, {"name": "C", "value": "added"}],
        }
    ],
}


def test_patches_and_names_do_what_the_documentation_says(tmp_path: Path) -> None:
    """Items merged by name, nulls and `$patch: delete` taken away, other lists replaced; and kubectl agrees."""
    (deployment,) = build(write_files(tmp_path, SMALL) / "top")
    assert deployment["metadata"] == {"name": "web", "namespace": "there"}
    assert deployment["spec"]["template"]["spec"] == BUILT
    assert same_as_kubectl(tmp_path / "top")


def test_overlays_are_built_alike() -> None:
    """Each overlay as it stands."""
    assert all(same_as_kubectl(folder) for folder in OVERLAYS)


def test_components_are_built_alike(tmp_path: Path) -> None:
    """All components on top of an overlay."""
    assert same_as_kubectl(with_components(OVERLAYS[0], COMPONENTS, tmp_path))
