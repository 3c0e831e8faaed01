"""Rank 0 unpickles its data set, seconds of C code without a line of Python in between; the others wait."""

import pickle

import ranks


def load(deadline: float) -> None:
    """Load the same shard again and again."""
    shard = pickle.dumps([{"id": number, "text": str(number) * 3} for number in range(2_000_000)])
    while ranks.before(deadline):
        pickle.loads(shard)


if __name__ == "__main__":
    ranks.others_wait_while(load)
