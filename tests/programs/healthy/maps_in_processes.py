"""Rank 0 preprocesses its data set in two worker processes, as `dataset.map(num_proc=2)` does; the others wait."""

import multiprocessing

import ranks


def preprocess(example: int) -> int:
    """Compute for about a second."""
    return sum(number * number % 7 for number in range(10_000_000 + example))


def map_examples(deadline: float) -> None:
    """Hand the examples out in rounds of eight, and collect what comes of them."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        while ranks.before(deadline):
            pool.map(preprocess, range(8), chunksize=2)


if __name__ == "__main__":
    ranks.others_wait_while(map_examples)
