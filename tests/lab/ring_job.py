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

sizes = list(map(int, sys.argv[1:]))
dist.init_process_group("nccl", rank=0, world_size=1)
tensor = torch.empty(4, device="cuda")
issued = 0
for size in sizes:
    while issued < size:
        dist.all_reduce(tensor)
        issued += 1
    torch.cuda.synchronize()
    dump, until = b"", time.monotonic() + 60.0
    while time.monotonic() < until:  # the watchdog notes what is done a moment later
        dump = torch._C._distributed_c10d._dump_nccl_trace(includeStackTraces=False)
        if all(entry["retired"] for entry in pickle.loads(dump)["entries"]):
            break
        time.sleep(0.1)
    print(json.dumps(base64.b64encode(dump).decode()), flush=True)
    sys.stdin.readline()
