"""One rank of its own, whose flight record is empty, part-filled, full, and wrapped: it prints its own dump each time.

`rings.py` starts it with the PyTorch in question and asks for the next state by a line.
"""

import base64
import json
import pickle
import sys
import time

import torch
import torch.distributed as dist


def train(size: int) -> None:
    """Issue operations until there have been so many."""
    while len(issued) < size:
        issued.append(dist.all_reduce(tensor))


issued: list[None] = []
dist.init_process_group("nccl", rank=0, world_size=1)
tensor = torch.empty(4, device="cuda")
for state in map(int, sys.argv[1:]):
    train(state)
    torch.cuda.synchronize()
    dump, until = b"", time.monotonic() + 60.0
    while time.monotonic() < until:  # the watchdog notes what is done a moment later
        dump = torch._C._distributed_c10d._dump_nccl_trace()
        if all(entry["retired"] for entry in pickle.loads(dump)["entries"]):
            break
        time.sleep(0.1)
    print(json.dumps(base64.b64encode(dump).decode()), flush=True)
    sys.stdin.readline()
