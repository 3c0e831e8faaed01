"""What the deployment sets are settings that exist."""

import re
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from agent.settings import AgentSettings
from collector.settings import CollectorSettings
from tests.system.deploy.test_containers import services
from tests.system.deploy.units import SYSTEMD, unit_text

SETTINGS: dict[str, type[BaseSettings]] = {"agent": AgentSettings, "collector": CollectorSettings}


@pytest.mark.parametrize("service", SETTINGS)
def test_variables_are_settings(service: str) -> None:
    """Each variable in a unit or an example of an environment file, commented out or not."""
    example = (SYSTEMD / f"{service}.env.example").read_text(encoding="utf-8")
    prefix = f"UNHANG_{service.upper()}_"
    named = set(re.findall(rf"^(?:Environment=|#)?{prefix}(\w+)=", example + unit_text(service), re.MULTILINE))
    assert named
    assert {name.lower() for name in named} <= SETTINGS[service].model_fields.keys()


def test_every_way_to_find_agents_stands_in_the_example() -> None:
    """Whoever installs the collector sees what there is to choose from."""
    example = (SYSTEMD / "collector.env.example").read_text(encoding="utf-8")
    fields = list(CollectorSettings.model_fields)
    ways = fields[fields.index("agents") : fields.index("discovery_deadline_seconds") + 1]
    assert {"agents_file", "file_sd", "dns", "slurm", "kubernetes", "registration_seconds"} <= set(ways)
    assert [way for way in ways if f"UNHANG_COLLECTOR_{way.upper()}=" not in example] == []


@pytest.mark.parametrize("name", ["agent-a", "agent-b", "collector"])
def test_flags_of_the_compose_file_are_settings(name: str) -> None:
    """Each flag, with the dashes of the command line."""
    service, *words = services()[name]["command"]
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert {flag[2:].replace("-", "_") for flag in flags} <= SETTINGS[service].model_fields.keys()


def test_secret_files_of_the_examples_are_narrowed_at_boot() -> None:
    """Each file of tokens or with a key that an example names stands in tmpfiles.d."""
    narrowed = (SYSTEMD / "tmpfiles.d" / "unhang.conf").read_text(encoding="utf-8")
    for service in SETTINGS:
        example = (SYSTEMD / f"{service}.env.example").read_text(encoding="utf-8")
        for path in re.findall(r"(?:TOKEN|KEY)_FILE=(\S+)", example):
            assert f"z {Path(path)} " in narrowed
