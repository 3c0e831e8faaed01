"""What packages offer is loaded once; one that cannot be used costs itself, and says why."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.plugins import SOURCES, plugins

ENTRIES = """[unhang.sources]
broken = no_such_module:it
fine = acme_plugin:it
number = acme_plugin:NUMBER
raises = acme_plugin_raises
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path, into which packages are installed."""
    monkeypatch.syspath_prepend(tmp_path)
    plugins.cache_clear()
    yield tmp_path
    plugins.cache_clear()
    for name in ("acme_plugin", "acme_plugin_raises"):
        sys.modules.pop(name, None)


def _install(folder: Path, name: str, entries: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    (folder / "acme_plugin.py").write_text("NUMBER = 1\ndef it(rank): return ['said']\n")
    (folder / "acme_plugin_raises.py").write_text("raise SystemError('not on this node')\n")


def test_what_cannot_be_used_costs_itself(installed: Path) -> None:
    """A module that is not there, one that raises, and what is no function."""
    _install(installed, "acme", ENTRIES)
    found = plugins(SOURCES)
    assert [(each.name, each.package) for each in found.usable.values()] == [("fine", "acme 1.0")]
    assert [problem.partition(" of ")[0] for problem in found.problems] == [
        "unhang.sources: broken",
        "unhang.sources: number",
        "unhang.sources: raises",
    ]
    assert "acme_plugin:NUMBER is not a function" in found.problems[1]
    assert "SystemError: not on this node" in found.problems[2]


def test_a_name_is_used_once(installed: Path) -> None:
    """Two packages with the same name: which one is meant is told."""
    for name in ("acme", "other"):
        _install(installed, name, "[unhang.sources]\nfine = acme_plugin:it\n")
    found = plugins(SOURCES)
    assert len(found.usable) == 1
    (problem,) = found.problems
    assert "has this name, too" in problem
