"""The readme's own commands, run into an empty root: what stands beside the units agrees with them."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from agent.settings import AgentSettings
from cli.main import unhang
from collector.hostlists import parse_hostlist
from collector.settings import CollectorSettings, read_settings
from tests.needed import skip_without
from tests.system.deploy.units import EXECUTABLE, REPOSITORY, RUN_SECONDS, SYSTEMD, settings_of, unit_text

SERVICES = ("agent", "collector")
README = (SYSTEMD / "README.md").read_text(encoding="utf-8")
USERS = {"agent": "unhang", "collector": "unhang-collector"}


def run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    """Run a program, which has to be content; return what it said."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def readme_commands() -> list[str]:
    """Return the commands of the readme, without those that make the virtual environments."""
    lines = [line.strip().partition("  #")[0] for line in README.splitlines() if line.startswith("    ")]
    commands = [command.strip() for line in lines for command in line.split("&&")]
    return [command for command in commands if "/opt/unhang" not in command and "build/venv" not in command]


def _group(root: Path, name: str) -> int:
    groups = (root / "etc" / "group").read_text(encoding="utf-8")
    (number,) = re.findall(rf"^{name}:[^:]*:(\d+):", groups, re.MULTILINE)
    return int(number)


def _into(root: Path, command: str) -> str | None:
    """Return a command of the readme for another root than this machine's; None: nothing to be done without systemd."""
    for name in re.findall(r"-g ([\w-]+)", command):
        command = command.replace(f"-g {name}", f"-g {_group(root, name)}")
    command = re.sub(r" /etc/", f" {root}/etc/", command)
    command = re.sub(r"^systemd-(sysusers|tmpfiles)", rf"systemd-\1 --root={root}", command)
    command = re.sub(r"^systemctl enable --now", f"systemctl --root={root} enable", command)
    return None if command.startswith(("systemctl daemon-reload", "systemctl restart")) else command


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root into which the readme was followed to its end, drop-ins included."""
    skip_without("systemd-sysusers")
    root, here = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("here")
    (here / "deploy").symlink_to(REPOSITORY / "deploy")
    (here / "agent.token").write_text("secret\n", encoding="ascii")
    for folder in ("etc/sysusers.d", "etc/tmpfiles.d", "etc/logrotate.d", "etc/systemd/system", "opt/unhang/bin"):
        (root / folder).mkdir(parents=True)
    program = root / EXECUTABLE.lstrip("/")
    program.write_text("#!/bin/sh\n", encoding="ascii")
    program.chmod(0o755)
    (root / "usr/lib/systemd/system").mkdir(parents=True)
    for each in ("*.target", "*.slice"):  # what the units stand beside
        for path in Path("/lib/systemd/system").glob(each):
            shutil.copy(path, root / "usr/lib/systemd/system", follow_symlinks=True)
    for command in filter(None, (_into(root, each) for each in readme_commands())):
        run("sh", "-euc", command, cwd=here)
    return root


@pytest.mark.needs("systemd-analyze")
@pytest.mark.root
def test_services_are_installed_and_begin_at_boot(root: Path) -> None:
    """systemd finds nothing to say about them there, and links them to what it starts."""
    for service in SERVICES:
        unit = f"unhang-{service}.service"
        assert (root / "etc/systemd/system/multi-user.target.wants" / unit).is_symlink()
        assert run("systemd-analyze", "verify", "--man=no", f"--root={root}", unit) == ""


@pytest.mark.root
def test_secrets_are_for_their_service_alone(root: Path) -> None:
    """As files, and as credentials, which root hands over."""
    for name, group in (("agent.token", "unhang"), ("collector-agents.token", "unhang-collector")):
        found = (root / "etc/unhang" / name).stat()
        assert (found.st_mode & 0o777, found.st_gid) == (0o640, _group(root, group))
    assert (root / "etc/credstore/unhang-agent.tokens").stat().st_mode & 0o777 == 0o600


@pytest.mark.root
@pytest.mark.parametrize("service", SERVICES)
def test_environment_file_is_the_one_that_is_read(service: str, root: Path) -> None:
    """The readme puts it where the unit looks."""
    (path,) = settings_of(service, "EnvironmentFile")
    assert (root / path.lstrip("-/")).read_bytes() == (SYSTEMD / f"{service}.env.example").read_bytes()


@pytest.mark.parametrize("service", SERVICES)
def test_examples_are_settings_with_their_values(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines at once, the commented ones too."""
    example = (SYSTEMD / f"{service}.env.example").read_text(encoding="utf-8")
    lines = dict(re.findall(rf"^#?(UNHANG_{service.upper()}_\w+)=(\S+)$", example, re.MULTILINE))
    for name, value in lines.items():
        monkeypatch.setenv(name, value)
    settings = AgentSettings() if service == "agent" else read_settings()
    assert len(lines) > 5
    assert settings.listen.endswith(":8471" if service == "agent" else ":8470")
    if isinstance(settings, CollectorSettings):
        assert len(parse_hostlist(settings.agents)) == 16


@pytest.mark.parametrize("service", SERVICES)
def test_command_line_is_accepted(service: str) -> None:
    """What the unit starts is a command that there is, with options that it has."""
    (line,) = settings_of(service, "ExecStart")
    program, name, *words = line.split()
    assert (program, name) == (EXECUTABLE, service)
    unhang.commands[name].make_context(name, words, parent=unhang.make_context("unhang", [name]))


@pytest.mark.parametrize("service", SERVICES)
def test_ended_before_it_serves_it_has_not_failed(service: str) -> None:
    """The command line ends by SIGTERM with the status that shells give it, which systemd would take for a failure."""
    assert settings_of(service, "SuccessExitStatus") == [str(128 + signal.SIGTERM)]


@pytest.mark.parametrize("service", SERVICES)
def test_what_a_service_writes_lies_where_it_may(service: str) -> None:
    """Its audit log in its own directory, which systemd makes; the collector's store, too."""
    (logs,) = settings_of(service, "LogsDirectory")
    assert f"Environment=UNHANG_{service.upper()}_AUDIT_LOG=%L/{logs}/audit.jsonl" in unit_text(service).splitlines()
    assert settings_of(service, "StateDirectory") == ([] if service == "agent" else ["unhang"])


@pytest.mark.needs("logrotate")
@pytest.mark.root
def test_audit_logs_are_rotated(tmp_path: Path) -> None:
    """By logrotate itself: both logs, as the users that own them, here with root in their place."""
    text = (SYSTEMD / "logrotate.d" / "unhang").read_text(encoding="utf-8")
    assert re.findall(r"^    su (.*)$", text, re.MULTILINE) == [f"{user} {user}" for user in USERS.values()]
    logs = [f"/var/log/{settings_of(service, 'LogsDirectory')[0]}/audit.jsonl" for service in SERVICES]
    assert re.findall(r"^(/\S+) \{$", text, re.MULTILINE) == logs
    text = re.sub(r"^    su .*$", "    su root root", text, flags=re.MULTILINE).replace("/var/log", str(tmp_path))
    (tmp_path / "conf").write_text(text, encoding="ascii")
    for log in logs:
        path = tmp_path / Path(log).relative_to("/var/log")
        path.parent.mkdir()
        path.write_text("{}\n" * 9, encoding="ascii")
    said = run("logrotate", "--force", "--state", tmp_path / "state", tmp_path / "conf")
    assert said == ""
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/audit*"))
    assert left == ["unhang-collector/audit.jsonl.1", "unhang/audit.jsonl.1"]
