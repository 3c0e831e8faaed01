"""What a rank was started with: the settings, versions and surroundings that decide whether ranks find each other."""

from pydantic import Field

from shared.value import Value

OWN_VARIABLES = frozenset("RANK LOCAL_RANK GROUP_RANK SLURM_PROCID SLURM_LOCALID SLURM_NODEID HOSTNAME".split())
"""Variables that differ from rank to rank as they should; a rank's identity tells the same."""


class Versions(Value):
    """Versions that should agree across a job. None: it could not be read, or is not loaded."""

    torch: str | None = None
    cuda: str | None = Field(default=None, description="What PyTorch was built for.")
    nccl: str | None = None
    python: str | None = None
    driver: str | None = Field(default=None, description="The NVIDIA kernel driver of the node.")


class Listener(Value):
    """Who listens on a port."""

    address: str
    pid: int | None = Field(default=None, description="None: the owner of the socket could not be determined.")
    name: str = Field(default="", description="The kernel's short name of that process.")
    of_job: bool = Field(default=False, description="Is it a rank, or one that started ranks, on this node?")


class Setup(Value):
    """What one rank was started with. Values are of an allow-list of names, secrets taken out, and cut."""

    variables: dict[str, str] = Field(default_factory=dict, description="Environment variables that are set.")
    launcher: str = Field(default="", description="Command line of what started it, such as torchrun; redacted.")
    versions: Versions = Versions()
    nccl_loaded: bool | None = Field(default=None, description="None: PyTorch is not loaded, or that is not known.")
    interfaces: tuple[str, ...] = Field(default=(), description="Network interfaces that the rank sees.")
    hcas: tuple[str, ...] = Field(default=(), description="RDMA devices of the node.")
    gpus: int | None = Field(default=None, description="GPUs of the node by its driver; None: there is no driver.")
    cpus: int | None = Field(default=None, description="CPUs that the rank may run on.")
    hosts: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="What the rank's /etc/hosts says of MASTER_ADDR and of its own host's name."
    )
    listener: Listener | None = Field(
        default=None, description="Who listens on MASTER_PORT; asked of rank 0's node only. None: nobody, or not asked."
    )
