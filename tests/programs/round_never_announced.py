"""Each step begins when rank 0 has announced it in the store; at the faulty step it forgets to, and one rank waits."""

from datetime import timedelta

import rig
import torch
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["rendezvous"], "where": "begin_round"}


def begin_round(place: rig.Place, number: int) -> None:
    """Announce a round, or wait until it is announced."""
    store = dist.distributed_c10d._get_default_store()
    if place.rank == 0 and number != rig.FAULTY_STEP:
        store.set(f"round/{number}", "go")
    if place.is_faulty:
        store.set_timeout(timedelta(hours=1))
        store.get(f"round/{number}")


def main() -> None:
    """Train."""
    place = rig.start()
    gradients = torch.ones(16)
    for step in range(100):
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
        begin_round(place, step)
        dist.all_reduce(gradients)


if __name__ == "__main__":
    main()
