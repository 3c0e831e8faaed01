"""Ranks of real users: processes that say of themselves what another user's job says."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.build.processes.processes import running

ALICE, EVE = 61011, 61012

AT_WORK = """
import time
print("ready", flush=True)
while True:
    sum(range(10_000))
    time.sleep(0.001)
"""

# The frames of a rank that waits: the place in torch is what the verdict goes by.
IN_BARRIER = """
import time
source = "def barrier():\\n    print('ready', flush=True)\\n    while True:\\n        time.sleep(600)\\n"
exec(compile(source, "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", "exec"))
def train():
    barrier()
train()
"""

BECOME = "import os; os.setgroups([]); os.setgid({user}); os.setuid({user})\n"

_NEW_NAMESPACE = """
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(4, 1)  # PR_SET_DUMPABLE: who has changed user may not write his own mapping otherwise
assert libc.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())  # CLONE_NEWUSER
open("/proc/self/uid_map", "w").write("{inside} {user} 1")
assert os.getuid() == {inside}
"""
"""What `unshare --user --map-user=INSIDE` does: any user may, and calls himself whatever he likes there."""

_GIVEN_NAMESPACE = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
go, wait = os.pipe(), os.pipe()
child = os.fork()
if child:
    os.read(go[0], 1)
    open(f"/proc/{{child}}/uid_map", "w").write("0 {first} 65536")
    open(f"/proc/{{child}}/gid_map", "w").write("0 {first} 65536")
    os.write(wait[1], b"x")
    os.execve("/bin/sleep", ["sleep", "600"], {{}})  # the runtime knows nothing of ranks
assert libc.unshare(0x10000000) == 0
os.write(go[1], b"x")
os.read(wait[0], 1)
os.setgid({inside}); os.setuid({inside})
libc.prctl(4, 1)
"""
"""What a container runtime does for a pod with `hostUsers: false`: root makes the namespace and gives it a range."""


class Stage:
    """Starts ranks, and ends them all."""

    def __init__(self, job: str, stack: ExitStack) -> None:
        self.job = job
        self._stack = stack

    def rank(self, user: int, rank: int, *, attempt: int = 0, size: int = 2, inside: int | None = None) -> int:
        """Start a rank that waits in a barrier, as `user`, and as user `inside` of a namespace of his own."""
        program = "import ctypes\n" + BECOME.format(user=user)
        if inside is not None:
            program += _NEW_NAMESPACE.format(user=user, inside=inside)
        return self.start(program + IN_BARRIER, rank, attempt=attempt, size=size)

    def at_work(self, user: int, rank: int, *, size: int = 2) -> int:
        """Start a rank that makes progress."""
        return self.start(BECOME.format(user=user) + AT_WORK, rank, size=size)

    def in_container(self, first: int, inside: int, rank: int) -> int:
        """Start a rank as user `inside` of a container to which root has given the user ids from `first` on."""
        return self.start("import os\n" + _GIVEN_NAMESPACE.format(first=first, inside=inside) + IN_BARRIER, rank)

    def start(self, program: str, rank: int, *, attempt: int = 0, size: int = 2) -> int:
        """Start a Python program as a rank, wait until it says that it is ready, and return its process id."""
        variables = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size),
            "TORCHELASTIC_RUN_ID": self.job,
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
        }
        command = (sys.executable, "-c", program)
        process = self._stack.enter_context(running(command=command, env={"PATH": os.environ["PATH"], **variables}))
        return process.pid


@contextmanager
def stage(name: str) -> Iterator[Stage]:
    """A job's name that no other test uses, and whoever bears it until the block ends."""
    with ExitStack() as stack:
        yield Stage(f"{name}-{os.getpid()}", stack)
