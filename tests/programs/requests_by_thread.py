"""Nothing is wrong: rank 0 takes requests from a queue that a thread fills which listens; the others wait for its word.

A thread that has warmed up the model has ended, as it should.
"""

import queue
import socket
import threading

import rig
import torch
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell"]}


def listen(requests: "queue.Queue[socket.socket]") -> None:
    """Take in requests, which do not come."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        while True:
            requests.put(listening.accept()[0])


def serve() -> None:
    """Wait for a request."""
    requests: queue.Queue[socket.socket] = queue.Queue()
    warming = threading.Thread(target=int, name="warm-up")
    warming.start()
    warming.join()
    threading.Thread(target=listen, args=(requests,), name="listener", daemon=True).start()
    requests.get()


def main() -> None:
    """Serve: rank 0 asks the others for work only when it has some."""
    place = rig.start()
    tokens = torch.ones(16)
    for _ in range(rig.FAULTY_STEP):
        dist.broadcast(tokens, src=0)
    rig.say_ready(f"rank {place.rank}")
    if place.rank == 0:
        serve()
    dist.broadcast(tokens, src=0)


if __name__ == "__main__":
    main()
