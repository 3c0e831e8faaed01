"""Which two unix sockets are connected, asked of the kernel by sock_diag(7): no file in /proc shows it.

The answer is about our own network namespace alone. Where address families are restricted there is none.
"""

import socket
import struct
from collections.abc import Iterator

_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST_AND_DUMP = 0x301
_DONE, _ERROR = 3, 2
_SHOW_PEER, _SHOW_PENDING = 4, 8
_ATTRIBUTE_PEER, _ATTRIBUTE_PENDING = 2, 3
_SECONDS = 0.3
_MOST_ANSWERS = 256
_ANSWER_BYTES = 65_536

_HEAD = struct.Struct("=IHHII")
_MESSAGE = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")


def unix_peers() -> dict[int, int]:
    """Return the inode of the other end of each connected unix socket, by its own inode; empty where refused.

    A connection that nobody has accepted yet has none: it is with the socket that listens, which lists who has come.
    """
    body = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFF_FFFF, 0, _SHOW_PEER | _SHOW_PENDING, 0, 0)
    head = _HEAD.pack(_HEAD.size + len(body), _BY_FAMILY, _REQUEST_AND_DUMP, 1, 0)
    found: dict[int, int] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as channel:
            channel.settimeout(_SECONDS)
            channel.sendto(head + body, (0, 0))
            for _ in range(_MOST_ANSWERS):
                if not parse_answer(channel.recv(_ANSWER_BYTES), found):
                    break
    except OSError:
        return found
    return found


def parse_answer(data: bytes, found: dict[int, int]) -> bool:
    """Add the pairs of one answer to `found`; return whether more answers follow."""
    at = 0
    while at + _HEAD.size <= len(data):
        length, kind, *_ = _HEAD.unpack_from(data, at)
        if kind in (_DONE, _ERROR) or length < _HEAD.size:
            return False
        if at + _HEAD.size + _MESSAGE.size <= len(data):
            inode = _MESSAGE.unpack_from(data, at + _HEAD.size)[4]
            for kind, peers in _attributes(data[at + _HEAD.size + _MESSAGE.size : at + length]):
                if kind == _ATTRIBUTE_PENDING:
                    found.update(dict.fromkeys(peers, inode))
                elif kind == _ATTRIBUTE_PEER and peers[:1] > (0,):
                    found[inode] = peers[0]
        at += (length + 3) & ~3
    return True


def _attributes(data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Iterate over attributes that are lists of inodes."""
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            return
        count = (length - _ATTRIBUTE.size) // 4
        yield kind, struct.unpack_from(f"={count}I", data, at + _ATTRIBUTE.size)
        at += (length + 3) & ~3
