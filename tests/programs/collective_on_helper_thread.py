"""A helper thread takes part in a barrier on the world's own group, and on the faulty rank it comes first.

Two threads that issue on one group are ordered by luck alone. Here the luck is arranged.
"""

import threading

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["collective_mismatch", "order_inversion"], "causes": ["user_code"], "bare": {"or_silent": True}}


def beat(turn: threading.Event) -> None:
    """Meet all ranks once, when it is this thread's turn."""
    turn.wait()
    dist.barrier()


def main() -> None:
    """Train; at the faulty step the heartbeat is due on all ranks."""
    place = rig.start()
    turn = threading.Event()
    heartbeat = threading.Thread(target=beat, args=[turn], name="heartbeat", daemon=True)
    heartbeat.start()
    activations, gradients = torch.ones(8, 4), torch.ones(16)
    for at_fault in rig.steps(place):
        dist.all_reduce(activations, group=place.pair)
        if at_fault and place.is_faulty:
            turn.set()
            heartbeat.join()
        dist.all_reduce(gradients)
        if at_fault:
            turn.set()


if __name__ == "__main__":
    main()
