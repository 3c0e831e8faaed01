"""`unhang diagnose --from DIR` on logs of 1 GB: seconds, CPU seconds and memory; what tells stands in their middle.

`usual`: lines of a training loop, whose numbers alone differ. `mixed`: words in any order, so that no line is like
another, which is the most that can be asked of the reader. `calls`: NCCL_DEBUG_SUBSYS=COLL, where every line may tell.
Budget (issue 25) for the usual one: less than 10 s of CPU and 300 MiB.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench.from_disk import OURS, run
from tests.build.jobs.logged import call, caught, init, status

SIZE = 1_000_000_000
_WORDS = (
    "loader shard opened bucket resharded tokens cached warmup evaluates sampler batch cleared saved prefetch".split()
)


def usual(at: int, _: random.Random) -> str:
    return (
        f"2026-11-21 09:10:11,{at % 1000:03} INFO [rank{at % 8}] step {at} loss {1 / (at + 1):.4f} "
        f"lr {at * 1e-9:.3e} grad_norm {at % 7 / 3:.3f} tokens/s {at * 13 % 9999}\n"
    )


def mixed(at: int, chance: random.Random) -> str:
    return f"2026-11-21 09:10:11,{at % 1000:03} INFO {' '.join(chance.choices(_WORDS, k=12))}\n"


def calls(at: int, _: random.Random) -> str:
    return f"{call(4000 + at % 8, at // 8)}\n"


KINDS: dict[str, Callable[[int, random.Random], str]] = {"usual": usual, "mixed": mixed, "calls": calls}


def write_log(path: Path, line: Callable[[int, random.Random], str], *, size: int = SIZE) -> None:
    """Write a log of so many bytes: ranks 0 to 2 wait in #12, and rank 3 has not come to it."""
    chance, at, written = random.Random(7), 0, 0
    telling = "".join(f"{text}\n" for rank in range(3) for text in (caught(rank, 12), status(rank, 12, 12)))
    telling += "[rank3]: Traceback (most recent call last):\n" + "[rank3]: ValueError: no shard 17\n"
    with path.open("w") as log:
        log.writelines(f"{init(4000 + rank, rank)}\n" for rank in range(4))
        while written < size:
            block = "".join(line(at + each, chance) for each in range(20_000))
            at += 20_000
            told = telling if written < size // 2 <= written + len(block) else ""
            log.write(block + told)
            written += len(block)


def measure() -> dict[str, str]:
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, line in KINDS.items():
            directory = Path(folder) / kind
            directory.mkdir()
            write_log(directory / "train.log", line)
            took = run((*OURS, str(directory)))
            right = '"verdict": "hung"' in took.output or '"verdict":"hung"' in took.output
            rows[f"a log of {SIZE // 10**6} MB, {kind}"] = (
                f"{took.seconds:.1f} s, {took.cpu_seconds:.1f} s of CPU, {took.peak_bytes / 2**20:.0f} MiB, "
                f"{'right' if right else 'WRONG'}"
            )
            (directory / "train.log").unlink()
    return rows


if __name__ == "__main__":
    for what, figure in measure().items():
        print(f"{what}: {figure}", flush=True)
