"""With accelerate: `if accelerator.is_main_process:` around `wait_for_everyone()`, which all must call.

Rank 0 waits there, and the others for rank 0 in the next gathering of metrics.
"""

import signal

import rig
import torch
from accelerate import Accelerator

TRUTH = {
    "launch": "accelerate",
    "kinds": ["collective_mismatch"],
    "causes": ["user_code"],
    "culprits": [0],
    "where": "save_model",
    "bare": {"or_silent": True},
}


def save_model(accelerator: Accelerator) -> None:
    """Wait for all ranks, then write."""
    accelerator.wait_for_everyone()


def main() -> None:
    """Train; at the faulty step save."""
    signal.alarm(rig.LIFETIME_SECONDS)
    accelerator = Accelerator(cpu=True)
    for step in range(100):
        if step == rig.FAULTY_STEP:
            rig.say_ready(f"rank {accelerator.process_index}")
            if accelerator.is_main_process:
                save_model(accelerator)
        accelerator.gather(torch.ones(4))


if __name__ == "__main__":
    main()
