"""The faulty rank looks up a name, and its name server does not answer.

The server is a socket of its own that nobody reads from: libc's resolver is pointed to it, in this process alone.
"""

import ctypes
import socket
import struct

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["network"], "where": "find_bucket"}

RETRANS_SECONDS, RETRIES = 600, 5
HEAD = struct.Struct("iiLi")
"""The head of glibc's `struct __res_state`: retrans, retry, options, nscount; then come the name servers."""


def point_resolver_at(port: int) -> None:
    """Make `port` on this machine the only name server, and have it waited for."""
    libc = ctypes.CDLL(None)
    libc.__res_init()
    libc.__res_state.restype = ctypes.c_void_p
    state = libc.__res_state()
    options = HEAD.unpack(ctypes.string_at(state, HEAD.size))[2]
    head = HEAD.pack(RETRANS_SECONDS, RETRIES, options, 1)
    ctypes.memmove(state, head, len(head))
    server = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton("127.0.0.1"))
    ctypes.memmove(state + HEAD.size, server, len(server))


def find_bucket() -> object:
    """Ask for the address of a storage service."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        point_resolver_at(silent.getsockname()[1])
        return socket.getaddrinfo("bucket.storage.example", 443)


if __name__ == "__main__":
    rig.train(rig.start(), find_bucket)
