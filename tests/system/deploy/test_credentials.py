"""Tokens as credentials of systemd: the drop-ins are accepted with their units, and name settings that exist."""

import re
import subprocess
from pathlib import Path

import pytest

from agent.settings import AgentSettings
from collector.settings import CollectorSettings
from tests.system.deploy.units import EXECUTABLE, RUN_SECONDS, SYSTEMD, unit_text

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
