"""One rank of a job that is to be read back: collectives with Gloo and with NCCL, the last of which never complete.

It prints what PyTorch itself tells of them, and waits to be killed. `check.py` starts it, with the PyTorch in question.
"""

import base64
import json
import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_device = torch.version.cuda is not None
distributed = torch._C._distributed_c10d
if on_device:
    torch.cuda.set_device(rank)
dist.init_process_group("nccl" if on_device else "gloo")
gloo = dist.new_group(list(range(size)), backend="gloo")
for length in (3, 5):
    dist.all_reduce(torch.ones(length, 2), group=gloo)
if on_device:
    pair = dist.new_group([size - 1, 0] if size > 1 else [0])
    for length in (4, 6):
        dist.all_reduce(torch.empty(length, dtype=torch.bfloat16, device="cuda"))
    dist.all_reduce(torch.empty(8, device="cuda"), group=pair)
    time.sleep(3)
    torch.cuda._sleep(1 << 62)  # what is issued behind it never starts
    dist.all_reduce(torch.empty(7, 2, device="cuda"), async_op=True)
    dist.all_gather([torch.empty(2, device="cuda") for _ in range(size)], torch.empty(2, device="cuda"), async_op=True)
    dist.isend(torch.empty(9, dtype=torch.int64, device="cuda"), (rank + 1) % size)
time.sleep(1)  # threads of PyTorch note what is done
dumps = {}
for library, name in {"libtorch_cuda.so": "_dump_nccl_trace", "libtorch_cpu.so": "_dump_fr_trace"}.items():
    if hasattr(distributed, name) and (on_device or "cuda" not in library):
        dumps[library] = base64.b64encode(getattr(distributed, name)()).decode()
if hasattr(distributed, "_reset_fr_trace"):  # 2.15: backends may have recorders of their own
    for backend in ("nccl", "nccl2"):
        dumps[backend] = base64.b64encode(distributed._dump_fr_trace(backend=backend)).decode()


def group(device: str, one: Any) -> dict[str, Any]:
    """Return what of a process group can be told apart."""
    # ProcessGroupGloo, ProcessGroupNCCL, ProcessGroupNCCL2
    kind = type(one._get_backend(torch.device(device))).__name__.removeprefix("ProcessGroup").lower()
    return {
        "kind": kind,
        "rank": dist.get_rank(one),
        "size": dist.get_world_size(one),
        "uid": one.group_name,
        "ranks": dist.get_process_group_ranks(one),
        "sequence": one._get_sequence_number_for_group(),
    }


groups = [group("cpu", gloo)] + ([group("cuda", dist.group.WORLD), group("cuda", pair)] if on_device else [])
print(json.dumps({"dumps": dumps, "groups": groups}), flush=True)
sys.stdin.read()
os._exit(0)
