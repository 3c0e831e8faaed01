"""The faulty rank reduces a smaller tensor than the others, gets all it expects, and runs ahead of them.

Gloo cuts large tensors into segments of one MiB, and the others wait for segments that nobody sends.
"""

import rig

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}


def main() -> None:
    """Train; at the faulty step one rank has eight MiB of gradients, the others sixteen."""
    place = rig.start()
    rig.train_large(place, mebibytes=16, faulty_mebibytes=8)


if __name__ == "__main__":
    main()
