"""Builds `unhang.pyz`: one file that looks at a node with nothing there but a Python.

It holds our packages and the wheels of `wheels.txt`, unpacked: pure ones once, compiled ones for each Python and
machine. Nothing is installed, and nothing has to be: this runs on the standard library and pip. Sources stay sources,
so the same checkout gives the same bytes, whichever Python builds it.
"""

import argparse
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from deploy.zipapp.start import TARGETS, WHEELS
from deploy.zipapp.targets import ALL, Target, UnknownTarget, describe, parse_targets
from deploy.zipapp.wheels import REPOSITORY, Unusable, Wheel, check_list, fetch, read_list

_OURS = ("agent", "cli", "collector", "shared")
_FETCHED = REPOSITORY / "build" / "zipapp-wheels"
_LEFT_OUT = ("py.typed", "RECORD", "INSTALLER", "REQUESTED", "WHEEL", "entry_points.txt", "top_level.txt")
_SHEBANG = b"#!/usr/bin/env python3\n"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


def build(target: Path, targets: Sequence[Target], folder: Path = _FETCHED) -> None:
    """Write the archive to `target`, there whole or not at all; what was fetched stays in `folder`. Raises Unusable."""
    wheels = read_list()
    check_list(wheels)
    fetch(wheels, targets, folder)
    taken = [wheel for wheel in wheels if any(wheel.fits(each) for each in targets)]
    members = dict(_ours())
    for wheel in taken:
        members |= _unpacked(folder / wheel.file)
    members["__main__.py"] = Path(__file__).with_name("start.py").read_bytes()
    members[TARGETS] = _index(taken, targets)
    _write(target, members)


def _index(wheels: Sequence[Wheel], targets: Sequence[Target]) -> bytes:
    """Say which wheels each target needs, and all targets in words."""
    folders = {each.tag: [_stem(wheel.file) for wheel in wheels if wheel.fits(each)] for each in targets}
    return json.dumps({"words": describe(targets), "wheels": folders}, indent=1).encode()


def _write(target: Path, members: dict[str, bytes]) -> None:
    memory = io.BytesIO(_SHEBANG)
    memory.seek(0, os.SEEK_END)
    with zipfile.ZipFile(memory, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _FIXED_DATE), data, zipfile.ZIP_DEFLATED)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.{os.getpid()}.new")
    draft.write_bytes(memory.getvalue())
    draft.chmod(0o755)
    draft.replace(target)


def _ours() -> Iterator[tuple[str, bytes]]:
    for package in _OURS:
        for path in sorted((REPOSITORY / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(REPOSITORY).as_posix(), path.read_bytes()


def _unpacked(path: Path) -> dict[str, bytes]:
    """Return the files of a wheel by where they lie in the archive: in a folder of the wheel's own."""
    with zipfile.ZipFile(path) as wheel:
        places = {name: _installed(PurePosixPath(name)) for name in wheel.namelist() if not name.endswith("/")}
        return {f"{WHEELS}{_stem(path.name)}/{to}": wheel.read(name) for name, to in places.items() if to is not None}


def _stem(file: str) -> str:
    return file.removesuffix(".whl")


def _installed(file: PurePosixPath) -> str | None:
    """Return where pip would put a wheel's file, beneath one folder; None for what nobody needs to run it.

    https://packaging.python.org/en/latest/specifications/binary-distribution-format/#the-data-directory
    """
    if file.is_absolute() or ".." in file.parts:
        raise Unusable(f"a wheel has a file outside of itself: {file}")
    if file.suffix in (".pyi", ".pyc", ".pth") or file.name in _LEFT_OUT:
        return None
    if not file.parts[0].endswith(".data"):
        return str(file)
    top = {"purelib": PurePosixPath(), "platlib": PurePosixPath(), "scripts": PurePosixPath("bin")}.get(file.parts[1])
    return None if top is None else str(top.joinpath(*file.parts[2:]))


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make zipapp")
    parser.add_argument("target", type=Path, nargs="?", default=REPOSITORY / "dist" / "unhang.pyz")
    parser.add_argument("--for", dest="targets", default="", metavar="TARGETS", help="e.g. '3.12-x86_64 3.13'")
    parser.add_argument("--wheels", type=Path, default=_FETCHED, metavar="DIR", help="where wheels are, or are put")
    wanted = parser.parse_args()
    try:
        targets = parse_targets(wanted.targets)
        build(wanted.target, targets, wanted.wheels)
    except (Unusable, UnknownTarget) as error:
        sys.exit(f"no zipapp: {error}")
    size = wanted.target.stat().st_size / 2**20
    lacking = "" if len(targets) == len(ALL) else f"; not for {describe(one for one in ALL if one not in targets)}"
    sys.stdout.write(f"{wanted.target}: {size:.1f} MiB, for {describe(targets)}{lacking}\n")


if __name__ == "__main__":
    main()
