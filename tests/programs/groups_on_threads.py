"""Two threads reduce, each on its group, and take turns by a lock: on the faulty rank the other one is first.

The one that holds the lock waits for the other ranks, whose lock holder waits for this rank. Here the luck is arranged.
"""

import threading

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["order_inversion"], "causes": ["user_code"], "bare": {"or_silent": True}}

LOCK = threading.Lock()


def reduce_on(group: dist.ProcessGroup, turn: threading.Event, following: threading.Event) -> None:
    """Reduce when it is this thread's turn, with the lock held."""
    turn.wait()
    with LOCK:
        following.set()
        dist.all_reduce(torch.ones(16), group=group)


def train_step(groups: list[dist.ProcessGroup]) -> None:
    """Reduce on all groups, beginning with the first."""
    turns = [threading.Event() for _ in range(len(groups) + 1)]
    threads = [threading.Thread(target=reduce_on, args=(g, turns[i], turns[i + 1])) for i, g in enumerate(groups)]
    for thread in threads:
        thread.start()
    turns[0].set()
    for thread in threads:
        thread.join()


def main() -> None:
    """Train with a thread for dense and one for sparse gradients."""
    place = rig.start()
    ranks = list(range(place.world_size))
    groups = [dist.new_group(ranks, group_desc=description) for description in ("dense", "sparse")]
    for at_fault in rig.steps(place):
        is_odd = at_fault and place.is_faulty
        train_step(groups[::-1] if is_odd else groups)


if __name__ == "__main__":
    main()
