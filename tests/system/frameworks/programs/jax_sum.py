"""JAX on several processes that `mpirun` starts, or a shell that says who is who; there is no PyTorch in them."""

import os
import sys

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from quota import reach_last_step


def main() -> None:
    """Meet, and add up."""
    told = sys.argv[2:] or [os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]]
    rank, size = map(int, told)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(sys.argv[1], size, rank, local_device_ids=[0])
    rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    add = jax.jit(lambda parts: parts.sum())
    for step in range(5):
        if step == 3:
            reach_last_step(rank)
        parts = jax.make_array_from_process_local_data(rows, np.ones(4, np.float32))
        add(parts).block_until_ready()


if __name__ == "__main__":
    main()
