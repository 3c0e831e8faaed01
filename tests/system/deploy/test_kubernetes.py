"""The manifests: Kubernetes accepts them, they grant what is needed and no more, and they set what exists."""

import re
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest

from agent.settings import AgentSettings
from cli.main import unhang
from collector.settings import CollectorSettings, read_settings
from shared import VERSION
from shared.errors import InvalidSettings
from shared.server.addresses import parse_address
from tests.system.deploy.kubernetes import COMPONENTS, KUBERNETES, OVERLAYS, one, overlay, with_components
from tests.system.deploy.kustomizations import Manifest, build, containers, pod_of
from tests.system.deploy.schemas import validate_monitoring

OLDEST, NEWEST = "1.27", "1.37"
NAMES = tuple(folder.name for folder in OVERLAYS)
SETTINGS: dict[str, type[AgentSettings] | type[CollectorSettings]] = {
    "agent": AgentSettings,
    "collector": CollectorSettings,
}
WORKLOADS = {"agent": ("DaemonSet", "unhang-agent"), "collector": ("Deployment", "unhang-collector")}


def validate(manifest: Manifest, version: str) -> None:
    """Hold a manifest against the schema of its kind, in which no unknown field is allowed."""
    if manifest["apiVersion"].startswith("monitoring.coreos.com/"):
        validate_monitoring(manifest)
    else:
        kubernetes_validate.validate(manifest, version, strict=True)


def workload(name: str, service: str) -> Manifest:
    """Return the DaemonSet or the Deployment of an overlay."""
    return one(overlay(name), *WORKLOADS[service])


def main_container(name: str, service: str) -> Manifest:
    """Return the container that runs the service."""
    (found,) = (each for each in containers(workload(name, service)) if each["name"] == service)
    return found


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", NAMES)
def test_overlays_are_valid(name: str, version: str) -> None:
    """Each manifest of each overlay, for the oldest and the newest Kubernetes that we know."""
    for manifest in overlay(name):
        validate(manifest, version)


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda folder: folder.name)
def test_components_are_valid(component: Path, tmp_path: Path) -> None:
    """Each addition to an overlay; one that says so needs a newer Kubernetes."""
    text = (component / "kustomization.yaml").read_text(encoding="utf-8")
    needed = re.findall(r"Kubernetes (\d\.\d+) or newer", text)
    plain = list(overlay("cluster"))
    built = build(with_components(KUBERNETES / "overlays" / "cluster", [component], tmp_path))
    assert built != plain
    for manifest in built:
        validate(manifest, needed[0] if needed else OLDEST)


@pytest.mark.parametrize("order", [("kernel-log", "kernel-view"), ("kernel-view", "kernel-log")])
def test_components_add_their_capabilities(order: tuple[str, ...], tmp_path: Path) -> None:
    """To those that are there, in any order."""
    components = [KUBERNETES / "components" / name for name in order]
    built = build(with_components(KUBERNETES / "overlays" / "cluster", components, tmp_path))
    (agent,) = (each for each in built if (each["kind"], each["metadata"]["name"]) == ("DaemonSet", "unhang-agent"))
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    granted = container["securityContext"]["capabilities"]["add"]
    assert sorted(granted) == ["DAC_READ_SEARCH", "SYSLOG", "SYS_ADMIN", "SYS_PTRACE"]


def test_a_misspelled_field_is_not_valid() -> None:
    """The check is one: both kinds of schema refuse what they do not know."""
    daemon = workload("cluster", "agent")
    with pytest.raises(kubernetes_validate.ValidationError):
        validate({**daemon, "spec": {**daemon["spec"], "updatestrategy": {}}}, OLDEST)
    endpoint = {"port": "http", "intervall": "30s"}
    spec = {"selector": {}, "podMetricsEndpoints": [endpoint]}
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {"name": "a"}, "spec": spec}
    with pytest.raises(jsonschema.ValidationError):
        validate(monitor, OLDEST)
    endpoint["interval"] = endpoint.pop("intervall")
    validate(monitor, OLDEST)


@pytest.mark.parametrize("name", NAMES)
def test_agent_has_two_capabilities_and_no_account(name: str) -> None:
    """What the DaemonSet grants, whole; test_pod_rights.py proves that it is enough."""
    pod = pod_of(workload(name, "agent"))
    assert pod["hostPID"] is True
    assert not {"hostNetwork", "hostIPC", "serviceAccountName", "initContainers"} & set(pod)
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    granted = container["securityContext"]
    assert granted["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]}
    assert (granted["privileged"], granted["allowPrivilegeEscalation"]) == (False, False)
    assert (granted["readOnlyRootFilesystem"], granted["seccompProfile"]["type"]) == (True, "RuntimeDefault")
    written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert written == {"/var/log/unhang", "/tmp"}


@pytest.mark.parametrize("name", NAMES)
def test_collector_has_nothing_but_a_list_of_pods(name: str) -> None:
    """No root, no capability, no right outside its namespace; a token of an hour."""
    pod = pod_of(workload(name, "collector"))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for container in containers(workload(name, "collector")):
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"ClusterRole", "ClusterRoleBinding"} & {each["kind"] for each in overlay(name)}
    (rule,) = one(overlay(name), "Role", "unhang-collector")["rules"]
    assert (rule["resources"], rule["verbs"]) == (["pods"], ["list", "watch"])
    (subject,) = one(overlay(name), "RoleBinding", "unhang-collector")["subjects"]
    assert subject["name"] == pod["serviceAccountName"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("service", SETTINGS)
def test_command_and_variables_are_accepted(name: str, service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line parses the arguments, and the settings take every variable with its value."""
    container = main_container(name, service)
    command, *words = container["args"]
    unhang.commands[command].make_context(command, list(words), parent=unhang.make_context("unhang", [command]))
    variables = {each["name"]: each.get("value", "postgresql://given@elsewhere/unhang") for each in container["env"]}
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    prefix = f"UNHANG_{service.upper()}_"
    assert all(variable.startswith(prefix) for variable in variables)
    assert {variable.removeprefix(prefix).lower() for variable in variables} <= SETTINGS[service].model_fields.keys()
    settings: AgentSettings | CollectorSettings = AgentSettings() if service == "agent" else read_settings()
    (port,) = container["ports"]
    assert parse_address(settings.listen).port == port["containerPort"]
    assert not parse_address(settings.listen).is_loopback
    assert settings.token_file is not None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("service", SETTINGS)
def test_files_that_are_named_are_mounted(name: str, service: str) -> None:
    """Secrets lie where the settings look for them, and what is written lies on a volume that takes it."""
    container, pod = main_container(name, service), pod_of(workload(name, service))
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert {mount["name"] for each in containers(workload(name, service)) for mount in each["volumeMounts"]} == set(
        volumes
    )
    for path in (Path(each["value"]) for each in container["env"] if each.get("value", "").startswith("/")):
        mount = mounts[str(path.parent)]
        secret = volumes[mount["name"]].get("secret")
        assert secret is None or path.name in {item["path"] for item in secret["items"]}
        assert secret is None or secret["defaultMode"] == 0o400
        assert path.name not in ("audit.jsonl", "collector.sqlite3") or not mount.get("readOnly")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("service", SETTINGS)
def test_no_variable_of_a_service_reaches_the_settings(
    name: str, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes would make one of the Service's name, which the collector takes for a misspelling."""
    assert pod_of(workload(name, service))["enableServiceLinks"] is False
    monkeypatch.setenv("UNHANG_COLLECTOR_PORT", "tcp://10.0.0.7:8470")
    with pytest.raises(InvalidSettings):
        read_settings()


@pytest.mark.parametrize("name", NAMES)
def test_labels_and_ports_meet(name: str) -> None:
    """Whatever chooses pods chooses those of one workload, and every port that is asked for is one of theirs."""
    labels = {service: workload(name, service)["spec"]["template"]["metadata"]["labels"] for service in SETTINGS}
    chosen = {f"unhang-{service}": each["app.kubernetes.io/name"] for service, each in labels.items()}
    for manifest in overlay(name):
        kind, title = manifest["kind"], manifest["metadata"]["name"].removesuffix("s")
        if kind == "Service":
            assert manifest["spec"]["selector"] == {"app.kubernetes.io/name": chosen[title]}
            assert [port["targetPort"] for port in manifest["spec"]["ports"]] == ["http"]
        elif kind in ("DaemonSet", "Deployment", "PodDisruptionBudget"):
            assert manifest["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/name": chosen[title]}
        elif kind == "NetworkPolicy":
            assert manifest["spec"]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": chosen[title]}
    ports = {service: main_container(name, service)["ports"][0]["containerPort"] for service in SETTINGS}
    inward = {service: one(overlay(name), "NetworkPolicy", f"unhang-{service}")["spec"]["ingress"] for service in ports}
    assert all(rules[0]["ports"] == [{"port": ports[service]}] for service, rules in inward.items())
    found = {each["name"]: each for each in main_container(name, "collector")["env"]}["UNHANG_COLLECTOR_KUBERNETES"]
    assert found["value"] == f"app.kubernetes.io/name={labels['agent']['app.kubernetes.io/name']}"
    assert AgentSettings.model_fields["listen"].default.endswith(
        f":{ports['agent']}"
    )  # what is asked where none is named


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("service", SETTINGS)
def test_containers_are_bounded_and_asked_for_their_health(name: str, service: str) -> None:
    """Limits on every container, probes that need no token, and an image with our version."""
    for container in containers(workload(name, service)):
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
        assert container["image"] == f"registry.example/unhang:{VERSION}"
    probes = [main_container(name, service)[probe] for probe in ("readinessProbe", "livenessProbe")]
    assert all(probe["httpGet"] == {"path": "/healthz", "port": "http"} for probe in probes)


def test_replicas_share_a_database_and_one_of_them_stays() -> None:
    """Two collectors only where the store is not a file, and no volume that only one may mount."""
    alone, shared = workload("cluster", "collector"), workload("postgres", "collector")
    assert (alone["spec"]["replicas"], shared["spec"]["replicas"]) == (1, 2)
    assert alone["spec"]["strategy"] == {"type": "Recreate"}
    store = {each["name"]: each for each in main_container("postgres", "collector")["env"]}["UNHANG_COLLECTOR_STORE"]
    assert "value" not in store
    assert "PersistentVolumeClaim" not in {each["kind"] for each in overlay("postgres")}
    assert "persistentVolumeClaim" not in str(shared)
    assert one(overlay("postgres"), "PodDisruptionBudget", "unhang-collector")["spec"]["minAvailable"] == 1
    assert "maxUnavailable" not in one(overlay("postgres"), "PodDisruptionBudget", "unhang-collector")["spec"]
