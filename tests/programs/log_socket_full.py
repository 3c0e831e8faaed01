"""The faulty rank sends its log to a collector that has stopped reading: the socket is full, and sending blocks."""

import socket

import rig

TRUTH = {"or_silent": True, "kinds": ["rank_not_joined"], "causes": ["network", "pipe_blocked"], "where": "ship_log"}


def ship_log() -> None:
    """Send more than both ends' buffers hold."""
    collector, shipper = socket.socketpair()
    with collector, shipper:
        shipper.sendall(bytes(1 << 26))


if __name__ == "__main__":
    rig.train(rig.start(), ship_log)
