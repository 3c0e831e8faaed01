"""Nothing of the services goes by a URL that is put together from what the caller says of it."""

import ast
from pathlib import Path

import pytest

from tests.architecture.import_graph import PACKAGES, REPOSITORY, imports_of, sources

MISLED = {"url", "base_url", "url_for"}
"""Of a Starlette request: made of the Host header, and led astray by it in old versions (CVE-2026-48710)."""

SERVICES = [
    file
    for package in PACKAGES
    for file in sources(package)
    if any(one.name.split(".")[0] in ("fastapi", "starlette") for one in imports_of(file))
]


@pytest.mark.parametrize("file", SERVICES, ids=lambda file: str(file.relative_to(REPOSITORY)))
def test_requests_are_judged_by_the_path_that_is_routed(file: Path) -> None:
    """It is `request.scope["path"]`."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    asked = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in MISLED]
    assert [node.lineno for node in asked if isinstance(node.value, ast.Name) and node.value.id == "request"] == []
