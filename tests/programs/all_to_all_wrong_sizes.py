"""The faulty rank exchanges half as many tokens as the others send it, and Gloo aborts its process for that.

The others see its connections close, or nothing at all, and wait in the store until all are there for a new attempt.
"""

import contextlib

import rig
import torch
import torch.distributed as dist

TRUTH = {
    "launch": "direct",
    "ready": 3,
    "kinds": ["rank_exited", "rank_missing", "collective_mismatch"],
    "causes": ["signal", "exception", "user_code", "unknown"],
}

TOKENS = 1 << 16


def dispatch(tokens: torch.Tensor) -> torch.Tensor:
    """Send each expert its equal share of the tokens."""
    routed = torch.empty_like(tokens)
    dist.all_to_all_single(routed, tokens)
    return routed


def main() -> None:
    """Train a mixture of experts; at the faulty step one rank has lost half of its tokens."""
    place = rig.start()
    for step in range(100):
        is_odd = step == rig.FAULTY_STEP and place.is_faulty
        with contextlib.suppress(RuntimeError):
            dispatch(torch.ones(TOKENS // 2 if is_odd else TOKENS))
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {place.rank}")
            rig.meet_in_store(place, "attempt")


if __name__ == "__main__":
    main()
