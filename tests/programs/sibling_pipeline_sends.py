"""Two pipelines of two stages, whose batch grows with every step: the faulty stage leaves out the step's last send.

No step is like the one before it, so that a stage's own history does not show how often it was to send. The other
pipeline's does: at the same step the same stage has sent once more before the operation that the faulty one waits in.
"""

import rig
from pipelines import Pipelines

TRUTH = {"kinds": ["p2p_unmatched"], "causes": ["user_code"], "bare": {"or_silent": True}}


def main() -> None:
    """Train; at the faulty step one of the first stages sends a micro-batch less than its batch has."""
    place = rig.start()
    pipelines = Pipelines(place)
    for step, at_fault in enumerate(rig.steps(place), 1):
        left_out = 1 if at_fault and place.is_faulty else 0
        pipelines.train(sent=step - left_out, expected=step)


if __name__ == "__main__":
    main()
