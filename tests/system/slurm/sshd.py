"""A real sshd on each host of a network."""

import os
import subprocess
from pathlib import Path

from tests.system.e2e.network import Network


def serve_ssh(network: Network, tmp_path: Path) -> tuple[str, ...]:
    """Start sshd on all hosts; return what ssh needs to come in, as its -o takes it."""
    for kind in ("host", "user"):
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / kind)), check=True)
    (tmp_path / "authorized").write_text((tmp_path / "user.pub").read_text())
    config = tmp_path / "sshd_config"
    config.write_text(
        f"HostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\nStrictModes no\nUsePAM no\n"
        "PidFile none\nPermitRootLogin yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    for name, host in network.hosts.items():
        host.start(
            ("/usr/sbin/sshd", "-D", "-e", "-f", str(config)),
            output=tmp_path / f"{name}.log",
            environment=dict(os.environ),
        )
    return (f"IdentityFile={tmp_path}/user", "StrictHostKeyChecking=no", f"UserKnownHostsFile={tmp_path}/known")
