"""The row of the PyTorch that is installed here: made again from its headers."""

import importlib.util
from pathlib import Path

import pytest

from deploy.layouts.build import read
from deploy.layouts.table import Found, Layout, layout_of, read_table
from deploy.layouts.wheels import Installed

# That the agent reads this PyTorch by the table is tried by all who read records from memory (tests/system/live).
pytestmark = [pytest.mark.release, pytest.mark.needs("g++")]


@pytest.fixture(scope="module")
def installed() -> Installed:
    """PyTorch as `make install` brings it, for CPUs."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("torch is not installed")
    installed = Installed(Path(found.origin).parents[1])
    if installed.cuda is not None:
        pytest.skip("the torch that is installed is one for CUDA; make layouts checks those")
    return installed


@pytest.fixture(scope="module")
def row(installed: Installed) -> Layout:
    found = layout_of(read_table(), installed.release, new_strings=installed.new_strings)
    assert found is not None, f"make layouts has not seen {installed.release} yet"
    return found


@pytest.fixture(scope="module")
def found(installed: Installed) -> Found:
    """What its headers and its library tell; the compiler takes ten seconds for it."""
    (found,) = read(installed)
    return found


def test_headers_say_what_the_table_says(found: Found, row: Layout) -> None:
    """Structure by structure; those of NCCL are in the headers of wheels for CUDA alone."""
    assert found.structures.keys() >= {"recorder", "entry", "status", "traceback", "backend", "gloo", "gloo_options"}
    assert {name: row["structures"].get(name) for name in found.structures} == found.structures


def test_symbols_are_known(found: Found) -> None:
    """Those that the agent looks for are in the library."""
    assert {kind for kind, _ in found.symbols} == {"recorder", "gloo"}
    assert all(name in read_table()["symbols"][kind] for kind, name in found.symbols)
