"""Nothing is wrong: a model is served, and nobody asks. Rank 0 waits for requests, the others for its broadcast."""

import queue

import rig
import torch.distributed as dist

TRUTH = {"verdict": ["not_hung", "cannot_tell"]}


def next_request(requests: "queue.Queue[str]") -> str:
    """Wait for somebody to ask."""
    return requests.get()


def main() -> None:
    """Serve; after the first few requests nobody asks any more."""
    place = rig.start()
    requests: queue.Queue[str] = queue.Queue()
    for number in range(rig.FAULTY_STEP):
        requests.put(f"request {number}")
    for number in range(100):
        if number == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
        request = [next_request(requests) if place.rank == 0 else None]
        dist.broadcast_object_list(request, src=0)


if __name__ == "__main__":
    main()
