"""A node of its own on which users lay their processes' memory into a file system that answers no read.

Run as `python -m tests.system.attacks.blocked_pages FOLDER HOW MANY` by root, in namespaces of its own. Prints what an
agent there says: before, while MANY processes of one user block their readers, and once these have been replaced.
"""

import ctypes
import json
import os
import signal
import struct
import sys
import time
from pathlib import Path

from agent.agent import Agent
from agent.app import health
from agent.settings import AgentSettings
from tests.system.attacks.users import ALICE, BECOME, EVE

_SIZE = 1 << 16
_INIT, _LOOKUP, _GETATTR, _OPEN, _OPENDIR = 26, 1, 3, 14, 27
_UNANSWERED = frozenset({15, 2, 36, 42})
"""READ, and what asks for no answer: FORGET, INTERRUPT, BATCH_FORGET."""
_ENDED = frozenset({18, 25, 29})


def serve(point: Path) -> int:
    """Serve one file, of which each read waits for ever, in a process of its own: its end lets go of all readers."""
    channel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={channel},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    point.mkdir(exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"blocked", str(point).encode(), b"fuse", 6, options):
        raise OSError(ctypes.get_errno(), "mount")
    server = os.fork()
    if not server:
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
        _answer(channel)
    os.close(channel)
    return server


def _answer(channel: int) -> None:
    while True:
        data = os.read(channel, 1 << 20)
        _, asked, unique, node = struct.unpack_from("<IIQQ", data)
        if asked in _UNANSWERED:
            continue
        error, body = 0, b""
        if asked == _INIT:
            body = struct.pack("<IIIIHHIIHHI7I", 7, 31, _SIZE, 0, 16, 12, _SIZE, 1, 16, 0, 0, *[0] * 7)
        elif asked == _LOOKUP:
            body = struct.pack("<QQQQII", 2, 0, 3600, 3600, 0, 0) + _attributes(2)
        elif asked == _GETATTR:
            body = struct.pack("<QII", 3600, 0, 0) + _attributes(node)
        elif asked in (_OPEN, _OPENDIR):
            body = struct.pack("<QII", 1, 2, 0)  # FOPEN_KEEP_CACHE: who opens it next does not wait for readers
        elif asked not in _ENDED:
            error = -38
        os.write(channel, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def _attributes(node: int) -> bytes:
    mode = 0o40755 if node == 1 else 0o100444
    return struct.pack("<6Q10I", node, _SIZE, _SIZE // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def begin(user: int, page: Path | None, how: str, job: str) -> int:
    """Start a process of a user that says it is a rank and, with a page, lays it over part of its own memory."""
    said, say = os.pipe()
    child = os.fork()
    program = "import ctypes\n" + BECOME.format(user=user) + (_BLOCKS if page is not None else _SLEEPS)
    variables = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": job, "PAD": "x" * 8192}
    if not child:
        os.dup2(say, 1)
        os.execve(sys.executable, ["python3", "-c", program, str(page), how], variables)
    os.close(say)
    os.read(said, 1)
    os.close(said)
    return child


_SLEEPS = "import os, time; os.write(1, b'x'); time.sleep(600)"
_BLOCKS = """
import sys
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_long] * 5]
file = os.open(sys.argv[1], os.O_RDONLY)
if sys.argv[2] == "pointer":  # the list of variables as they are now: those of the start can be read
    ctypes.c_void_p.in_dll(libc, "environ").value = libc.mmap(0, 4096, 1, 2, file, 0)
else:
    fields = open("/proc/self/stat").read().rpartition(")")[2].split()
    first, last = (int(fields[47]) + 4095) & -4096, int(fields[48]) & -4096
    libc.mmap(first, last - first, 1, 0x12, file, 0)
os.write(1, b"x")
while True:
    libc.pause()
"""


def main(folder: Path, how: str, many: int) -> None:
    """Say three times what an agent knows."""
    server = serve(folder / "pages")
    honest = begin(ALICE, None, how, "honest")
    agent = Agent(AgentSettings(host_name="here", beat_seconds=0, look_timeout_seconds=30))
    for _ in range(2):
        attackers = [begin(EVE, folder / "pages" / "page", how, "blocked") for _ in range(many)]
        for _ in range(2):
            begun = time.monotonic()
            ranks = agent.ranks()
            seconds = time.monotonic() - begun
        told = {
            "honest": [rank.pid == honest for rank in ranks.ranks if rank.job == "honest"],
            "seconds": seconds,
            "health": json.loads(bytes(health(agent).body)),
            "missing": [each.detail for each in ranks.missing],
            "metrics": agent.metrics.page().decode(),
        }
        print(json.dumps(told), flush=True)
        for pid in attackers:
            os.kill(pid, signal.SIGKILL)
    os.kill(server, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
