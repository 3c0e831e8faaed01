"""Output of other tools: which of its lines tell, and of what, under the statements and in no verdict."""

from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from shared.answer.words import Verdict

SMI = """==============NVSMI LOG==============
GPU 00000000:1B:00.0
        DRAM Uncorrectable            : 0
        Pending                       : No
        HW Slowdown                   : Not Active
    GPU Recovery Action               : None
GPU 00000000:43:00.0
        DRAM Uncorrectable            : 3
        Remapping Failure Occurred    : Yes
        HW Thermal Slowdown           : Active
    GPU Recovery Action               : Reset
"""
PORTS = "CA 'mlx5_0'\n\tCA type: MT4129\n\t\tState: Active\n\t\tPhysical state: LinkUp\nCA 'mlx5_3'\n\t\tState: Down\n"
VERBS = "hca_id:\tmlx5_0\n\ttransport:\tInfiniBand (0)\n\t\tstate:\tPORT_ACTIVE (4)\n\t\tstate:\tPORT_DOWN (1)\n"
JOBS = "JobID     JobName  State ExitCode\n4242      train  COMPLETED  0:0\n4242.0    train  OUT_OF_ME+  0:125\n"
NODES = """NodeName=node07 Arch=x86_64 CoresPerSocket=48
   State=DOWN*+DRAIN ThreadsPerCore=2
   Reason=Not responding [slurm@2026-11-21T09:10:11]
NodeName=node08 Arch=x86_64 CoresPerSocket=48
   State=MIXED ThreadsPerCore=2
"""
PARTS = (
    "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu  up  inf  2  down*  node07\ngpu  up  inf  9  alloc  a1\n"
)
EACH = "NODELIST NODES PARTITION STATE\nnode07  1  gpu  down*  12\nnode08  1  gpu  down*  12\nnode09  1  gpu  idle  9\n"
WHY = "REASON            USER   TIMESTAMP            NODELIST\nNot responding    slurm  2026-11-21T09:10:11  node07\n"
LISTED = """$ ps aux | grep train
root  4242  9.0  0.0  4508  1536 pts/0  Ds+  Sep24  0:12 python train.py
root  4243  9.0  0.0  4508  1536 ?      Ssl  Sep24  0:12 python train.py --mode D
"""
ASLEEP = "    PID USER     S WCHAN                  COMMAND\n   4242 root     D rpc_wait_bit_killable  python\n"
DIAG = "Successfully ran diagnostic for group.\n| PCIe  | Pass - All  |\n| GPU Memory | Fail - GPU: 3 |\n"
POD = """Name:             train-2
Namespace:        ml
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
  Normal   Pulled     2m     kubelet  Container image already present
"""
LEAVING = "Name:         train-2\nNamespace:    ml\nStatus:       Terminating (lasts 9d)\nIP:           10.1.2.3\n"
PODS = "NAME  READY   STATUS    RESTARTS   AGE\ntrain-0  0/1  CrashLoopBackOff  8  2m\ntrain-1  1/1  Running  0  2m\n"
INSPECTED = "".join(
    f'{{"header":{{"id":"0x7f8c","rank":{rank},"n_ranks":3,"nnodes":1}},"metadata":{{"pid":4{rank}}},'
    f'"coll_perf":{{"coll":"AllReduce","coll_sn":{number},"coll_msg_size_bytes":64}}}}\n'
    for number in (6, 7)
    for rank in range(3)
    if (rank, number) != (1, 7)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            SMI,
            [
                "00000000:43:00.0, by nvidia-smi: DRAM Uncorrectable            : 3",
                "00000000:43:00.0, by nvidia-smi: Remapping Failure Occurred    : Yes",
                "00000000:43:00.0, by nvidia-smi: HW Thermal Slowdown           : Active",
                "00000000:43:00.0, by nvidia-smi: GPU Recovery Action               : Reset",
            ],
        ),
        (PORTS, ["mlx5_3, by ibstat: State: Down"]),
        (VERBS, ["mlx5_0, by ibv_devinfo: state:\tPORT_DOWN (1)"]),
        (JOBS, ["sacct: 4242.0    train  OUT_OF_ME+  0:125"]),
        (
            NODES,
            [
                "node07, by scontrol: State=DOWN*+DRAIN ThreadsPerCore=2",
                "node07, by scontrol: Reason=Not responding [slurm@2026-11-21T09:10:11]",
            ],
        ),
        (PARTS, ["sinfo: gpu  up  inf  2  down*  node07"]),
        (EACH, ["node07-8, by sinfo: node07  1  gpu  down*  12"]),
        (WHY, ["node07, by sinfo: Not responding    slurm  2026-11-21T09:10:11  node07"]),
        (LISTED, ["ps: root  4242  9.0  0.0  4508  1536 pts/0  Ds+  Sep24  0:12 python train.py"]),
        (ASLEEP, ["ps: 4242 root     D rpc_wait_bit_killable  python"]),
        (DIAG, ["dcgmi: | GPU Memory | Fail - GPU: 3 |"]),
        (POD, ["train-2, by kubectl: Reason:       OOMKilled", "train-2, by kubectl: Exit Code:    137"]),
        (LEAVING, ["train-2, by kubectl: Status:       Terminating (lasts 9d)"]),
        (PODS.partition("\n")[2], ["kubectl: train-0  0/1  CrashLoopBackOff  8  2m"]),
        (PODS, ["kubectl: train-0  0/1  CrashLoopBackOff  8  2m"]),
        (
            INSPECTED,
            ["group rank 0,2 ran all_reduce #7 of group 0x7f8c", "group rank 1 ran all_reduce #6 of group 0x7f8c"],
        ),
    ],
)
def test_what_a_tool_shows(text: str, says: list[str], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(text)
    answer = diagnose_directory(tmp_path).diagnosis
    assert [each.text for each in answer.statements] == says
    assert answer.verdict is Verdict.CANNOT_TELL
    (read,) = answer.read
    assert read.note == "what another tool shows stands under What is known, and no verdict rests on it"


def test_a_rank_whose_job_printed_a_tools_table_first_still_has_a_last_word(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15 |\n[rank1]: step 7\nbye\n")
    texts = [each.text for each in diagnose_directory(tmp_path).diagnosis.statements]
    assert texts == ["rank 1 last wrote: [rank1]: step 7", "nothing is known of rank 0"]
