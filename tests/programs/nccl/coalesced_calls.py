"""Reductions are coalesced into one call; one rank has one tensor less."""

import rig
import torch
import torch.distributed as dist

# Of such a batch PyTorch records neither parts nor sizes.
TRUTH = {"kinds": ["collective_mismatch", "order_inversion"], "causes": ["user_code"], "or_silent": True}


def main() -> None:
    """Train; at the faulty step one rank has frozen a layer."""
    place = rig.start()
    gradients = [torch.ones(16 * (1 + number)) for number in range(4)]
    for at_fault in rig.steps(place):
        mine = gradients[:-1] if at_fault and place.is_faulty else gradients
        with dist._coalescing_manager(device=mine[0].device, async_ops=True) as handles:
            for gradient in mine:
                dist.all_reduce(gradient)
        handles.wait()


if __name__ == "__main__":
    main()
