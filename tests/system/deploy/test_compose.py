"""The compose file beyond its schema: whatever it names is there, and its very commands find the rank that hangs."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from collector.settings import CollectorSettings
from tests.build.processes import warm
from tests.build.processes.ports import free_port
from tests.build.processes.processes import until
from tests.system.deploy.test_containers import COMPOSE, DOCKERFILE, services
from tests.system.deploy.units import REPOSITORY
from tests.system.live.fork_launcher import FORK_LAUNCHER
from tests.system.live.jobs import MARK

TEXT = COMPOSE.read_text(encoding="utf-8")
WHOLE: dict[str, Any] = yaml.safe_load(TEXT)
_DURATION = re.compile(r"([0-9]+(us|ms|s|m|h))+")
_SIZE = re.compile(r"[0-9]+[bkmg]")
TRAIN = REPOSITORY / "deploy" / "demo" / "train.py"
_STAGE = re.compile(r"^FROM .* AS (\w+)$", re.MULTILINE)
SECONDS = 120.0


def words_of(name: str) -> list[str]:
    """Return the command of a service, word by word."""
    return [str(word) for word in services()[name]["command"]]


def option(words: list[str], name: str) -> str:
    """Return the value of `--NAME VALUE` or `--NAME=VALUE`."""
    (value,) = re.findall(rf"--{name}[= ](\S+)", " ".join(words))
    return value


def test_whatever_is_named_is_there() -> None:
    """Services that others wait for, volumes, stages of the Dockerfile, secrets; and who is reached asks for one."""
    for name, service in services().items():
        assert set(service.get("depends_on", ())) <= services().keys(), name
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in WHOLE["volumes"], name
        if "build" in service:
            assert (REPOSITORY / service["build"]["dockerfile"]) == DOCKERFILE
            assert service["build"]["target"] in _STAGE.findall(DOCKERFILE.read_text(encoding="utf-8"))
        given = {secret["source"] for secret in service.get("secrets", ())}
        assert set(re.findall(r"/run/secrets/(\w+)", str(service.get("command")))) == given, name
        assert given <= WHOLE["secrets"].keys()
        assert "read_only" not in service, "Compose refuses it together with secrets from the environment"
        if not name.startswith("train-") and name != "postgres":  # which asks for a password of its own
            assert option(words_of(name), "token-file").startswith("/run/secrets/"), name


def test_variables_are_those_of_its_head() -> None:
    """Each that is asked for is explained where the file begins, and each that is explained is asked for."""
    head = TEXT[: TEXT.index("\nname:")]
    asked = {each["environment"] for each in WHOLE["secrets"].values()} | set(re.findall(r"\$\{(\w+):-", TEXT))
    assert asked == set(re.findall(r"\b(UNHANG_DEMO_\w+|FAULT|RANK)=", head))


def test_values_are_what_compose_takes() -> None:
    """Durations and sizes, which the schema takes for any text."""
    for name, service in services().items():
        assert _SIZE.fullmatch(service.get("mem_limit", "1g")), name
        check = service.get("healthcheck", {})
        assert all(_DURATION.fullmatch(check[each]) for each in ("interval", "timeout") if each in check), name


def test_store_is_a_setting_on_a_volume() -> None:
    """A file below the volume that is mounted, or whatever the variable says."""
    collector = services()["collector"]
    (variable,) = collector["environment"]
    assert variable.removeprefix("UNHANG_COLLECTOR_").lower() in CollectorSettings.model_fields
    path = collector["environment"][variable].partition(":-")[2].rstrip("}")
    (volume,) = collector["volumes"]
    assert str(Path(path).parent) == volume.partition(":")[2]


def test_health_is_asked_where_each_listens() -> None:
    """And the collector asks the agents where they do."""
    for name in ("collector", "agent-a", "agent-b"):
        port = option(words_of(name), "listen").rpartition(":")[2]
        assert f"http://127.0.0.1:{port}/healthz" in services()[name]["healthcheck"]["test"][-1]
    agents = option(words_of("collector"), "agents")
    assert agents == ",".join(f"{n}:{option(words_of(n), 'listen').rpartition(':')[2]}" for n in ("agent-a", "agent-b"))


def test_postgres_is_asked_for_by_its_profile_alone() -> None:
    """Nobody waits for it where it does not run, and the URL in the head goes to it."""
    postgres = services()["postgres"]
    assert postgres["profiles"] == ["postgres"]
    assert services()["collector"]["depends_on"]["postgres"]["required"] is False
    head = TEXT[: TEXT.index("\nname:")]
    assert f"postgresql://{postgres['environment']['POSTGRES_USER']}:" in head
    assert f"@postgres/{postgres['environment']['POSTGRES_DB']}" in head


class Box:
    """The containers' commands on this machine: their names lead to loopback, their files lie in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in ("collector", "agent-a", "agent-b", "train-a")}
        self.variables = {"UNHANG_DEMO_CLIENT_TOKEN": "c" * 32, "UNHANG_DEMO_AGENT_TOKEN": "a" * 32}
        (folder / "secrets").mkdir()
        for secret, source in WHOLE["secrets"].items():
            path = folder / "secrets" / secret
            path.write_text(f"{self.variables[source['environment']]}\n", encoding="ascii")
            path.chmod(0o400)

    def here(self, name: str, text: str) -> str:
        """Return a word of a command of service `name` as it is for this machine."""
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
        text = text.replace("/run/secrets", str(self.folder / "secrets")).replace("/var/lib/unhang", str(self.folder))
        text = text.replace("/srv/train.py", str(TRAIN))
        for other in ("agent-a", "agent-b"):
            text = text.replace(f"{other}:8471", f"127.0.0.1:{self.ports[other]}")
        text = text.replace("train-a:29400", f"127.0.0.1:{self.ports['train-a']}")
        return re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):84(70|71)\b", f"127.0.0.1:{self.ports.get(name, 0)}", text)

    @contextmanager
    def running(self, name: str, *before: str, **variables: str) -> Iterator[None]:
        """Run the command of a service, as a fork that has imported what `unhang` needs (see warm.py)."""
        words = [*before, *(self.here(name, word) for word in words_of(name))]
        more = {key: self.here(name, str(value)) for key, value in services()[name].get("environment", {}).items()}
        env = {**os.environ, **more, "PYTHONPATH": str(REPOSITORY), **variables, MARK: str(self.folder)}
        with (
            (self.folder / f"{name}.log").open("wb") as log,
            warm.started(words, environment=env, directory=self.folder, output=log.fileno()) as process,
        ):
            try:
                yield
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(30)

    def listens(self, name: str) -> bool:
        """Does anything listen where the service is to? To ask that costs less than the check of its health."""
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", self.ports[name])) == 0

    def healthy(self, name: str) -> bool:
        """Run the check of a service's health."""
        _, _, *words = services()[name]["healthcheck"]["test"]
        command = (sys.executable, *(self.here(name, word) for word in words))
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def wait_for_steps(folder: Path) -> None:
    """Wait until every rank has made its last step before the one that goes wrong."""
    (step,) = re.findall(r"^FAULT_STEP = (\d+)", TRAIN.read_text(encoding="utf-8"), re.MULTILINE)
    lines = [f"rank {rank} step {int(step) - 1} " for rank in range(4)]

    def all_there() -> bool:
        said = "".join(path.read_text(errors="replace") for path in folder.glob("train-*.log"))
        return all(line in said for line in lines)

    until(all_there, bool, SECONDS)


@pytest.mark.needs("curl")
@pytest.mark.live
@pytest.mark.ptrace
@pytest.mark.release
def test_its_commands_find_the_rank_that_hangs(tmp_path: Path) -> None:
    """Trainers, agents, collector, the checks of their health, and the question of its head, as they are written."""
    box = Box(tmp_path)
    torchrun = (str(FORK_LAUNCHER), "2", "-m", "torch.distributed.run")
    train = ("run", "--", sys.executable, *torchrun)
    seen = {"UNHANG_AGENT_DISCOVER_SECONDS": "1"}
    with ExitStack() as stack:
        stack.callback(end_all, str(tmp_path))
        for name in ("train-a", "train-b"):
            stack.enter_context(box.running(name, *train, GLOO_SOCKET_IFNAME="lo", TMPDIR=str(tmp_path)))
        for name, ranks in (("agent-a", "0-1"), ("agent-b", "2-3")):
            here = {"UNHANG_AGENT_ONLY_RANKS": ranks, "UNHANG_AGENT_HOST_NAME": name}
            stack.enter_context(box.running(name, **seen, **here))
        stack.enter_context(box.running("collector"))
        for name in ("agent-a", "agent-b", "collector"):
            until(partial(box.listens, name), bool, SECONDS)
            until(partial(box.healthy, name), bool, SECONDS)
        wait_for_steps(tmp_path)
        (question,) = re.findall(r"^#   (curl .*)$", TEXT, re.MULTILINE)
        command = ("sh", "-c", f"{box.here('collector', question)} --silent --fail-with-body")
        done = subprocess.run(command, env={**os.environ, **box.variables}, capture_output=True, timeout=SECONDS)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["verdict"]) == (0, "hung")
    assert [culprit["rank"] for finding in answer["findings"] for culprit in finding["culprits"]] == [2]


def end_all(mark: str) -> None:
    """End whatever is left of the containers' commands."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                process.kill()
