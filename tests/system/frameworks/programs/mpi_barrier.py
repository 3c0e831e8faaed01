"""Ranks of Open MPI that write over their variables, as programs do that change their title; there is no PyTorch."""

import ctypes
import os
from pathlib import Path

from quota import reach_last_step


def forget_variables() -> None:
    """Have nobody read from outside what `mpirun` has told this process."""
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    kept = ctypes.string_at(start, end - start).replace(b"OMPI_", b"GONE_").replace(b"PMIX_", b"GONE_")
    ctypes.memmove(start, kept, end - start)


def main() -> None:
    """Meet in a barrier, again and again."""
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, rank = ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")), ctypes.c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(ctypes.c_void_p(world), ctypes.byref(rank))
    if rank.value == 0:
        print(f"mpi-{os.environ['PMIX_NAMESPACE']}", flush=True)
    forget_variables()
    for step in range(5):
        if step == 3:
            reach_last_step(rank.value)
        mpi.MPI_Barrier(ctypes.c_void_p(world))


if __name__ == "__main__":
    main()
