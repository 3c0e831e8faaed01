"""The neighbour of `sibling_pipeline_sends.py`: the last stage of a pipeline expects a micro-batch that nobody owes it.

Rank 2 has sent as often as its like in the other pipeline, and is not to blame; that rank 3 received once too often is
in no record of Gloo, so that nobody is named. On NCCL the receive is on record, and that nobody has sent for it.
"""

import rig
from pipelines import STAGES, Pipelines

TRUTH = {
    "kinds": ["p2p_unmatched", "stuck_together"],
    "causes": ["unknown", "user_code"],
    "culprits": [],
    "victims": "0-3",
}


def main() -> None:
    """Train; at the faulty step the stage after the faulty rank receives once more than was sent."""
    place = rig.start()
    pipelines = Pipelines(place)
    for step, at_fault in enumerate(rig.steps(place), 1):
        beside_the_faulty = place.rank == rig.FAULTY_RANK + STAGES - 1
        pipelines.train(sent=step, expected=step + (1 if at_fault and beside_the_faulty else 0))


if __name__ == "__main__":
    main()
