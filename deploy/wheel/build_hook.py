"""What hatchling calls for the wheel: our packages become private ones of `unhang`.

The sources say `from shared import ...`, and no such name may land in anyone's site-packages, nor in the modules of a
program that imports `unhang`. In the wheel they say `from unhang._app.shared import ...`, on the same lines.
"""

import ast
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("agent", "cli", "collector", "shared")
PRIVATE = "unhang._app"

_OURS = re.compile(rf"\bfrom ({'|'.join(PACKAGES)})\b")


class PrivatePackages(BuildHookInterface[Any]):
    """Puts the packages below `unhang/_app/`, and the launcher, which has the public names, at `unhang/__init__.py`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write what the wheel holds into a folder; an editable install is the launcher as it stands."""
        root = Path(self.root)
        launcher = root / "deploy" / "wheel" / "launch.py"
        if version == "editable":
            build_data["force_include_editable"] = {str(launcher): "unhang/__init__.py"}
            return
        self._folder = Path(tempfile.mkdtemp(prefix="unhang-wheel-"))
        for package in PACKAGES:
            shutil.copytree(
                root / package, self._folder / "_app" / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(launcher, self._folder / "__init__.py")
        (self._folder / "py.typed").touch()
        for source in self._folder.rglob("*.py"):
            source.write_text(private(source.read_text(encoding="utf-8")), encoding="utf-8")
        build_data["force_include"][str(self._folder)] = "unhang"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Take the folder away again."""
        if version != "editable":
            shutil.rmtree(self._folder)


def private(source: str) -> str:
    """Return a module that imports ours from below `unhang`. Raises ValueError for `import shared`, which cannot."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(name.name.partition(".")[0] in PACKAGES for name in node.names):
            raise ValueError(f"line {node.lineno}: write `from ... import ...`")
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            lines[node.lineno - 1] = _OURS.sub(rf"from {PRIVATE}.\1", lines[node.lineno - 1], count=1)
    return "\n".join(lines)
