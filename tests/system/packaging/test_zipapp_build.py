"""`make zipapp`: in a checkout where nothing is installed, and for Pythons and machines that are not here."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy.zipapp.targets import ALL, Target, UnknownTarget, describe, parse_targets
from deploy.zipapp.wheels import LIST, Unusable, check_list, needed, normal, read_list
from tests.build.processes.memory_files import in_memory
from tests.system.packaging.environments import REPOSITORY, build_zipapp

FETCHED = REPOSITORY / "build" / "zipapp-wheels"
MACHINES = {62: "x86_64", 183: "aarch64"}
"""What a machine is called in an ELF header: /usr/include/elf.h, EM_X86_64 and EM_AARCH64."""

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}-{os.uname().machine}"


def contents(zipapp: Path, target: Target) -> dict[str, bytes]:
    """Return what is laid out on such a machine from wheels, by name, as `TARGETS.json` says."""
    with zipfile.ZipFile(zipapp) as archive:
        wheels = json.loads(archive.read("TARGETS.json"))["wheels"][target.tag]
        tops = [f"wheels/{wheel}/" for wheel in wheels]
        return {
            name.removeprefix(top): archive.read(name)
            for name in archive.namelist()
            for top in tops
            if name.startswith(top)
        }


@pytest.mark.release
@pytest.mark.parametrize("target", ALL, ids=lambda target: target.tag)
def test_what_is_compiled_fits(zipapp: Path, target: Target) -> None:
    """Every ELF file that is laid out is for that machine, and every extension module for that Python."""
    files = contents(zipapp, target)
    compiled = {name: data for name, data in files.items() if data[:4] == b"\x7fELF"}
    assert {MACHINES[int.from_bytes(data[18:20], "little")] for data in compiled.values()} == {target.machine}
    modules = [name for name in compiled if name.endswith(".so") and ".libs/" not in name]
    tag = target.python.replace(".", "")
    fitting = rf".+\.(cpython-{tag}-{target.machine}-linux-gnu|abi3)\.so"
    assert all(re.fullmatch(fitting, name) for name in modules), modules
    assert any("_pydantic_core" in name for name in modules)
    assert "bin/py-spy" in compiled


@pytest.mark.release
@pytest.mark.parametrize("target", ALL, ids=lambda target: target.tag)
def test_nothing_that_is_needed_is_lacking(zipapp: Path, target: Target) -> None:
    """Every requirement of every distribution inside is inside, in a version that it asks for."""
    metadata = [data for name, data in contents(zipapp, target).items() if name.endswith(".dist-info/METADATA")]
    distributions = [message_from_bytes(each) for each in metadata]
    versions = {normal(each["Name"]): each["Version"] for each in distributions}
    assert set(needed()) <= versions.keys()
    environment = {**target.marker_environment(), "extra": ""}
    requirements = [Requirement(text) for each in distributions for text in each.get_all("Requires-Dist") or ()]
    for need in requirements:
        if need.marker is None or need.marker.evaluate(environment):
            assert need.specifier.contains(versions[normal(need.name)], prereleases=True), need


@pytest.mark.release
def test_no_file_is_there_twice(zipapp: Path) -> None:
    """Pure wheels are there once, whatever they are for; and no file of one wheel hides another's."""
    with zipfile.ZipFile(zipapp) as archive:
        assert len(archive.namelist()) == len(set(archive.namelist()))
        assert sum(name.endswith("/click/core.py") for name in archive.namelist()) == 1
    for target in ALL:
        with zipfile.ZipFile(zipapp) as archive:
            tops = [f"wheels/{wheel}/" for wheel in json.loads(archive.read("TARGETS.json"))["wheels"][target.tag]]
            laid_out = [n.removeprefix(top) for n in archive.namelist() for top in tops if n.startswith(top)]
        assert len(laid_out) == len(set(laid_out))


def test_list_of_wheels_fits_the_checkout() -> None:
    """`make constraints` writes both."""
    check_list(read_list())


def test_list_of_wheels_that_is_too_old() -> None:
    """Said with what differs, and with what to do."""
    wheels = [wheel for wheel in read_list() if wheel.name != "click"]
    with pytest.raises(Unusable, match=r"has no click: `make constraints` writes it again"):
        check_list(wheels)


@pytest.mark.parametrize(
    ("words", "tags"),
    [
        ("", {target.tag for target in ALL}),
        ("3.12-x86_64", {"cp312-x86_64"}),
        ("3.12-arm64, 3.11-amd64", {"cp312-aarch64", "cp311-x86_64"}),
        ("3.13", {"cp313-x86_64", "cp313-aarch64"}),
        ("aarch64", {"cp311-aarch64", "cp312-aarch64", "cp313-aarch64", "cp314-aarch64"}),
    ],
)
def test_words_for_targets(words: str, tags: set[str]) -> None:
    """What ZIPAPP_FOR may say."""
    assert {target.tag for target in parse_targets(words)} == tags


@pytest.mark.parametrize("word", ["3.10", "3.12-sparc", "3", "3.12-", "-x86_64", "*", "3.12-x86_64-musl"])
def test_words_that_name_no_target(word: str) -> None:
    """Quoted, beside what there is."""
    with pytest.raises(UnknownTarget, match=re.escape(f"{word!r} names nothing")) as raised:
        parse_targets(f"3.12-x86_64 {word}")
    assert describe(ALL) in str(raised.value)


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A fresh checkout, without what git does not know."""
    with tempfile.TemporaryDirectory(prefix="unhang-checkout-", dir=in_memory()) as folder:
        yield _copied(Path(folder) / "checkout")


def _copied(folder: Path) -> Path:
    ignored = shutil.ignore_patterns(
        "__pycache__", ".git", ".venv", "build", "dist", "tests", "bench-results", ".*cache"
    )
    shutil.copytree(REPOSITORY, folder, ignore=ignored)
    return folder


def make_zipapp(checkout: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Call `make zipapp` with the Python below the environment that runs the tests."""
    command = ["make", "zipapp", f"PYTHON={Path(sys.executable).resolve()}", *words]
    lent = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAKE", "VIRTUAL_ENV"))}
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=280, env=lent | variables)


NO_NETWORK = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/nonexistent", "PIP_CONFIG_FILE": "/dev/null"}


@pytest.mark.release
def test_fresh_checkout_installs_nothing(checkout: Path, tmp_path: Path) -> None:
    """pip fetches the listed wheels alone; a second time nobody asks it, and the same bytes come out."""
    log = tmp_path / "pip.log"
    first = make_zipapp(checkout, f"ZIPAPP_FOR={HERE}", PIP_LOG=str(log))
    assert first.returncode == 0, first.stderr
    assert re.search(r"unhang\.pyz: \d+\.\d MiB, for Python 3\.\d+ on \w+; not for Python ", first.stdout)
    (target,) = parse_targets(HERE)
    wanted = {wheel.file for wheel in read_list() if wheel.fits(target)}
    assert {path.name for path in (checkout / "build" / "zipapp-wheels").iterdir()} == wanted
    said = log.read_text(encoding="utf-8")
    assert set(re.findall(r" Saved \./(\S+)", said)) == wanted
    assert not any(file.startswith("torch") for file in wanted)
    assert "Installing collected packages" not in said
    assert not (checkout / ".venv").exists()

    built = checkout / "dist" / "unhang.pyz"
    before = built.read_bytes()
    built.unlink()
    again = make_zipapp(checkout, f"ZIPAPP_FOR={HERE}", **NO_NETWORK)
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    assert built.read_bytes() == before


@pytest.mark.release
def test_built_for_fewer(zipapp: Path, tmp_path: Path) -> None:
    """It says which, and is smaller."""
    target = tmp_path / "unhang.pyz"
    command = [sys.executable, "-m", "deploy.zipapp.build", str(target), "--for", "3.14-arm64"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "for Python 3.14 on aarch64; not for Python 3.11, 3.12, 3.13, 3.14 on x86_64; " in done.stdout
    assert target.stat().st_size < zipapp.stat().st_size / 2
    refused = subprocess.run([sys.executable, target, "version"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert refused.stderr.startswith("this unhang.pyz is for Python 3.14 on aarch64, ")


@pytest.mark.release
def test_same_checkout_same_bytes(zipapp: Path, tmp_path: Path) -> None:
    """Whoever builds it again can compare."""
    assert zipapp.read_bytes() == build_zipapp(tmp_path).read_bytes()


@pytest.mark.release
def test_wheels_that_cannot_be_fetched(checkout: Path) -> None:
    """Which, for what, and what to do; an archive that lacks them is not written."""
    done = make_zipapp(checkout, "ZIPAPP_FOR=3.14-aarch64", **NO_NETWORK)
    assert done.returncode != 0
    assert "no zipapp: for 3.14-aarch64 pip could not fetch all of " in done.stderr
    assert "ZIPAPP_FOR='3.12-x86_64 3.13'` builds for fewer" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (checkout / "dist").exists()


@pytest.mark.release
@pytest.mark.usefixtures("zipapp")
def test_wheel_that_was_changed_is_never_used(checkout: Path, tmp_path: Path) -> None:
    """Neither one that lies there already nor one that pip is offered."""
    (target,) = parse_targets(HERE)
    here = checkout / "build" / "zipapp-wheels"
    here.mkdir(parents=True)
    offered = tmp_path / "offered"
    offered.mkdir()
    for wheel in (wheel for wheel in read_list() if wheel.fits(target)):
        shutil.copy(FETCHED / wheel.file, here)
    (changed,) = here.glob("click-*.whl")
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("click/back_door.py", "")
    shutil.copy(changed, offered)
    done = make_zipapp(checkout, f"ZIPAPP_FOR={HERE}", **NO_NETWORK | {"PIP_FIND_LINKS": str(offered)})
    assert done.returncode != 0
    assert "pip could not fetch all of click " in done.stderr
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (checkout / "dist").exists()


def test_older_python_cannot_build(checkout: Path) -> None:
    """Said by the Makefile: our sources need not be readable by it."""
    old = checkout / "old-python"
    old.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 9); $2"\n', encoding="utf-8"
    )
    old.chmod(0o755)
    done = make_zipapp(checkout, f"PYTHON={old}")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer: make PYTHON=... zipapp" in done.stderr


def test_every_line_of_the_list_is_read() -> None:
    """One wheel a line, each for some target, none for what is not built for."""
    lines = [line for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    wheels = read_list()
    assert len(wheels) == len(lines) == len({wheel.file for wheel in wheels})
    assert all(re.fullmatch(r"[0-9a-f]{64}", wheel.sha256) and any(map(wheel.fits, ALL)) for wheel in wheels)
