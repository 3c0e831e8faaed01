"""Rules, scrape configuration and dashboard: Prometheus accepts them, and they name only what the services tell."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from tests.needed import skip_without
from tests.system.deploy.pages import metric_pages
from tests.system.deploy.schemas import validate_monitoring
from tests.system.deploy.units import REPOSITORY, RUN_SECONDS

PROMETHEUS = REPOSITORY / "deploy" / "prometheus"
RULES = PROMETHEUS / "unhang.rules.yml"
DASHBOARD = REPOSITORY / "deploy" / "grafana" / "unhang.json"
CASES = REPOSITORY / "tests" / "data" / "prometheus" / "alerts.yml"

# sum by (source) (rate(unhang_agent_source_seconds_count[15m])); not unhang:agents_up:ratio, not "unhang-agents"
_METRIC = re.compile(r"\bunhang_\w+")
_RECORD = re.compile(r"\bunhang:[\w:]+")
# # HELP unhang_agent_refused_total Callers that got nothing
_KNOWN = re.compile(r"^# TYPE (unhang_\w+) (\w+)$", re.MULTILINE)


def promtool(*words: str | Path) -> None:
    """Run promtool, which has to be content; where it is not installed there is nothing to learn from it."""
    skip_without("promtool")
    done = subprocess.run(("promtool", *words), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    """Return all rules of the file."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    read: dict[str, Any] = json.loads(DASHBOARD.read_bytes())
    return read


def queries() -> Iterator[str]:
    """Return what the panels and the variables of the dashboard ask Prometheus."""
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


async def told(folder: Path) -> set[str]:
    """Return the names of all series that the two services really offer."""
    names: set[str] = set()
    for page in (await metric_pages(folder)).values():
        for name, kind in _KNOWN.findall(page):
            names |= {f"{name}_{part}" for part in ("bucket", "count", "sum")} if kind == "histogram" else {name}
    return names


def test_prometheus_accepts_the_files() -> None:
    """The rules as they stand, and the part of prometheus.yml."""
    promtool("check", "rules", RULES)
    promtool("check", "config", "--syntax-only", PROMETHEUS / "scrape.yml")
    scrape = yaml.safe_load((PROMETHEUS / "scrape.yml").read_text(encoding="utf-8"))
    assert [PROMETHEUS / name for name in scrape["rule_files"]] == [RULES]


def test_alerts_are_raised_and_near_misses_are_not(tmp_path: Path) -> None:
    """Series that must raise an alert and series that must not, evaluated by Prometheus itself."""
    for file in (RULES, CASES):
        shutil.copy(file, tmp_path)
    promtool("test", "rules", tmp_path / CASES.name)


def test_operator_accepts_the_rules() -> None:
    """As the readme for Kubernetes has them wrapped, with `cat` in the place of kubectl."""
    readme = (REPOSITORY / "deploy" / "kubernetes" / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    (\(printf .*?\)) \| kubectl -n unhang apply -f -$", readme, re.DOTALL | re.MULTILINE)
    done = subprocess.run(("sh", "-c", command), cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_SECONDS)
    manifest = yaml.safe_load(done.stdout)
    validate_monitoring(manifest)
    assert manifest["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))
    manifest["spec"]["groups"][0]["rules"][0]["forr"] = "1m"
    with pytest.raises(ValidationError):
        validate_monitoring(manifest)


def test_every_alert_has_a_case() -> None:
    """An alert without one may never fire, and nobody would notice."""
    cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
    raised = {test["alertname"] for case in cases for test in case["alert_rule_test"] if test["exp_alerts"]}
    assert {rule["alert"] for rule in rules() if "alert" in rule} == raised


async def test_rules_and_dashboard_name_only_what_is_told(tmp_path: Path) -> None:
    """Each metric is on a real page of an agent or a collector, each recorded name in the rules."""
    expressions = [*queries(), *(rule["expr"] for rule in rules())]
    used = {name for expression in expressions for name in _METRIC.findall(expression)}
    recorded = {name for expression in expressions for name in _RECORD.findall(expression)}
    assert used - await told(tmp_path) == set()
    assert recorded <= {rule["record"] for rule in rules() if "record" in rule}


async def test_refusals_are_counted(tmp_path: Path) -> None:
    """The caller with the wrong token stands on the page, every other reason stands there with nought."""
    for service, page in (await metric_pages(tmp_path)).items():
        assert f'unhang_{service}_refused_total{{reason="wrong_token"}} 1.0' in page
        assert f'unhang_{service}_refused_total{{reason="no_token"}} 0.0' in page


def test_panels_ask_what_prometheus_understands(tmp_path: Path) -> None:
    """Each panel's query as a recording rule, with the dashboard's variable filled in."""
    asked = [
        {"record": f"panel:{number}", "expr": re.sub(r"\$job\b", ".*", query)} for number, query in enumerate(queries())
    ]
    assert not [rule for rule in asked if "$" in rule["expr"]]
    plain = [rule for rule in asked if not rule["expr"].startswith("label_values(")]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": plain}]}), encoding="utf-8")
    promtool("check", "rules", file)


_TEXT = {"type": "string", "minLength": 1}
_SOURCE = {"type": "object", "required": ["type", "uid"]}
DASHBOARDS = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "time", "templating", "panels"],
    "propertyNames": {
        "enum": "uid title description tags schemaVersion editable graphTooltip refresh time templating panels".split()
    },
    "properties": {
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "type", "title", "datasource", "gridPos", "targets"],
                "propertyNames": {
                    "enum": "id type title description datasource gridPos targets fieldConfig options".split()
                },
                "properties": {
                    "type": {"enum": ["stat", "timeseries", "table"]},
                    "title": _TEXT,
                    "gridPos": {"required": ["x", "y", "w", "h"], "additionalProperties": {"type": "integer"}},
                    "targets": {
                        "minItems": 1,
                        "items": {
                            "required": ["expr", "refId", "datasource"],
                            "propertyNames": {
                                "enum": "expr refId datasource legendFormat instant format range".split()
                            },
                            "properties": {"expr": _TEXT, "refId": _TEXT, "datasource": _SOURCE},
                        },
                    },
                },
            },
        },
    },
}
"""What of Grafana's model of a dashboard we use, by its documentation; Grafana passes over anything else in silence."""

_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_GROUPED = re.compile(r"\bby \(([\w, ]+)\)")
_OF_EACH_SERIES = {"instance", "rank", "exported_job"}


def test_dashboard_is_one() -> None:
    """The fields that Grafana reads, spelled as it does."""
    Draft202012Validator(DASHBOARDS).validate(dashboard())


def test_legends_name_labels_that_are_left() -> None:
    """A label that a sum has taken away would be shown as nothing."""
    for target in (target for panel in dashboard()["panels"] for target in panel["targets"]):
        grouped = _GROUPED.search(target["expr"])
        left = set(grouped[1].split(", ")) if grouped is not None else _OF_EACH_SERIES
        assert set(_LEGEND.findall(target.get("legendFormat", ""))) <= left, target["expr"]


def test_panels_fit_side_by_side() -> None:
    """No panel lies on another, each has a number of its own, and all ask the source that is chosen."""
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + right, at["y"] + down) for right in range(at["w"]) for down in range(at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${source}"}
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(numbers) == len(set(numbers))


def test_jobs_are_those_that_are_scraped() -> None:
    """What the rules call a job is one in the scrape configuration."""
    scraped = {each["job_name"] for each in yaml.safe_load((PROMETHEUS / "scrape.yml").read_text())["scrape_configs"]}
    text = " ".join([*queries(), *(rule["expr"] for rule in rules())])
    assert set(re.findall(r'[{,]job="([^"]+)"', text)) == scraped
