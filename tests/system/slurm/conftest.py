"""Three nodes of a real Slurm, with the scripts of deploy/slurm as its prolog, epilog and health check."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needed import skip_without
from tests.system.deploy.units import REPOSITORY
from tests.system.e2e.cluster import lacking_for_hosts
from tests.system.e2e.network import Network
from tests.system.slurm.cluster import Slurm
from tests.system.slurm.programs import Programs

NODES = ("node1", "node2", "node3")


@pytest.fixture(scope="package")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Three hosts."""
    skip_without("ip")
    if lacking := lacking_for_hosts():
        pytest.skip(f"needs namespaces of its own: {lacking}")
    with Network(*NODES, directory=tmp_path_factory.mktemp("network")) as network:
        yield network


@pytest.fixture(scope="package")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """What a node has beside Slurm."""
    return Programs(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="package")
def slurm(network: Network, programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Slurm, with our scripts in its configuration."""
    scripts = tmp_path_factory.mktemp("scripts")
    lines = ["PrologFlags=Alloc", "HealthCheckInterval=3600"]
    setting = {"prolog.sh": "Prolog", "preflight.sh": "Prolog", "epilog.sh": "Epilog", "check.sh": "HealthCheckProgram"}
    setting["task_prolog.sh"] = "TaskProlog"
    for name, wanted in setting.items():
        folder = scripts / wanted
        folder.mkdir(exist_ok=True)
        script: Path = folder / name
        script.write_text(programs.placed((REPOSITORY / "deploy" / "slurm" / name).read_text(encoding="utf-8")))
        script.chmod(0o755)
        lines.append(f"{wanted}={folder}/*" if wanted in ("Prolog", "Epilog") else f"{wanted}={script}")
    settings = "\n".join(dict.fromkeys(lines)) + "\n"
    with Slurm(network, tmp_path_factory.mktemp("slurm"), settings=settings) as running:
        yield running
