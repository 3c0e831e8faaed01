"""The agent's settings: each is documented with its true default, and described."""

import re
from pathlib import Path

from agent.settings import AgentSettings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
# | `listen` | `127.0.0.1:8471` | Where to listen …
_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<default>.+?) \| .{10,} \|$", re.MULTILINE)


def test_every_setting_stands_in_the_page_with_its_default() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Agent")[2].partition("\n## ")[0]
    documented = {row["name"]: row["default"] for row in _ROW.finditer(section)}
    true = {
        name: "none" if field.default in (None, "") else f"`{field.default}`"
        for name, field in AgentSettings.model_fields.items()
    }
    assert documented == true


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in AgentSettings.model_fields.values())
