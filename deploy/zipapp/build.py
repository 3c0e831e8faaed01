"""Builds `unhang.pyz`: one file that looks at a node with nothing there but a Python of the same version.

It holds our packages, the libraries that this environment has installed, and py-spy; nothing is fetched. What only
the collector's store needs stays out. The same environment gives the same bytes.
"""

import argparse
import importlib.util
import io
import os
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath
from py_compile import PycInvalidationMode, compile
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

from deploy.zipapp.start import BUILT_FOR, built_for

_REPOSITORY = Path(__file__).resolve().parents[2]
_OURS = ("agent", "cli", "collector", "shared")
_NEEDED = ("click", "fastapi", "httpx", "prometheus-client", "py-spy", "pydantic", "pydantic-settings", "uvicorn")
_LEFT_OUT = ("py.typed", "RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "entry_points.txt")
_SHEBANG = b"#!/usr/bin/env python3\n"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


def build(target: Path) -> None:
    """Write the archive to `target`, there whole or not at all."""
    members = dict(_ours()) | dict(_libraries())
    members["__main__.py"] = (Path(__file__).with_name("start.py")).read_bytes()
    members[BUILT_FOR] = built_for().encode()
    memory = io.BytesIO(_SHEBANG)
    memory.seek(0, os.SEEK_END)
    with zipfile.ZipFile(memory, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _FIXED_DATE), data, zipfile.ZIP_DEFLATED)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".new")
    draft.write_bytes(memory.getvalue())
    draft.chmod(0o755)
    draft.replace(target)


def _ours() -> Iterator[tuple[str, bytes]]:
    """Our sources, for children are started from them, with their compiled forms beside them."""
    for package in _OURS:
        for path in sorted((_REPOSITORY / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(_REPOSITORY).as_posix()
                yield name, path.read_bytes()
                if path.suffix == ".py":
                    cached = PurePosixPath(importlib.util.cache_from_source(name))
                    yield str(cached), _compiled(path, name)


def _libraries() -> Iterator[tuple[str, bytes]]:
    """The libraries, compiled alone: nobody reads their sources out of an archive."""
    for found in _closure(_NEEDED):
        for file in found.files or ():
            path = Path(str(found.locate_file(file)))
            if file.name == "py-spy":
                yield "bin/py-spy", path.read_bytes()
            elif _belongs(file):
                compiled = file.suffix == ".py"
                yield (
                    str(file.with_suffix(".pyc") if compiled else file),
                    (_compiled(path, str(file)) if compiled else path.read_bytes()),
                )


def _belongs(file: PurePosixPath) -> bool:
    outside = ".." in file.parts or file.is_absolute() or "__pycache__" in file.parts
    return not outside and file.suffix not in (".pyi", ".pyc", ".pth") and file.name not in _LEFT_OUT


def _closure(names: tuple[str, ...]) -> list[Distribution]:
    """Return the distributions and all that they need here, extras left out."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = distribution(name)
            needs = (Requirement(text) for text in found[name].requires or ())
            waiting += [
                need.name.lower() for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})
            ]
    return [found[name] for name in sorted(found)]


def _compiled(path: Path, name: str) -> bytes:
    """Compile a source; it is never compared with it, for the archive holds both from one moment."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "compiled.pyc"
        compile(str(path), str(target), name, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        return target.read_bytes()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, prog="make zipapp")
    parser.add_argument("target", type=Path, nargs="?", default=_REPOSITORY / "dist" / "unhang.pyz")
    wanted = parser.parse_args().target
    build(wanted)
    sys.stdout.write(f"{wanted}: {wanted.stat().st_size / 1e6:.1f} MB, for {built_for()}\n")
