"""Nothing of the services goes by a URL that is put together from what the caller says of it."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.import_graph import PACKAGES, REPOSITORY, sources

MISLED = {"url", "base_url", "url_for"}
"""Of a Starlette request: made of the Host header, and led astray by it in old versions (CVE-2026-48710)."""

_IMPORT = re.compile(rb"^ *(?:from|import) (?:fastapi|starlette)\b", re.MULTILINE)
"""`from fastapi import FastAPI`. Read as text, for this is done whenever the tests are listed."""

SERVICES = [file for package in PACKAGES for file in sources(package) if _IMPORT.search(file.read_bytes())]


@pytest.mark.parametrize("file", SERVICES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_requests_are_judged_by_the_path_that_is_routed(file: Path) -> None:
    """It is `request.scope["path"]`."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    asked = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in MISLED]
    assert [node.lineno for node in asked if isinstance(node.value, ast.Name) and node.value.id == "request"] == []
