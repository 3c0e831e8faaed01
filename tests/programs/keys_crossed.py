"""Two ranks wait in the store for a word of each other: each would say its own once it has the other's."""

from datetime import timedelta

import rig
import torch.distributed as dist

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["rendezvous"], "culprits": []}

ONE, OTHER = 1, 2


def exchange(place: rig.Place) -> None:
    """Take the other's word, then give one's own: the wrong way round on both sides."""
    store = dist.distributed_c10d._get_default_store()
    store.wait([f"word/of/{OTHER if place.rank == ONE else ONE}"], timedelta(hours=1))
    store.set(f"word/of/{place.rank}", "done")


if __name__ == "__main__":
    place = rig.start()
    rig.train(place, lambda: exchange(place), astray=place.rank in (ONE, OTHER))
