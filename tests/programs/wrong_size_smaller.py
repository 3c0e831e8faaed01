"""The faulty rank reduces a smaller tensor than the others, gets all it expects, and runs ahead of them.

Gloo cuts large tensors into segments of one MiB, and the others wait for segments that nobody sends.
"""

import rig

TRUTH = {"kinds": ["collective_mismatch"], "causes": ["user_code"], "bare": {"or_silent": True}}

if __name__ == "__main__":
    rig.train_large(rig.start(), mebibytes=16, faulty_mebibytes=8)
