"""The search over real nodes: rounds of trials, until nothing more can be proved or time is up."""

from collections.abc import Awaitable, Callable, Sequence

from cli.preflight.board import Board, StageNotes
from cli.preflight.search.proof import Members, Proof, Tried
from cli.preflight.search.rounds import Breadth, next_round, waves

Attempt = Callable[[tuple[Members, ...]], Awaitable[Sequence[bool | None]]]
"""Makes the trials of one wave and says of each whether it passed; None: it could not be made."""

MOST_ROUNDS = 100


async def search(
    board: Board,
    nodes: Sequence[int],
    tried: list[Tried],
    attempt: Attempt,
    *,
    stage: StageNotes,
    what: str = "",
    breadth: Breadth = Breadth.ALL_SIZES,
) -> Proof:
    """Try until nothing more can be proved; `tried` grows."""
    for _ in range(MOST_ROUNDS):
        trials = next_round(nodes, tried, breadth)
        if not trials:
            break
        stage.rounds += 1
        stage.trials += len(trials)
        board.tell(f"{what}round {stage.rounds}: {_in_words(trials)}")
        for wave in waves(trials):
            passed = await attempt(wave)
            tried += [Tried(each, ok) for each, ok in zip(wave, passed, strict=True) if ok is not None]
            if None in passed:
                board.late = True
                return Proof.of(nodes, tried)
    return Proof.of(nodes, tried)


def _in_words(trials: Sequence[Members]) -> str:
    sizes = {len(each) for each in trials}
    if sizes == {2}:
        return f"{len(trials)} {'pair' if len(trials) == 1 else 'pairs'}"
    nodes = max(sizes)
    return f"{nodes} nodes together" if len(trials) == 1 else f"{len(trials)} sets of up to {nodes} nodes"
