"""A cable with a fault: carries Ethernet frames between two interfaces, late, and loses some. Standard library alone.

`python wire.py NEAR FAR LOSS DELAY LARGEST WAYS` makes the two interfaces in the network namespace that it runs in,
says `ready`, and carries until its standard input closes. LOSS is a share of the frames, DELAY is in seconds, each way;
frames of more than LARGEST bytes are lost, and WAYS is `both`, or `in` where only frames to NEAR are. It does in user
space what `tc ... netem` does in kernels that have netem; not all have.
"""

import fcntl
import os
import random
import select
import struct
import sys
import time
from collections import deque

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_MOST_FRAME_BYTES = 65_536
_SEED = 20_261_121


def open_tap(name: str) -> int:
    """Make an Ethernet interface, whose frames are read and written here; it goes when we go."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    return tap


def read_frames(tap: int) -> list[bytes]:
    """Return what has come since."""
    frames = []
    try:
        while len(frames) < 256:
            frames.append(os.read(tap, _MOST_FRAME_BYTES))
    except OSError:  # no more, or the interface is down
        pass
    return frames


def carry(near: int, far: int, loss: float, delay_seconds: float, largest: int, ways: str) -> None:
    """Carry frames both ways until standard input closes."""
    chance = random.Random(_SEED)
    other = {near: far, far: near}
    under_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        pause = None if not under_way else max(0.0, under_way[0][0] - time.monotonic())
        ready, _, _ = select.select([near, far, sys.stdin], [], [], pause)
        if sys.stdin in ready:
            return
        for tap in ready:
            due = time.monotonic() + delay_seconds
            lost = loss if ways == "both" or tap == far else 0.0
            frames = [frame for frame in read_frames(tap) if len(frame) <= largest and chance.random() >= lost]
            under_way.extend((due, other[tap], frame) for frame in frames)
        while under_way and under_way[0][0] <= time.monotonic():
            _, tap, frame = under_way.popleft()
            try:
                os.write(tap, frame)
            except OSError:  # the interface is down, or its queue is full: a cable loses the frame, too
                continue


def main(near: str, far: str, loss: str, delay_seconds: str, largest: str, ways: str) -> None:
    """Make both ends, and carry."""
    ends = open_tap(near), open_tap(far)
    print("ready", flush=True)
    carry(*ends, float(loss), float(delay_seconds), int(largest), ways)


if __name__ == "__main__":
    main(*sys.argv[1:])
