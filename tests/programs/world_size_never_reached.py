"""Four ranks are expected and three are started: all of them wait in the rendezvous."""

import rig

TRUTH = {
    "or_silent": True,
    "launch": "direct",
    "ready": 3,
    "absent": [3],
    "busy": [0, 1, 2],
    "kinds": ["startup_incomplete", "rank_missing"],
    "causes": ["rendezvous", "unknown"],
    "culprits": [3],
}

if __name__ == "__main__":
    rig.join_and_wait()
