"""Without a flight record: NCCL's RAS, here a stand-in that speaks its protocol, tells what each rank has launched."""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import rig
import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).resolve().parents[3]))
from tests.system.ras.reports import Comm, Member, json_report, text_report
from tests.system.ras.server import serve

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["user_code"], "where": "fetch_batch"}

AHEAD = 20
FOLDER = Path(os.environ.get("LAB_FOLDER", tempfile.gettempdir()))


def fetch_batch() -> None:
    """Stand for any user code that waits for something that does not come."""
    time.sleep(rig.NEVER)


def answer(place: rig.Place) -> None:
    """Be the RAS thread of the job: report what all ranks have written down."""
    (mapped,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libnccl" in line}
    version = mapped.rpartition(".so.")[2]
    port = int(os.environ["NCCL_RAS_ADDR"].rpartition(":")[2])
    plan = {"address": "127.0.0.1", "port": port, "mode": "well", "library": mapped, "version": version}

    def report() -> None:
        told = [(FOLDER / f"launched-{rank}").read_text().split() for rank in range(place.world_size)]
        members = (Member(rank, pid=int(pid), counts={"AllReduce": int(n)}) for rank, (pid, n) in enumerate(told))
        whole = [Comm(tuple(members))]
        plan["text"] = text_report(whole, version=version).decode()
        plan["json"] = json_report(whole, version=version).decode()

    report()
    threading.Thread(target=serve, args=(plan,), daemon=True).start()
    while True:
        report()
        time.sleep(0.2)


def main() -> None:
    """Train; look at the loss only every twenty steps."""
    place = rig.start()
    gradients, launched, file = torch.ones(16), 0, FOLDER / f"launched-{place.rank}"
    for at_fault in rig.steps(place):
        for step in range(AHEAD):
            if at_fault and place.is_faulty and step == 7:
                fetch_batch()
            dist.all_reduce(gradients, async_op=True)
            launched += 1
            file.with_suffix(".new").write_text(f"{os.getpid()} {launched}")
            file.with_suffix(".new").replace(file)
        rig.end_step()
        if launched == AHEAD and place.rank == 0:
            threading.Thread(target=answer, args=(place,), daemon=True).start()


if __name__ == "__main__":
    main()
