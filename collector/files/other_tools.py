"""What other tools print, and people keep beside the files of a job: it is not read, and that is said."""

import re

_LOOKED_AT = 8192

_TOOLS: tuple[tuple[str, re.Pattern[str]], ...] = (
    # | NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |        GPU 0: NVIDIA H100 (UUID: GPU-…)
    # index, name, utilization.gpu [%], memory.used [MiB]               # gpu    pwr  gtemp  mtemp     sm    mem
    (
        "nvidia-smi",
        re.compile(
            r"NVIDIA-SMI \d|^GPU \d+: .{1,80} \(UUID: GPU-|^=+NVSMI LOG=+|^# gpu\s+(?:pwr|pid|sm)\s"
            r"|\A(?:index|name|timestamp|uuid|gpu_\w+|pci\.\w+), "
            r".{0,1000}(?: \[(?:%|MiB|W|MHz)\]|\b(?:ecc|pci|clocks)\.\w)",
            re.MULTILINE,
        ),
    ),
    # ============ ROCm System Management Interface ============
    ("rocm-smi", re.compile(r"ROCm System Management Interface")),
    # CA 'mlx5_0'                                                       above CA type: MT4129, State: Down
    ("ibstat", re.compile(r"^CA '\w{1,40}'\s*\n\s+CA type:", re.MULTILINE)),
    # hca_id: mlx5_0                                                    above transport: InfiniBand (0)
    ("ibv_devinfo", re.compile(r"^hca_id:\s+\w{1,40}\s*\n\s+transport:", re.MULTILINE)),
    # JobID|JobName|State|ExitCode        JobID           JobName  Partition    Account  AllocCPUS      State ExitCode
    ("sacct", re.compile(r"^\s*JobID(?:Raw)?(?:\||\s+)JobName(?:\||\s)", re.MULTILINE)),
    #              JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
    ("squeue", re.compile(r"^\s*JOBID\s+PARTITION\s+NAME\s", re.MULTILINE)),
    # NodeName=node07 Arch=x86_64 CoresPerSocket=48        JobId=4242 JobName=train
    ("scontrol", re.compile(r"^(?:NodeName=\S+ Arch=|JobId=\d+ (?:ArrayJobId|JobName)=)", re.MULTILINE)),
    # PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
    ("sinfo", re.compile(r"^PARTITION\s+AVAIL\s+TIMELIMIT\s", re.MULTILINE)),
    # | Diagnostic                | Result        |        Successfully ran diagnostic for group.
    ("dcgmi", re.compile(r"^\| Diagnostic +\| Result|^Successfully ran diagnostic for group|^#Entity ", re.MULTILINE)),
    # NAME            READY   STATUS    RESTARTS   AGE        NAMESPACE   NAME  READY   STATUS        LAST SEEN   TYPE
    (
        "kubectl",
        re.compile(
            r"^(?:NAMESPACE\s+)?NAME\s+(?:READY\s+)?STATUS\s|^LAST SEEN\s+TYPE\s+REASON\s"
            r"|^Name: +\S+\n(?:Namespace|Roles): ",
            re.MULTILINE,
        ),
    ),
    # top - 06:24:42 up 12 min,  0 user,  load average: 27.06, 14.12, 5.90
    ("top", re.compile(r"^top - \d\d:\d\d:\d\d up ", re.MULTILINE)),
    #         GPU0    GPU1    NIC0    CPU Affinity                      nvidia-smi topo -m
    ("nvidia-smi topo", re.compile(r"^\s+GPU0\s.{0,2000}CPU Affinity", re.MULTILINE)),
    # # out-of-place                       in-place                     nccl-tests
    ("nccl-tests", re.compile(r"^# nThread \d+ nGpus \d+ minBytes ", re.MULTILINE)),
)
"""Each with what it begins with."""


def tool_of(data: bytes) -> str | None:
    """Return which tool printed a text; None where it is of none of these."""
    head = data[:_LOOKED_AT].decode("utf-8", "replace").replace("\r\n", "\n")
    return next((tool for tool, begins in _TOOLS if begins.search(head)), None)
