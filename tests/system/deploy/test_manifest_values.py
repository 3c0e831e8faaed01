"""What the schemas of Kubernetes leave open: quantities, names of fields and protocols, and whom a manifest means."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.system.deploy.kubernetes import COMPONENTS, KUBERNETES, OVERLAYS, one, overlay, with_components
from tests.system.deploy.kustomizations import Manifest, build, containers, pod_of

NAMES = tuple(folder.name for folder in OVERLAYS)
README = (KUBERNETES / "README.md").read_text(encoding="utf-8")

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[numkMGTPE])?")
_QUANTITIES = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "sizeLimit"})
# https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
_FIELD = re.compile(
    r"metadata\.(name|namespace|uid|labels\['.+'\]|annotations\['.+'\])"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"
)
_ONE_OF = {
    "protocol": {"TCP", "UDP", "SCTP"},
    "policyTypes": {"Ingress", "Egress"},
    "type": {"RollingUpdate", "Recreate", "RuntimeDefault", "DirectoryOrCreate", "Unconfined", "Bearer", "spc_t"},
    "operator": {"Exists"},
    "whenUnsatisfiable": {"ScheduleAnyway", "DoNotSchedule"},
    "accessModes": {"ReadWriteOnce"},
}
"""Every word that the manifests use in such a place. Another one is added after a look into the API's reference."""

_SHARES = ("maxUnavailable", "maxSurge", "minAvailable")


def everything() -> Iterator[Manifest]:
    """Yield the manifests of all overlays."""
    for name in NAMES:
        yield from overlay(name)


@pytest.fixture(scope="module")
def with_all_components(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The usual overlay with every addition."""
    return build(with_components(KUBERNETES / "overlays" / "cluster", COMPONENTS, tmp_path_factory.mktemp("all")))


def fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every field with its value, however deep; of a list each item."""
    for key, each in value.items() if isinstance(value, dict) else ():
        for item in each if isinstance(each, list) else (each,):
            if isinstance(item, dict):
                yield from fields(item)
            else:
                yield key, item


def test_values_are_what_the_api_server_takes(with_all_components: list[Manifest]) -> None:
    """It refuses others when they are applied, which nobody here does."""
    for manifest in (*everything(), *with_all_components):
        for name, value in fields(manifest):
            if name in _QUANTITIES:
                assert _QUANTITY.fullmatch(str(value)), (name, value)
            if name == "fieldPath":
                assert _FIELD.fullmatch(value), value
            if name in _SHARES:
                assert re.fullmatch(r"[0-9]+%?", str(value)), (name, value)
            assert value in _ONE_OF.get(name, {value}), (name, value)


@pytest.mark.parametrize("manifests", [*NAMES, "all components"])
def test_whoever_is_meant_is_there(manifests: str, with_all_components: list[Manifest]) -> None:
    """Roles of bindings, accounts and claims that a manifest names are made by another one of them."""
    built = with_all_components if manifests == "all components" else overlay(manifests)
    made = {(each["kind"], each["metadata"]["name"]) for each in built}
    for manifest in built:
        if manifest["kind"].endswith("RoleBinding"):
            assert (manifest["roleRef"]["kind"], manifest["roleRef"]["name"]) in made
            assert {(subject["kind"], subject["name"]) for subject in manifest["subjects"]} <= made
        pod = pod_of(manifest)
        assert "serviceAccountName" not in pod or ("ServiceAccount", pod["serviceAccountName"]) in made
        claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod.get("volumes", ())
                  if "persistentVolumeClaim" in volume]  # fmt: skip
        assert {("PersistentVolumeClaim", claim) for claim in claims} <= made


def test_keys_of_secrets_are_those_of_the_readme(with_all_components: list[Manifest]) -> None:
    """Wherever a secret is read: as a volume, a variable, or by Prometheus."""
    told = {
        secret: set(re.findall(r"--from-literal=(\w+)=", line))
        for line in README.splitlines()
        if "create secret generic" in line
        for secret in re.findall(r"generic ([\w-]+)", line)
    }
    told["unhang-store"] = set(re.findall(r"Secret `unhang-store` with `(\w+)`", README))
    assert told["unhang-store"]
    assert "Secret" not in {manifest["kind"] for manifest in everything()}, "none is made by the manifests"
    used = {pair for manifest in (*everything(), *with_all_components) for pair in _secrets(manifest)}
    assert {secret for secret, _ in used} == set(told)
    assert [(secret, key) for secret, key in used if key not in told[secret]] == []


def _secrets(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for each in value:
            yield from _secrets(each)
    elif isinstance(value, dict):
        if "secretName" in value:
            yield from ((value["secretName"], item["key"]) for item in value["items"])
        for name in ("secretKeyRef", "credentials"):
            if name in value:
                yield value[name]["name"], value[name]["key"]
        for each in value.values():
            yield from _secrets(each)


@pytest.mark.parametrize("name", NAMES)
def test_collector_reaches_what_it_asks(name: str) -> None:
    """Agents, the Kubernetes API, names by both protocols, and its database where there is one."""
    ways = one(overlay(name), "NetworkPolicy", "unhang-collector")["spec"]["egress"]
    ports = {(port.get("protocol", "TCP"), port["port"]) for way in ways for port in way["ports"]}
    needed = {("TCP", 8471), ("TCP", 443), ("TCP", 6443), ("UDP", 53), ("TCP", 53)}
    assert ports == needed | ({("TCP", 5432)} if name == "postgres" else set())


@pytest.mark.parametrize("name", NAMES)
def test_read_only_containers_have_a_place_for_passing_files(name: str) -> None:
    """/tmp, and whatever else they write, on volumes."""
    for manifest in overlay(name):
        for container in containers(manifest):
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            volumes = {volume["name"]: volume for volume in pod_of(manifest)["volumes"]}
            assert "emptyDir" in volumes[mounts["/tmp"]]


def test_monitors_ask_pods_that_are_there(with_all_components: list[Manifest]) -> None:
    """Each chooses the pods of one workload, by a port that they have, and names the job as the rules do."""
    asked = {}
    for monitor in (each for each in with_all_components if each["kind"] == "PodMonitor"):
        labels = monitor["spec"]["selector"]["matchLabels"]
        workloads = [each for each in with_all_components if pod_of(each)]
        (chosen,) = [each for each in workloads if labels.items() <= _labels_of(each).items()]
        ports = {port["name"] for container in containers(chosen) for port in container["ports"]}
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in ports
        assert endpoint["path"] == "/metrics"
        asked[endpoint["relabelings"][0]["replacement"]] = endpoint["authorization"]["credentials"]
    tokens = {"unhang-agents": "unhang-agent-token", "unhang-collector": "unhang-client-token"}
    assert asked == {job: {"name": secret, "key": "token"} for job, secret in tokens.items()}


def _labels_of(workload: Manifest) -> dict[str, str]:
    labels: dict[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return labels
