"""Writes the collector's OpenAPI document into the tree, from where the wheel takes it: `make openapi`."""

import json
from pathlib import Path

from collector.app import create_app
from collector.settings import CollectorSettings

FILE = Path(__file__).resolve().parents[2] / "collector" / "show" / "openapi.json"


def document() -> str:
    """Return what the service serves at `/openapi.json`, indented so that changes to the API can be read as such."""
    app = create_app(CollectorSettings.model_construct())
    return json.dumps(app.openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
