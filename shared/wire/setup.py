"""What a rank was started with: settings, versions and environment that decide whether ranks find each other."""

from pydantic import Field

from shared.value import Value

OWN_VARIABLES = frozenset("RANK LOCAL_RANK GROUP_RANK SLURM_PROCID SLURM_LOCALID SLURM_NODEID HOSTNAME".split())
"""Variables that are supposed to differ from rank to rank; a rank's identity holds the same."""


class Versions(Value):
    """Versions that should agree across a job. None: could not be read, or not loaded."""

    torch: str | None = None
    cuda: str | None = Field(default=None, description="The version that PyTorch was built for.")
    nccl: str | None = None
    python: str | None = None
    driver: str | None = Field(default=None, description="The NVIDIA kernel driver of the node.")


class Listener(Value):
    """The process that listens on a port."""

    address: str
    pid: int | None = Field(default=None, description="None: the owner of the socket could not be determined.")
    name: str = Field(default="", description="The kernel's short name of that process.")
    of_job: bool = Field(default=False, description="Is it a rank on this node, or did it start one?")


class Setup(Value):
    """What one rank was started with. Only variables on an allow-list; values are redacted and cut."""

    variables: dict[str, str] = Field(default_factory=dict, description="Environment variables.")
    launcher: str = Field(default="", description="Command line of its launcher, e.g. torchrun; redacted.")
    versions: Versions = Versions()
    nccl_loaded: bool | None = Field(
        default=None, description="None: PyTorch is not loaded, or it is not known whether NCCL is."
    )
    interfaces: tuple[str, ...] = Field(default=(), description="Network interfaces that the rank sees.")
    hcas: tuple[str, ...] = Field(default=(), description="RDMA devices of the node.")
    gpus: int | None = Field(default=None, description="GPUs of the node, according to its driver; None: no driver.")
    cpus: int | None = Field(default=None, description="CPUs that the rank may run on.")
    hosts: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Addresses in the rank's /etc/hosts of MASTER_ADDR and of its own host name."
    )
    listener: Listener | None = Field(
        default=None,
        description="The process that listens on MASTER_PORT, on rank 0's node only. None: none does, or not known.",
    )


def is_yes(value: str | None) -> bool:
    """Does PyTorch take a variable's value for yes? See getCvarBool in torch/csrc/distributed/c10d/Utils.hpp."""
    return (value or "").lower() in ("1", "y", "yes", "t", "true")
