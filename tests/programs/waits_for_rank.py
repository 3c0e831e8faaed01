"""A rank waits for another rank of its job outside their groups, which waits for it in the world's all_reduce."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import rig
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "culprits": [2, 3], "victims": "0-1", "or_silent": True}
PARTNER = 3
PATH = Path(os.environ.get("TMPDIR", "/tmp")) / f"hand-over-{os.environ.get('UNHANG_TEST_JOB', 'job')}"


def by_fifo(rank: int) -> Callable[[], object]:
    """Return what reads the FIFO into which the partner would write after the collective."""
    if rank == rig.FAULTY_RANK:
        os.mkfifo(PATH)
    dist.barrier()
    kept = os.open(PATH, os.O_RDWR if rank == PARTNER else os.O_RDONLY) if rank in (PARTNER, rig.FAULTY_RANK) else -1
    dist.barrier()
    return lambda: os.read(kept, 100)


def by_tcp(rank: int) -> Callable[[], object]:
    """Return what receives from the partner, which would send after the collective."""
    return _by_socket(rank, socket.create_server(("127.0.0.1", 0)), lambda port: ("127.0.0.1", port))


def by_unix_socket(rank: int) -> Callable[[], object]:
    """Return the same over a socket of the file system."""
    server = socket.socket(socket.AF_UNIX)
    os.chdir(PATH.parent)  # the whole path may be longer than an address
    if rank == PARTNER:
        server.bind(PATH.name)
        server.listen()
    return _by_socket(rank, server, lambda _: PATH.name)


def _by_socket(rank: int, server: socket.socket, address_of: Callable[[int], object]) -> Callable[[], object]:
    told = [server.getsockname()[1] if server.family == socket.AF_INET else 0]
    dist.broadcast_object_list(told, src=PARTNER)
    kept = [server]
    if rank == rig.FAULTY_RANK:
        near = socket.socket(server.family)
        near.connect(address_of(told[0]))  # type: ignore[arg-type]
        kept.append(near)
    dist.barrier()
    if rank == PARTNER:
        kept.append(server.accept()[0])
    return lambda: kept[1].recv(100)


WAYS = {way.__name__: way for way in (by_fifo, by_tcp, by_unix_socket)}


def main() -> None:
    """Train; at the faulty step one rank waits for word from its partner."""
    place = rig.start()
    rig.train(place, WAYS[os.environ.get("WAITS_FOR_RANK", "by_tcp")](place.rank))


if __name__ == "__main__":
    main()
