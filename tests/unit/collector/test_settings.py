"""Settings: each is documented, unknown ones are refused, and what cannot be used is said in one sentence."""

import re
from pathlib import Path

import pytest

from collector.settings import PREFIX, CollectorSettings, read_settings
from shared.errors import InvalidSettings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
# | `listen` | `127.0.0.1:8470` | Where the API is served …
_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<default>.+?) \| .{10,} \|$", re.MULTILINE)


def documented() -> dict[str, str]:
    """The collector's rows of the page: name to default."""
    section = PAGE.read_text().partition("## Collector")[2].partition("\n## ")[0]
    return {row["name"]: row["default"] for row in _ROW.finditer(section)}


def test_every_setting_is_documented_and_nothing_else() -> None:
    """The page has the settings that there are."""
    assert documented().keys() == CollectorSettings.model_fields.keys()


def test_documented_defaults_are_true() -> None:
    """Defaults that are plain values stand in the page as they are."""
    for name, field in CollectorSettings.model_fields.items():
        if field.default_factory is None:
            expected = "none" if field.default in (None, "") else f"`{field.default}`"
            assert documented()[name] == expected, name


def test_every_setting_has_a_description() -> None:
    """The flags' help is made of them."""
    assert all(field.description for field in CollectorSettings.model_fields.values())


def test_flags_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag that was given wins; one that was not leaves the variable in force."""
    monkeypatch.setenv("UNHANG_COLLECTOR_LOOKS", "3")
    monkeypatch.setenv("UNHANG_COLLECTOR_AGENTS", "node1")
    found = read_settings({"looks": 4, "agents": None})
    assert (found.looks, found.agents) == (4, "node1")


def test_unknown_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable is told, instead of being without effect."""
    monkeypatch.setenv(f"{PREFIX}AGENT", "node1")
    with pytest.raises(InvalidSettings, match="UNHANG_COLLECTOR_AGENT'") as caught:
        read_settings()
    assert "UNHANG_COLLECTOR_AGENTS" in caught.value.advice


@pytest.mark.parametrize(
    ("flags", "name"), [({"looks": 0}, "looks"), ({"keep_days": "soon"}, "keep_days"), ({"lisen": "x"}, "lisen")]
)
def test_what_cannot_be_used_is_named(flags: dict[str, object], name: str) -> None:
    """The message names the setting and quotes the value."""
    with pytest.raises(InvalidSettings, match=name):
        read_settings(flags)


def test_settings_are_frozen() -> None:
    """Nobody changes them once they are read."""
    with pytest.raises(ValueError, match="frozen"):
        read_settings().looks = 5  # type: ignore[misc]


def test_store_goes_where_the_system_wants_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd's state directory first, else the user's."""
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/unhang")
    assert read_settings().store == "/var/lib/unhang/collector.sqlite3"
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setenv("XDG_STATE_HOME", "/home/a/state")
    assert read_settings().store == "/home/a/state/unhang/collector.sqlite3"
