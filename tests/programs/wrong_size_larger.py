"""The faulty rank reduces a larger tensor than the others.

Gloo cuts large tensors into segments of one MiB: the others get all they expect and go on to the next operation,
the faulty rank waits for segments that nobody sends. (With small tensors Gloo aborts the process instead.)
"""

import rig

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}

if __name__ == "__main__":
    rig.train_large(rig.start(), mebibytes=8, faulty_mebibytes=12)
