"""The image and the compose file, as far as they can be checked without a container engine."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from dockerfile_parse import DockerfileParser

from tests.build.processes.memory_files import in_memory
from tests.system.deploy.units import REPOSITORY, RUN_SECONDS

DOCKERFILE = REPOSITORY / "deploy" / "container" / "Dockerfile"
COMPOSE = REPOSITORY / "docker-compose.yml"
OWNER = "10001:10001"


def instructions(stage: str) -> list[tuple[str, str]]:
    """Return the instructions of one stage of the Dockerfile, as (name, value)."""
    found: list[tuple[str, str]] = []
    current = ""
    with DOCKERFILE.open("rb") as file:
        for line in DockerfileParser(fileobj=file).structure:
            if line["instruction"] == "FROM":
                current = line["value"].rpartition(" AS ")[2]
            elif current == stage:
                found.append((line["instruction"], line["value"]))
    return found


def services() -> dict[str, Any]:
    """Return the services of the compose file, with anchors and merges resolved."""
    resolved: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return resolved


def test_linter_has_nothing_to_say() -> None:
    """hadolint, with the shell of each RUN checked as well."""
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("hadolint is packaged for Linux on x86-64 alone")
    done = subprocess.run((hadolint, DOCKERFILE), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("stage", ["build", "trainer"])
def test_copied_files_exist_and_are_sent_to_the_builder(stage: str) -> None:
    """Every source of a COPY is in the tree, and let through by the ignore file."""
    ignored = DOCKERFILE.with_suffix(".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    for name, value in instructions(stage):
        *sources, _ = value.split()
        if name == "COPY" and not value.startswith("--from"):
            assert all((REPOSITORY / source).exists() for source in sources)
            assert set(sources) <= sent


def test_image_is_not_root_and_its_last_stage_is_the_service() -> None:
    """Whoever builds without a target gets the services, as a user that exists by number."""
    assert ("USER", OWNER) in instructions("unhang")
    assert ("USER", OWNER) in instructions("trainer")
    stages = re.findall(r"^FROM .* AS (\w+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert stages[-1] == "unhang"


@pytest.fixture
def builder() -> Iterator[Path]:
    """A folder for some thousand files."""
    with tempfile.TemporaryDirectory(prefix="unhang-builder-", dir=in_memory()) as folder:
        yield Path(folder)


@pytest.mark.release
def test_build_commands_work_on_what_is_copied(builder: Path) -> None:
    """The RUN lines of the build stage, run in a folder that holds what the COPY lines put there, and no more."""
    source, target = builder / "src", builder / "opt"
    source.mkdir()
    for name, value in instructions("build"):
        if name == "COPY":
            _copy(value.split(), source)
        elif name == "RUN":
            script = value.replace("python -m venv /opt/unhang", _venv(builder)).replace("/opt/unhang", str(target))
            done = subprocess.run(
                ("bash", "-euc", script),
                cwd=source,
                env={**os.environ, "PIP_COMPILE": "0"},  # most of it is never imported here
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    help_text = subprocess.run((target / "bin" / "unhang", "--help"), capture_output=True, text=True, check=True).stdout
    assert "agent" in help_text
    assert "collector" in help_text


def _venv(folder: Path) -> str:
    """Return a command that makes the environment, with the pip of this one: unpacking another takes seconds."""
    pip, target = folder / "pip", folder / "opt"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {target}/bin/python "$@"\n', encoding="utf-8")
    return f"{sys.executable} -m venv --without-pip {target} && install {pip} {target}/bin/pip"


def _copy(words: list[str], into: Path) -> None:
    *sources, target = words
    for source in sources:
        if (REPOSITORY / source).is_dir():
            shutil.copytree(REPOSITORY / source, into / target)
        else:
            shutil.copy(REPOSITORY / source, into / target)


@pytest.fixture
def py_spy_of_the_image() -> Iterator[Path]:
    """A copy of py-spy that anyone may run, with the file capability that the image gives it."""
    (capability,) = re.findall(r"setcap (\S+) /opt/unhang/bin/py-spy", DOCKERFILE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        program = Path(shutil.copy(Path(sys.executable).parent / "py-spy", folder))
        subprocess.run(("setcap", capability, program), check=True)
        yield program


@pytest.mark.needs("setpriv", "setcap")
@pytest.mark.root
@pytest.mark.ptrace
@pytest.mark.parametrize(("bounding", "works"), [("-all,+sys_ptrace", True), ("-all", False)])
def test_py_spy_traces_as_no_root_where_the_container_may(
    py_spy_of_the_image: Path, bounding: str, works: bool
) -> None:
    """A file capability is enough for the image's user, and worth nothing in a container that lacks it."""
    python = "/usr/bin/python3"  # readable by any user, unlike an interpreter below root's home
    uid = OWNER.partition(":")[0]
    as_user = ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps=-all")
    sleep = "import time; print('ready', flush=True); time.sleep(600)"
    with subprocess.Popen((*as_user, python, "-c", sleep), stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        command = (*as_user, f"--bounding-set={bounding}", py_spy_of_the_image, "dump", "--pid", str(rank.pid))
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        rank.kill()
    assert ("<module>" in done.stdout) is works, done.stderr


def test_compose_file_is_valid() -> None:
    """Against the schema of the Compose specification."""
    schema = json.loads(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_bytes())
    document = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)


def test_each_agent_sees_the_processes_of_a_training_container() -> None:
    """Two agents, each in the process namespace of one trainer, as that trainer's user, with one capability."""
    agents = {name: service for name, service in services().items() if name.startswith("agent-")}
    assert {agent["pid"] for agent in agents.values()} == {"service:train-a", "service:train-b"}
    for agent in agents.values():
        assert (agent["cap_drop"], agent["cap_add"], agent["user"]) == (["ALL"], ["SYS_PTRACE"], OWNER)
        assert "privileged" not in agent
        assert "security_opt" not in agent  # no-new-privileges would disarm py-spy's file capability


def test_collector_is_published_on_loopback_alone() -> None:
    """And has no capability."""
    collector = services()["collector"]
    assert all(port.startswith("127.0.0.1:") for port in collector["ports"])
    assert collector["cap_drop"] == ["ALL"]
