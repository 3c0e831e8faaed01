"""Builds kustomizations as `kubectl kustomize` does, as far as ours go; anything else in one is refused."""

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

_CLUSTER_WIDE = frozenset({"Namespace", "ClusterRole", "ClusterRoleBinding"})
_KEYS = ("name", "mountPath", "containerPort", "topologyKey")
"""What tells the items of a list apart in a strategic merge: containers, variables and volumes by name, and so on."""

_KNOWN = frozenset({"apiVersion", "kind", "resources", "components", "patches", "namespace", "images"})


def build(folder: Path) -> list[Manifest]:
    """Return the manifests of a kustomization."""
    return _built(folder, [])


def _built(folder: Path, given: list[Manifest]) -> list[Manifest]:
    (asked,) = yaml.safe_load_all((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert set(asked) <= _KNOWN, f"{folder} has what these tests do not know: {set(asked) - _KNOWN}"
    found = [*given, *_resources(folder, asked.get("resources", ()))]
    for component in asked.get("components", ()):
        found = _built(folder / component, found)
    for patch in asked.get("patches", ()):
        found = _patched(found, patch, folder)
    for manifest in found:
        _place(manifest, asked.get("namespace"))
        _set_images(manifest, asked.get("images", ()))
    return found


def _resources(folder: Path, names: Iterable[str]) -> Iterator[Manifest]:
    for name in names:
        if (folder / name).is_dir():
            yield from build((folder / name).resolve())
        else:
            yield from yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))


def _place(manifest: Manifest, namespace: str | None) -> None:
    if namespace is None:
        return
    if manifest["kind"] not in _CLUSTER_WIDE:
        manifest["metadata"]["namespace"] = namespace
    for subject in manifest.get("subjects", ()):
        subject["namespace"] = namespace


def _set_images(manifest: Manifest, images: Iterable[Manifest]) -> None:
    for container in containers(manifest):
        for image in images:
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"


def containers(manifest: Manifest) -> list[Manifest]:
    """Return all containers of a workload, those that run first included; none of anything else."""
    pod = pod_of(manifest)
    return [*pod.get("initContainers", ()), *pod.get("containers", ())]


def pod_of(manifest: Manifest) -> Manifest:
    """Return what a workload's pods are, or nothing."""
    found: Manifest = manifest.get("spec", {}).get("template", {}).get("spec", {})
    return found


def _patched(manifests: list[Manifest], asked: Manifest, folder: Path) -> list[Manifest]:
    text = (folder / asked["path"]).read_text(encoding="utf-8") if "path" in asked else asked["patch"]
    patch = yaml.safe_load(text)
    target = asked.get("target") or {"kind": patch["kind"], "name": patch["metadata"]["name"]}
    (at,) = (n for n, each in enumerate(manifests) if _is(each, target))
    if isinstance(patch, list):
        return [*manifests[:at], _appended(manifests[at], patch), *manifests[at + 1 :]]
    if patch.get("$patch") == "delete":
        return [*manifests[:at], *manifests[at + 1 :]]
    return [*manifests[:at], _merged(manifests[at], patch), *manifests[at + 1 :]]


def _is(manifest: Manifest, target: Manifest) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == (target["kind"], target["name"])


def _appended(manifest: Manifest, operations: list[Manifest]) -> Manifest:
    """Apply the one kind of JSON patch that we use: another item at the end of a list."""
    result = copy.deepcopy(manifest)
    for operation in operations:
        *path, last = operation["path"].strip("/").split("/")
        assert (operation["op"], last) == ("add", "-")
        into: Any = result
        for step in path:
            into = into[int(step)] if isinstance(into, list) else into[step]
        into.append(operation["value"])
    return result


def _merged(old: Any, new: Any) -> Any:
    """Merge as Kubernetes does: mappings by key, lists of named items by name, other lists and values replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        result = {key: value for key, value in old.items() if key not in new}
        for key, value in new.items():
            if value is not None:
                result[key] = _merged(old.get(key), value)
        return result
    if isinstance(old, list) and isinstance(new, list) and (key := _key_of(new)) is not None:
        patches = {item[key]: item for item in new}
        known = [_merged(item, patches.pop(item[key], {})) for item in old]
        return [*known, *(_merged({}, item) for item in patches.values())]
    return copy.deepcopy(new)


def _key_of(items: list[Any]) -> str | None:
    return next((key for key in _KEYS if all(isinstance(item, dict) and key in item for item in items)), None)
