"""One rank of its own, whose flight record is empty, part-filled, full, and wrapped: it prints its own dumps each time.

Gloo's is part-filled, where it has one. `rings.py` starts it with the PyTorch in question, and asks for the next state.
"""

import base64
import json
import pickle
import sys
import time
from functools import partial

import torch
import torch.distributed as dist


def train(size: int) -> None:
    """Issue operations until there have been so many."""
    while len(issued) < size:
        issued.append(dist.all_reduce(tensor))


issued: list[None] = []
dist.init_process_group("nccl", rank=0, world_size=1)
tensor = torch.empty(4, device="cuda")
distributed = torch._C._distributed_c10d
has_own = hasattr(distributed, "_reset_fr_trace")  # since 2.15 of each backend
dump_nccl = partial(distributed._dump_fr_trace, backend="nccl2") if has_own else distributed._dump_nccl_trace
gloo = dist.new_group([0], backend="gloo")
for size in (3, 5):
    dist.all_reduce(torch.ones(size, 2), group=gloo)
for state in map(int, sys.argv[1:]):
    train(state)
    torch.cuda.synchronize()
    dumps, until = {"gloo": b""}, time.monotonic() + 60.0
    while time.monotonic() < until:  # the watchdog notes what is done a moment later
        dumps["nccl"] = dump_nccl()
        if hasattr(distributed, "_dump_fr_trace"):
            dumps["gloo"] = distributed._dump_fr_trace()
        if all(entry["retired"] for dump in dumps.values() if dump for entry in pickle.loads(dump)["entries"]):
            break
        time.sleep(0.1)
    print(json.dumps({name: base64.b64encode(dump).decode() for name, dump in dumps.items()}), flush=True)
    sys.stdin.readline()
