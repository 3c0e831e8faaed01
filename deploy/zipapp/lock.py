"""Writes `wheels.txt`: which wheels `unhang.pyz` carries, in the versions of constraints.txt, with their hashes.

`make constraints` calls it, in the environment that constraints.txt was written from: what a distribution needs is read
from what is installed there, and which wheels there are for each target from pip, which installs nothing.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement

from deploy.zipapp.targets import ALL, MACHINES, Target
from deploy.zipapp.wheels import LIST, Unusable, needed, normal, pinned

_HEAD = """\
# The wheels inside unhang.pyz: SHA-256, file, and for which Pythons on which machines.
# Versions are those of constraints.txt. `python -m deploy.zipapp.lock` writes this file again.
"""

_Found = Mapping[str, str]
"""Hashes by file."""


def closure(target: Target) -> dict[str, str]:
    """Return the distributions that are needed there, with their versions. Raises Unusable."""
    versions = pinned()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(text) for text in needed()]
    while waiting:
        wanted = waiting.pop()
        name, extras = normal(wanted.name), frozenset(wanted.extras)
        if name not in versions:
            raise Unusable(f"{target.tag} needs {name}, and constraints.txt does not have it")
        if (name, extras) not in seen:
            seen.add((name, extras))
            waiting += _needs(name, extras, target)
    return {name: versions[name] for name, _ in sorted(seen, key=str)}


def _needs(name: str, extras: frozenset[str], target: Target) -> list[Requirement]:
    try:
        needs = [Requirement(text) for text in distribution(name).requires or ()]
    except PackageNotFoundError as error:
        raise Unusable(f"{name} is not installed here: make install") from error
    chosen = [{**target.marker_environment(), "extra": extra} for extra in ("", *sorted(extras))]
    return [need for need in needs if need.marker is None or any(need.marker.evaluate(one) for one in chosen)]


def _ask_pip(target: Target) -> _Found:
    """Return the wheels that pip would take there. Raises Unusable."""
    names = [f"{name}=={version}" for name, version in closure(target).items()]
    options = ("--dry-run", "--quiet", "--ignore-installed", "--no-deps", "--target", "nowhere", "--report", "-")
    command = (sys.executable, "-m", "pip", "install", *options, *target.pip_options(), *names)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unusable(f"for {target.tag}: {done.stderr.strip()}")
    each = [one["download_info"] for one in json.loads(done.stdout)["install"]]
    return {
        PurePosixPath(unquote(urlsplit(one["url"]).path)).name: one["archive_info"]["hashes"]["sha256"] for one in each
    }


def _patterns(targets: set[Target]) -> list[str]:
    """Return the fewest patterns that fit these targets, and no other."""
    left = {target.tag for target in targets}
    patterns = []
    for pattern in ("*", *(f"*-{machine}" for machine in MACHINES), *(target.tag for target in ALL)):
        fitting = {target.tag for target in ALL if fnmatchcase(target.tag, pattern)}
        if fitting and fitting <= left:
            patterns.append(pattern)
            left -= fitting
    return patterns


def write_list() -> None:
    """Ask pip for each target, and write what it says. Raises Unusable."""
    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(ALL, pool.map(_ask_pip, ALL), strict=True))
    hashes = {file: sha256 for found in answers.values() for file, sha256 in found.items()}
    lines = []
    for file in sorted(hashes, key=lambda file: (normal(file.split("-")[0]), file)):
        taken = {target for target, found in answers.items() if file in found}
        lines.append(f"{hashes[file]}  {file}  {' '.join(_patterns(taken))}\n")
    LIST.write_text(_HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    try:
        write_list()
    except Unusable as error:
        sys.exit(f"wheels.txt stays as it is: {error}")
