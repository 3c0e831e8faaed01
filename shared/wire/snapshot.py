"""What an agent answers: one node at one moment, each source either seen or `Missing` with a reason."""

from typing import Literal

from pydantic import Field

from shared import SCHEMA_VERSION, VERSION
from shared.missing import Missing, Reason
from shared.value import Value
from shared.wire.gpus import Gpus
from shared.wire.kernel_events import KernelEvents
from shared.wire.log_events import Logs
from shared.wire.ras import RasLook
from shared.wire.setup import Setup
from shared.wire.stacks import Stacks
from shared.wire.trace import Trace

ProcessState = Literal["R", "S", "D", "T", "t", "Z", "X", "I"]
"""State letters of /proc/PID/stat, proc(5): R running, S sleeping, D uninterruptible, T stopped, t traced, Z zombie."""


_USER = r"^[A-Za-z0-9._-]{1,32}$"
"""Users stand in names of jobs, in commands to copy, too."""


class Identity(Value):
    """Which rank of which job a process is. (host, pid, started_at) is unique; a pid alone may be reused."""

    job: str | None = Field(default=None, description="The job's name; None where a file does not say.")
    rank: int = Field(description="The global rank.")
    local_rank: int | None = None
    group_rank: int | None = Field(default=None, description="The node's index in the job, by torchelastic's name.")
    world_size: int | None = None
    local_world_size: int | None = None
    attempt: int = Field(default=0, description="Restart count of the launcher; attempts are never mixed.")
    launcher: str | None = Field(default=None, description="torchrun, slurm, openmpi, pmi, env, …")
    host: str | None = None
    pid: int | None = None
    started_at: float | None = Field(default=None, description="Start of the process, Unix seconds.")
    gpu: str | None = Field(default=None, description="Device index or UUID where known.")
    pod_uid: str | None = Field(default=None, description="The pod of Kubernetes that it runs in.")
    container_id: str | None = Field(default=None, description="The container within it, 64 hexadecimal digits.")
    container_pid: int | None = Field(default=None, description="Its process id as seen within the container.")
    user: str | None = Field(
        default=None,
        pattern=_USER,
        description="Its owner: a user id of the node, as `1001`, or `c1001` of a container to which root gave user "
        "ids of its own. Ranks of several users are never one job. None: older agents and files do not say.",
    )


class Beat(Value):
    """Cheap counters of progress at one moment; two beats tell whether a process moved in between.

    Taken just before and just after a look's stacks, so that our own pause never counts as progress:
    compare one look's `after` with the next look's `before`.
    """

    at_ns: int = Field(description="Unix nanoseconds on the node.")
    cpu_seconds: float = Field(description="User and system time of all threads.")
    main_cpu_seconds: float | None = Field(default=None, description="The same of the main thread alone.")
    main_switches: int | None = Field(default=None, description="The main thread's voluntary context switches.")
    io_bytes: int | None = Field(default=None, description="Bytes read and written by system calls (rchar + wchar).")
    log_bytes: int | None = Field(default=None, description="Total size of its log files.")
    children_cpu_seconds: float | None = Field(
        default=None, description="User and system time of all that it started, down the tree, living or ended."
    )


class Syscall(Value):
    """The system call the main thread is in."""

    name: str = Field(description="Its name, e.g. `read`, `futex`, or `running` where it is in none.")
    fd: int | None = Field(default=None, description="The file descriptor it concerns, where it takes one.")
    target: str | None = Field(default=None, description="What that descriptor is: path, `pipe:[…]`, `socket:[…]` …")
    file_system: str | None = None


class BlockedThread(Value):
    """A thread in uninterruptible sleep that is not the main thread."""

    tid: int
    name: str = ""
    wchan: str | None = None
    syscall: str | None = Field(default=None, description="The name of the system call it is in.")
    kernel_stack: tuple[str, ...] = ()


class Holder(Value):
    """A process that holds what another waits for."""

    pid: int
    name: str = ""


class Process(Value):
    """/proc facts of one process. Times in seconds, sizes in bytes."""

    pid: int
    parent_pid: int | None = None
    state: ProcessState
    name: str = Field(default="", description="The kernel's short name (comm).")
    command: str = Field(default="", description="Command line, secrets redacted, cut to 500 characters.")
    wchan: str | None = Field(default=None, description="Kernel function the main thread sleeps in.")
    syscall: Syscall | None = None
    kernel_stack: tuple[str, ...] = ()
    threads: int | None = None
    uid: int | None = None
    rss_bytes: int | None = None
    started_at: float | None = None
    tracer_pid: int | None = Field(default=None, description="A debugger or strace attached to it, if any.")
    oom_kills: int | None = Field(default=None, description="OOM kills counted in its cgroup.")
    untraceable: str | None = Field(default=None, description="Why its stacks cannot be read; None where they can.")
    blocked_threads: tuple[BlockedThread, ...] = ()
    group_threads: dict[str, int] = Field(
        default_factory=dict, description="Threads by name, of those names of which each process group has one."
    )
    lock_holders: tuple[Holder, ...] = Field(default=(), description="Who holds the file lock that it waits for.")
    before: Beat | None = None
    after: Beat | None = None


class Child(Value):
    """A child process of a rank, such as a DataLoader worker, and its stacks."""

    process: Process
    stacks: Stacks | Missing


class Socket(Value):
    """One socket of a process. Addresses as `host:port`; state in the kernel's words (ESTABLISHED, SYN_SENT …)."""

    fd: int
    kind: str
    local: str = ""
    remote: str = ""
    state: str = ""
    to_store: bool = Field(default=False, description="Does it lead to MASTER_ADDR:MASTER_PORT?")
    unsent_bytes: int = Field(default=0, description="Given to the kernel and not acknowledged by the other side.")
    unread_bytes: int = Field(default=0, description="Arrived and not read; connections waiting, where it listens.")
    retransmits: int = Field(default=0, description="Times that the oldest unsent data, or a SYN, was sent again.")
    other_end: tuple[Holder, ...] = Field(default=(), description="Who holds the other end on this machine.")


class Pipe(Value):
    """One end of a pipe or FIFO and who holds the other."""

    fd: int
    direction: Literal["read", "write", "both"]
    path: str | None = Field(default=None, description="The FIFO's path, None for an anonymous pipe.")
    other_end: tuple[int, ...] = Field(default=(), description="Pids that hold the other direction.")
    other_names: tuple[str, ...] = Field(default=(), description="Their names, in the same order.")


class MountUse(Value):
    """A file system that a process has files or its working directory on."""

    point: str
    file_system: str
    source: str = Field(default="", description="What is mounted, e.g. `nas1:/export`, secrets redacted.")
    remote: bool = Field(default=False, description="May it wait for another machine?")
    files: int = 0
    working_directory: bool = False


class NotableFile(Value):
    """An open file that may matter: a lock that it holds, or one that was deleted."""

    fd: int
    path: str
    locked: bool = False
    deleted: bool = False


class Fds(Value):
    """Open file descriptors of one process, summarised; `full` lists them where asked for."""

    total: int
    limit: int | None = None
    by_kind: dict[str, int] = Field(default_factory=dict)
    sockets: tuple[Socket, ...] = ()
    pipes: tuple[Pipe, ...] = ()
    devices: tuple[str, ...] = ()
    files_by_file_system: dict[str, int] = Field(default_factory=dict)
    files: dict[int, str] = Field(
        default_factory=dict, description="fd to path of its plain files, at most the first 64; secrets redacted."
    )
    mounts: tuple[MountUse, ...] = ()
    notable_files: tuple[NotableFile, ...] = ()
    full: dict[int, str] | None = Field(default=None, description="fd to target, only with `?full=1`.")


class PolledLock(Value):
    """A lock file for which a rank asks again and again, and who has it open."""

    path: str | None = Field(default=None, description="Secrets redacted; None: its frames do not show it.")
    file_system: str | None = None
    remote: bool = Field(default=False, description="May a process of another machine hold it?")
    held_since: float | None = Field(
        default=None, description="When the file was last written, Unix seconds; of local file systems alone."
    )
    holders: tuple[Holder, ...] = Field(default=(), description="Who holds it on this machine, as far as is visible.")
    abandoned: bool = Field(
        default=False,
        description="The lock exists by its file alone, only processes of this machine can have made it, and none of "
        "its owner's has it open: whoever made it is gone.",
    )


class RankSnapshot(Value):
    """Everything one look at one rank gave."""

    identity: Identity
    looked_at_ns: int | None = Field(default=None, description="Unix nanoseconds on the node; None for bare files.")
    recorded_at_ns: int | None = Field(
        default=None, description="When the file of its flight record was written, Unix nanoseconds; bare files only."
    )
    process: Process | Missing
    stacks: Stacks | Missing
    children: tuple[Child, ...] = ()
    polled_lock: PolledLock | None = Field(
        default=None, description="The lock file that its main thread polls; None: it polls none, or nobody asked."
    )
    fds: Fds | Missing
    logs: Logs | Missing
    recorder: Trace | Missing
    setup: Setup | Missing = Missing(
        source="setup", reason=Reason.NOT_FOUND, detail="whoever looked is older than this, or read bare files"
    )
    idle_for_seconds: float | None = Field(
        default=None, description="How long the agent has watched it without progress; None when it did not watch."
    )


class Exited(Value):
    """A process that is no longer running: a zombie beside the ranks, or a rank the agent knew earlier."""

    pid: int
    identity: Identity | None = Field(default=None, description="Which rank it was, where the agent saw it alive.")
    parent_pid: int | None = None
    name: str = ""
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None
    sibling_jobs: tuple[str, ...] = Field(default=(), description="Jobs of the living ranks with the same parent.")
    sibling_user: str | None = Field(
        default=None, pattern=_USER, description="Whose those ranks are, as in `Identity.user`."
    )


class NodeSnapshot(Value):
    """One node at one moment."""

    schema_version: int = SCHEMA_VERSION
    agent_version: str = VERSION
    host: str | None = Field(default=None, description="The node's name; None for bare dump files.")
    taken_at_ns: int | None = Field(default=None, description="Unix nanoseconds by the node's clock when begun.")
    live: bool = Field(default=True, description="Taken from running processes (True), or read from files (False).")
    whole: bool = Field(default=True, description="Every rank of the job on this node was asked for, not a few pids.")
    took_seconds: float = 0.0
    ranks: tuple[RankSnapshot, ...] = ()
    exited: tuple[Exited, ...] = ()
    missing: tuple[Missing, ...] = Field(default=(), description="What the node as a whole could not give.")
    kernel_events: KernelEvents | Missing | None = Field(default=None, description="None: nobody asked for them.")
    gpus: Gpus | Missing | None = Field(default=None, description="None: nobody asked for them.")
    ras: RasLook | None = Field(
        default=None, description="What NCCL RAS reports of the jobs here; None: no rank has it, or it was not asked."
    )
    logs: Logs | None = Field(
        default=None, description="Log files that belong to no one rank, such as a job's common output; files only."
    )


class RankList(Value):
    """Answer of `GET /v1/ranks`: who is on this node, without looking at them."""

    host: str
    ranks: tuple[Identity, ...] = ()
    exited: tuple[Exited, ...] = ()
    missing: tuple[Missing, ...] = ()
