"""What a node with GPUs has and this machine has not: a driver, its library, and what the kernel logs of devices."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deploy.lab.environment import Environment
from deploy.lab.standins import NVML

_RECORD_BYTES = 8192
"""What the agent reads at once of /dev/kmsg, where each read gives one record."""

# A /dev of its own, with a driver, an empty log of the kernel and terminals: it is nobody else's.
_OWN_DEVICES = """
new=$(mktemp -d) && mount -t tmpfs lab "$new" || exit
for old in /dev/*; do
    name=$new/${old#/dev/}
    if [ -L "$old" ]; then cp -P "$old" "$name"
    elif [ -d "$old" ]; then mkdir "$name" && mount --rbind "$old" "$name"
    elif [ "$old" != /dev/kmsg ] && [ "$old" != /dev/ptmx ]; then touch "$name" && mount --bind "$old" "$name"; fi
done
mount -t devpts -o newinstance,ptmxmode=666 lab "$new/pts" && ln -sf pts/ptmx "$new/ptmx" || exit
touch "$new/nvidiactl" "$new/kmsg" && mount --move "$new" /dev && rmdir "$new" && exec "$@"
"""


def container() -> tuple[str, ...]:
    """Return what to put before a command that is to see its own processes alone, with devices of its own; () where
    there can be no container.
    """
    others = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    within = ("unshare", *others, "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", _OWN_DEVICES, "lab")
    with suppress(OSError):
        if subprocess.run((*within, "true"), capture_output=True, check=False).returncode == 0:
            return within
    return ()


def tell(environment: Environment, folder: Path, gpus: Sequence[str], kernel: Sequence[str]) -> Mapping[str, str]:
    """Have the driver say `gpus` (nvml.c) and the kernel log `kernel`; return the variables that a reader needs."""
    (folder / NVML).symlink_to(environment.libraries / "nvml" / NVML)
    (folder / "gpus").write_text("".join(f"{line}\n" for line in gpus))
    now = int(time.clock_gettime(time.CLOCK_MONOTONIC_RAW) * 1e6)
    records = [f"4,{number},{now},-;{line}\n".encode() for number, line in enumerate(kernel)]
    Path("/dev/kmsg").write_bytes(b"".join(record.ljust(_RECORD_BYTES) for record in records))
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}
