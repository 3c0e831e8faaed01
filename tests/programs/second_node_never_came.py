"""Two nodes of four ranks are expected, and the second never came: the ranks of the first wait in the rendezvous."""

import rig

TRUTH = {
    "or_silent": True,
    "launch": "first_node",
    "ready": 4,
    "busy": [0, 1, 2, 3],
    "kinds": ["startup_incomplete", "rank_missing"],
    "causes": ["rendezvous", "unknown"],
    "culprits": [],
}

if __name__ == "__main__":
    rig.join_and_wait()
