"""The distribution, built once for all tests here, and an environment with it."""

import sys
from pathlib import Path

import pytest

from tests.system.packaging.environments import (
    Environment,
    build_zipapp,
    install,
    lend_libraries,
    make_environment,
    run_here,
)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a release makes it: from the source distribution, not from the tree."""
    folder = tmp_path_factory.mktemp("dist")
    run_here(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`unhang.pyz`, built as `make zipapp` does; the wheels that it holds stay in build/."""
    return build_zipapp(tmp_path_factory.mktemp("zipapp"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and someone else's package called `shared`."""
    environment = make_environment(tmp_path_factory.mktemp("installed") / "environment")
    decoy = environment.site_packages / "shared"
    decoy.mkdir()
    (decoy / "__init__.py").write_text("OWNER = 'someone else'\n", encoding="utf-8")
    install(environment, wheel)
    lend_libraries(environment)
    return environment
