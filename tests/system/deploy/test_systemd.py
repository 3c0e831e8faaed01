"""The units: systemd accepts them with their drop-ins, they are narrow, and leave the agent enough to work with."""

import re
import subprocess
from pathlib import Path

import pytest

from agent.settings import AgentSettings
from collector.settings import CollectorSettings
from tests.system.deploy.units import EXECUTABLE, RUN_SECONDS, SYSTEMD, drop_in_text, settings_of, unit_text, values_of

SERVICES = ("agent", "collector")

MOST_EXPOSURE = {"agent": 30, "collector": 15}
"""Tenths of the exposure level of `systemd-analyze security`, 0 to 100."""


@pytest.fixture
def runnable_units(tmp_path: Path) -> Path:
    """The units with an executable that exists here in the place of the installed one."""
    program = tmp_path / "unhang"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    for service in SERVICES:
        text = unit_text(service).replace(EXECUTABLE, str(program))
        (tmp_path / f"unhang-{service}.service").write_text(text, encoding="utf-8")
    return tmp_path


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a tool of systemd and return what it said."""
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("service", SERVICES)
def test_unit_is_narrow(service: str, runnable_units: Path) -> None:
    """The exposure that systemd itself computes stays under our limit."""
    limit = f"--threshold={MOST_EXPOSURE[service]}"
    unit = runnable_units / f"unhang-{service}.service"
    done = run("systemd-analyze", "security", "--offline=yes", "--no-pager", limit, unit)
    assert done.returncode == 0, done.stdout


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize(
    ("name", "added"), [("kernel-log", ["CAP_SYSLOG"]), ("debuggers", ["CAP_DAC_OVERRIDE", "CAP_KILL"])]
)
def test_agent_with_an_optional_drop_in_is_narrow_as_well(runnable_units: Path, name: str, added: list[str]) -> None:
    """It adds what it names, and systemd accepts it with the unit."""
    folder = runnable_units / "unhang-agent.service.d"
    folder.mkdir()
    optional = drop_in_text("agent", name)
    (folder / f"{name}.conf").write_text(optional, encoding="utf-8")
    done = run("systemd-analyze", "verify", "--man=no", runnable_units / "unhang-agent.service")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    whole = runnable_units / "unhang-whole.service"
    whole.write_text(unit_text("agent") + optional, encoding="utf-8")
    done = run(
        "systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={MOST_EXPOSURE['agent']}", whole
    )
    assert done.returncode == 0, done.stdout
    assert (
        values_of(optional, "AmbientCapabilities") == values_of(optional, "CapabilityBoundingSet") == [" ".join(added)]
    )


def test_agent_holds_two_capabilities_and_the_collector_none() -> None:
    """What the agent may become is what it is."""
    for name in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert settings_of("agent", name) == ["CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"]
        assert settings_of("collector", name) == [""]


@pytest.mark.parametrize("service", SERVICES)
def test_service_is_bounded_and_not_root(service: str) -> None:
    """Limits on memory and tasks, and a user of its own, which sysusers makes."""
    (user,) = settings_of(service, "User")
    users = (SYSTEMD / "sysusers.d" / "unhang.conf").read_text(encoding="utf-8")
    assert re.search(rf"^u {user} ", users, re.MULTILINE)
    assert all(settings_of(service, limit) for limit in ("MemoryMax", "TasksMax", "LimitNOFILE"))


@pytest.mark.needs("systemd-sysusers")
@pytest.mark.root
def test_users_and_files_are_made(tmp_path: Path) -> None:
    """sysusers makes both users, tmpfiles narrows a token file that anyone may read."""
    token = tmp_path / "etc" / "unhang" / "agent.token"
    token.parent.mkdir(parents=True)
    token.write_text("secret", encoding="utf-8")
    token.chmod(0o644)
    users = run("systemd-sysusers", f"--root={tmp_path}", SYSTEMD / "sysusers.d" / "unhang.conf")
    assert users.returncode == 0, users.stderr
    files = run("systemd-tmpfiles", "--create", f"--root={tmp_path}", SYSTEMD / "tmpfiles.d" / "unhang.conf")
    assert files.returncode == 0, files.stderr
    assert token.stat().st_mode & 0o777 == 0o640
    assert token.stat().st_gid == _group(tmp_path, "unhang")


def _group(root: Path, name: str) -> int:
    groups = (root / "etc" / "group").read_text(encoding="utf-8")
    (number,) = re.findall(rf"^{name}:[^:]*:(\d+):", groups, re.MULTILINE)
    return int(number)


SETTINGS = {"agent": AgentSettings, "collector": CollectorSettings}


def drop_in(service: str) -> str:
    """Return the text of the drop-in."""
    return (SYSTEMD / f"unhang-{service}.service.d" / "credentials.conf").read_text(encoding="utf-8")


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("service", SETTINGS)
def test_systemd_accepts_it_with_the_unit(service: str, tmp_path: Path) -> None:
    """With the commented lines switched on as well."""
    program = tmp_path / "unhang"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    unit = tmp_path / f"unhang-{service}.service"
    unit.write_text(unit_text(service).replace(EXECUTABLE, str(program)), encoding="utf-8")
    folder = tmp_path / f"{unit.name}.d"
    folder.mkdir()
    text = re.sub(r"^#(LoadCredential|Environment)=", r"\1=", drop_in(service), flags=re.MULTILINE)
    (folder / "credentials.conf").write_text(text, encoding="utf-8")
    command = ("systemd-analyze", "verify", "--man=no", unit)
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("service", SETTINGS)
def test_each_credential_is_a_setting(service: str) -> None:
    """Every variable is a setting that takes a file, and every file is a credential that is loaded."""
    loaded = re.findall(r"^#?LoadCredential=([\w-]+):/etc/credstore/unhang-" + service, drop_in(service), re.MULTILINE)
    used = re.findall(rf"^#?Environment=UNHANG_{service.upper()}_(\w+)=%d/([\w-]+)$", drop_in(service), re.MULTILINE)
    assert loaded
    assert [name for _, name in used] == loaded
    assert {setting.lower() for setting, _ in used} <= SETTINGS[service].model_fields.keys()
    assert all(setting.endswith("_FILE") for setting, _ in used)
