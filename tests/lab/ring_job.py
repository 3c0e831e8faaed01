"""One rank of its own, whose flight record is empty, part-filled, full, and wrapped: it prints its own dump each time.

`rings.py` starts it with the PyTorch in question and asks for the next state by a line.
"""

import base64
import json
import sys

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
    dump = torch._C._distributed_c10d._dump_nccl_trace(includeStackTraces=False)
    print(json.dumps(base64.b64encode(dump).decode()), flush=True)
    sys.stdin.readline()
