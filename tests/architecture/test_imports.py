"""The rules of ARCHITECTURE.md about who may import whom."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.import_graph import (
    PACKAGES,
    REPOSITORY,
    Import,
    imports_of,
    imports_under,
    loaded_with,
    reached_from,
    sources,
)

PURE_LIBRARIES = frozenset({"pydantic", "pydantic_core"})

WORLD = frozenset(
    "asyncio http logging os random select selectors shutil signal socket sqlite3 ssl subprocess tempfile "
    "threading time urllib".split()
)
"""Modules of the standard library through which the deciding layer would reach the world outside."""


class Rule(NamedTuple):
    """What the files of a folder may import, and why."""

    folder: str
    may: Callable[[Import], bool]
    because: str


def top(one: Import) -> str:
    """Return the top-level package that `one` names."""
    return one.name.partition(".")[0]


def only_ours(*allowed: str) -> Callable[[Import], bool]:
    """Of our own packages these alone; other libraries are not this rule's business."""
    return lambda one: top(one) not in (*PACKAGES, "deploy", "tests", "unhang") or top(one) in allowed


def pure(*folders: str) -> Callable[[Import], bool]:
    """No input, output, clock, settings or logging: values of `shared`, pydantic, and a quiet standard library."""

    def may(one: Import) -> bool:
        if top(one) in sys.stdlib_module_names:
            return top(one) not in WORLD
        return top(one) in PURE_LIBRARIES or any(is_within(one, folder) for folder in ("shared", *folders))

    return may


def drawn(one: Import) -> bool:
    """What is pure, Jinja2, and the values of the path: how a diagnosis came about is not a page's business."""
    rooms = ("collector.align", "collector.judge.records.disputes", "collector.keep.kept", "collector.show")
    return top(one) in {"jinja2", "markupsafe"} or (pure(*rooms)(one) and not is_within(one, "collector.show.routes"))


def is_within(one: Import, module: str) -> bool:
    """Does `one` name `module` or something inside it?"""
    return f"{one.name}.".startswith(f"{module}.")


def standard_library_alone(folder: str) -> Callable[[Import], bool]:
    """The standard library, siblings, and torch where the importing function runs once a job has it."""
    siblings = {file.stem for file in sources(folder)} | {"agent"}

    def may(one: Import) -> bool:
        if top(one) == "torch":
            return not one.at_load
        if is_within(one, folder.replace("/", ".")):
            return True
        if top(one) == "agent":
            return False
        return top(one) in sys.stdlib_module_names or top(one) in siblings

    return may


RULES = (
    Rule("shared", only_ours("shared"), "both sides rest on it"),
    Rule("agent", only_ours("agent", "shared"), "the sides meet on the wire alone"),
    Rule("collector", only_ours("collector", "shared"), "the sides meet on the wire alone"),
    Rule("cli", only_ours("agent", "cli", "collector", "shared"), "it puts both sides together"),
    Rule("collector/align", pure("collector.align"), "the same values must line up the same way"),
    Rule(
        "collector/judge",
        pure("collector.align", "collector.checks", "collector.judge"),
        "the same values must give the same verdict",
    ),
    Rule(
        "collector/looks",
        pure("collector.align", "collector.judge", "collector.looks"),
        "the same values must lead to the same next look",
    ),
    Rule("collector/checks", pure("collector.align", "collector.checks"), "the same values must give the same checks"),
    Rule("collector/show/text", pure("collector.show.text"), "a rendering shows a verdict and adds nothing"),
    Rule("cli/preflight/search", pure("cli.preflight.search"), "the same outcomes must prove the same"),
    Rule(
        "cli/preflight/user_python", standard_library_alone("cli/preflight/user_python"), "it runs in the job's Python"
    ),
    Rule("collector/show/html", drawn, "a page shows a verdict and what it rests on, and adds nothing"),
    Rule("agent/probe", standard_library_alone("agent/probe"), "it runs inside other people's jobs"),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.folder)
def test_imports_keep_the_rules(rule: Rule) -> None:
    """Each folder imports what its layer may know, and nothing else."""
    broken = [str(one) for one in imports_under(rule.folder) if not rule.may(one)]
    assert not broken, f"{rule.folder} may not, because {rule.because}: {broken}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.folder)
def test_rules_speak_of_folders_that_exist(rule: Rule) -> None:
    """A rule about a folder that was renamed would hold for ever and guard nothing."""
    assert sources(rule.folder)


@pytest.mark.parametrize("module", ["cli/snapshot_files.py", "cli/sources/files.py"])
def test_who_asks_nobody_over_http_loads_no_http(module: str) -> None:
    """Half of what such a command would cost: over ssh each host of a job starts one."""
    files = loaded_with(module)
    assert len(files) > 50
    libraries = {top(one) for file in files for one in imports_of(file) if one.at_load}
    assert not libraries & {"fastapi", "starlette", "uvicorn", "httpx", "httpcore", "h11"}


def test_agent_never_imports_torch() -> None:
    """The agent watches nodes where importing torch would cost seconds and a gigabyte."""
    outside_probe = (one for one in imports_under("agent") if "probe" not in one.file.parts)
    assert [str(one) for one in outside_probe if top(one) == "torch"] == []


@pytest.mark.parametrize(
    ("folder", "name", "at_load", "allowed"),
    [
        ("shared", "pydantic.BaseModel", True, True),
        ("shared", "agent.look.looker", True, False),
        ("agent", "agenda.Item", True, True),
        ("agent", "collector.gather.sweep", False, False),
        ("agent", "cli.main", True, False),
        ("collector", "agent.app.create_app", False, False),
        ("cli", "tests.system.live", False, False),
        ("collector/judge", "collector.align.groups.process_groups", True, True),
        ("collector/align", "collector.judge.fault", True, False),
        ("collector/judge", "collector.judges", True, False),
        ("collector/judge", "itertools.groupby", True, True),
        ("collector/judge", "time.monotonic", False, False),
        ("collector/judge", "httpx", True, False),
        ("agent/probe", "torch.distributed", False, True),
        ("agent/probe", "torch.distributed", True, False),
        ("agent/probe", "pydantic", False, False),
        ("agent/probe", "agent.look.looker", False, False),
    ],
)
def test_rules_tell_right_from_wrong(folder: str, name: str, at_load: bool, allowed: bool) -> None:
    """Names that merely look alike pass, and an import inside a function counts like any other."""
    (rule,) = (rule for rule in RULES if rule.folder == folder)
    assert rule.may(Import(REPOSITORY / folder / "made_up.py", 1, name, at_load)) is allowed


@pytest.mark.parametrize(
    "folder", ["collector/align", "collector/judge", "collector/looks", "collector/checks", "collector/show/text"]
)
def test_what_pure_code_rests_on_is_pure(folder: str) -> None:
    """A module of `shared` that talks HTTP must not come in by the back door."""
    broken = [str(one) for one in _all_imports(reached_from(folder)) if not pure("collector")(one)]
    assert broken == []


def _all_imports(files: Iterable[Path]) -> Iterator[Import]:
    for file in files:
        yield from imports_of(file)
