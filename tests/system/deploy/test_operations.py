"""The guide and the notes on each kind of site say what is so: commands, options, paths, alerts, metrics."""

import re
from pathlib import Path

import pytest
import yaml

from agent.settings import AgentSettings
from cli.main import unhang
from collector.settings import CollectorSettings
from tests.system.deploy.pages import metric_pages
from tests.system.deploy.test_prometheus import RULES
from tests.system.deploy.units import REPOSITORY

GUIDE = REPOSITORY / "docs" / "operations.md"
DOCUMENTS = (GUIDE, *sorted((REPOSITORY / "deploy").glob("*/README.md")))
SCRIPTS = tuple(sorted((REPOSITORY / "deploy" / "slurm").glob("*.sh")))

# `deploy/slurm/README.md`, `docs/ras.md`; not `/var/log/unhang`
_PATH = re.compile(r"`((?:agent|cli|collector|shared|deploy|docs|tests)/[\w./-]*)`")
# srun --overlap unhang snapshot --looks 2 -o looks/; not `unhang-agent`, not /etc/unhang collector.env
_COMMAND = re.compile(r"(?:^|[ `])unhang (" + "|".join(unhang.commands) + r")\b([^`#\n]*)", re.MULTILINE)
_OPTION = re.compile(r"(?<= )--?[a-z][a-z-]*")
_ALERT = re.compile(r"^\| `(Unhang\w+)` \|", re.MULTILINE)
_METRIC = re.compile(r"`(unhang_\w+)`")
# `beat_seconds`, `only_users`: words of ours with an underscore that are no metric
_SETTING = re.compile(r"`((?:keep|most|look|only|beat)_[a-z_]+)`")


def text_of(document: Path) -> str:
    """Return what a document says."""
    return document.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_paths_exist(document: Path) -> None:
    """Every path of the tree that is named, from its top or from the document's folder."""
    named = [REPOSITORY / path for path in _PATH.findall(text_of(document))]
    assert [path for path in named if not path.exists()] == []


@pytest.mark.parametrize("document", [*DOCUMENTS, *SCRIPTS], ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_commands_have_their_options(document: Path) -> None:
    """Each `unhang` command with options that it really has."""
    for name, rest in _COMMAND.findall(text_of(document)):
        options = {option for parameter in unhang.commands[name].params for option in parameter.opts}
        assert set(_OPTION.findall(rest.partition(" -- ")[0])) <= options, name


def test_each_alert_has_a_first_thing_to_do() -> None:
    """The table names all alerts, in the order of the rules or not, and no other."""
    groups = yaml.safe_load(text_of(RULES))["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]
    assert sorted(_ALERT.findall(text_of(GUIDE))) == sorted(alerts)


async def test_metrics_and_settings_of_the_guide_exist(tmp_path: Path) -> None:
    """Metrics on the real pages, settings of the real classes."""
    pages = "".join((await metric_pages(tmp_path)).values())
    assert [name for name in _METRIC.findall(text_of(GUIDE)) if f"\n# TYPE {name} " not in pages] == []
    settings = AgentSettings.model_fields.keys() | CollectorSettings.model_fields.keys()
    assert set(_SETTING.findall(text_of(GUIDE))) - settings <= {"keep_"}
