"""What starts one command on many nodes: pdsh and clush over real ssh."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.build.processes.commands import environment
from tests.build.processes.sshd import Cluster
from tests.needed import skip_without


def pdsh(nodes: Cluster) -> dict[str, str]:
    """Return the variables with which pdsh goes to the daemons."""
    skip_without("pdsh")
    return {"PDSH_RCMD_TYPE": "ssh", "PDSH_SSH_ARGS_APPEND": f"-F {nodes.folder / 'config'}"}


def clush(nodes: Cluster, folder: Path) -> dict[str, str]:
    """Return the variables with which clush, of the environment that runs the tests, goes to the daemons."""
    (folder / "clush.conf").write_text(f"[Main]\nssh_options: -F {nodes.folder / 'config'}\n", encoding="ascii")
    return {"CLUSTERSHELL_CFGDIR": str(folder)}


def run(line: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the documents in a shell that finds the programs of `folder` first."""
    paths = (str(folder), str(Path(sys.executable).parent), os.environ["PATH"])
    env = environment({**variables, "PATH": os.pathsep.join(paths)})
    return subprocess.run(
        ("sh", "-c", line), cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
