"""What the other tests of the manifests build is what the documentation of Kubernetes says of patches."""

from pathlib import Path

from tests.build.jobs.folders import write_files
from tests.system.deploy.kustomizations import build

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
    """Items merged by name, nulls and `$patch: delete` taken away, other lists replaced."""
    (deployment,) = build(write_files(tmp_path, SMALL) / "top")
    assert deployment["metadata"] == {"name": "web", "namespace": "there"}
    assert deployment["spec"]["template"]["spec"] == BUILT
