"""What an agent answers: one node at one moment, each source either read or `Missing` with a reason."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from shared import SCHEMA_VERSION, VERSION
from shared.missing import Missing, Reason
from shared.value import Value
from shared.wire.devices import Gpus, Ports
from shared.wire.fds import Fds as Fds
from shared.wire.fds import Holder as Holder
from shared.wire.fds import MountUse as MountUse
from shared.wire.fds import NotableFile as NotableFile
from shared.wire.fds import OtherEnd as OtherEnd
from shared.wire.fds import Pipe as Pipe
from shared.wire.fds import Socket as Socket
from shared.wire.kernel_events import KernelEvents
from shared.wire.log_events import LogEvent, LogFile, Logs
from shared.wire.ras import RasLook
from shared.wire.setup import Setup
from shared.wire.stacks import Awaited, ServedKey, Stacks
from shared.wire.trace import Marks, Trace

ProcessState = Literal["R", "S", "D", "T", "t", "Z", "X", "I"]
"""State letters of /proc/PID/stat, proc(5): R running, S sleeping, D uninterruptible, T stopped, t traced, Z zombie."""


_USER = r"^[A-Za-z0-9._-]{1,80}$"
"""Users appear in job names, and so in commands to copy."""


class Identity(Value):
    """Which rank of which job a process is. (host, pid, started_at) is unique; a pid alone may be reused."""

    job: str | None = Field(default=None, description="The job's name; None if a file does not give it.")
    rank: int = Field(description="The global rank.")
    local_rank: int | None = None
    group_rank: int | None = Field(default=None, description="The node's index in the job; torchelastic's term.")
    world_size: int | None = None
    local_world_size: int | None = None
    attempt: int = Field(default=0, description="Restart count of the launcher; attempts are never mixed.")
    launcher: str | None = Field(default=None, description="torchrun, slurm, openmpi, pmi, env, …")
    host: str | None = None
    pid: int | None = None
    started_at: float | None = Field(default=None, description="Start of the process, Unix seconds.")
    gpu: str | None = Field(default=None, description="Device index or UUID, if known.")
    pod_uid: str | None = Field(default=None, description="The Kubernetes pod that it runs in.")
    container_id: str | None = Field(default=None, description="The container within it, 64 hexadecimal digits.")
    container_pid: int | None = Field(default=None, description="Its pid inside the container.")
    user: str | None = Field(
        default=None,
        pattern=_USER,
        description="Its owner: a user id on the node, e.g. `1001`, or `c1001` inside a container that has its own "
        "range of user ids, after the namespace of a pod of Kubernetes: `team-a.1001`. Ranks of different users never "
        "belong to one job. None: older agents and files do not say.",
    )
    owner: str | None = Field(
        default=None, max_length=64, description="The name of `user` on its node, where it has one; a pod's namespace."
    )


class Beat(Value):
    """Cheap progress counters at one moment; two of them show whether a process made progress in between.

    Taken just before and just after the stacks are read, so that our own pause never counts as progress:
    compare one look's `after` with the next look's `before`.
    """

    at_ns: int = Field(description="Unix nanoseconds on the node.")
    cpu_seconds: float = Field(description="User and system time of all threads but those that spin while they wait.")
    main_cpu_seconds: float | None = Field(default=None, description="The same for the main thread only.")
    main_switches: int | None = Field(default=None, description="The main thread's voluntary context switches.")
    io_bytes: int | None = Field(default=None, description="Bytes read and written by system calls (rchar + wchar).")
    log_bytes: int | None = Field(default=None, description="Total size of its log files.")
    children_cpu_seconds: float | None = Field(
        default=None, description="User and system time of all its descendants, running or exited."
    )


class Syscall(Value):
    """The system call the main thread is in."""

    name: str = Field(description="Its name, e.g. `read`, `futex`; `running` if it is in none.")
    fd: int | None = Field(default=None, description="The file descriptor it uses, if any.")
    target: str | None = Field(
        default=None, description="What that descriptor refers to: path, `pipe:[…]`, `socket:[…]` …"
    )
    file_system: str | None = None
    fds: tuple[int, ...] = Field(default=(), description="Where it waits for any of several descriptors: which.")
    child: int | None = Field(default=None, description="The process for whose end it waits, where it names one.")
    ends_in_seconds: float | None = Field(
        default=None,
        ge=0,
        description="For how much longer it sleeps at most, by its own argument; None: it waits for more than time, or "
        "that could not be read.",
    )


class BlockedThread(Value):
    """A thread in uninterruptible sleep that is not the main thread."""

    tid: int
    name: str = ""
    wchan: str | None = None
    syscall: str | None = Field(default=None, description="The name of the system call it is in.")
    kernel_stack: tuple[str, ...] = ()


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
    memory_cgroup: str | None = Field(default=None, description="Its memory cgroup, from the root, where that is seen.")
    frozen_by: str | None = Field(default=None, description="The file that thaws its cgroup, while that is frozen.")
    untraceable: str | None = Field(default=None, description="Why its stacks cannot be read; None where they can.")
    blocked_threads: tuple[BlockedThread, ...] = ()
    group_threads: dict[str, int] = Field(
        default_factory=dict, description="Number of threads by name, for names of which each process group has one."
    )
    lock_holders: tuple[Holder, ...] = Field(
        default=(), description="Processes that hold the file lock that it waits for."
    )
    awaits: tuple[OtherEnd, ...] = Field(
        default=(), description="What its main thread waits for beyond its own memory: any of these will do."
    )
    before: Beat | None = None
    after: Beat | None = None


class Child(Value):
    """A child process of a rank, such as a DataLoader worker, or another one that matters to it, and its stacks."""

    process: Process
    stacks: Stacks | Missing
    identity: Identity | None = Field(
        default=None, description="The rank that it is, or works for, where that is of another job."
    )


class PolledLock(Value):
    """A lock for which a rank asks again and again or is blocked, or one on a file of its own; and who has it."""

    path: str | None = Field(default=None, description="Secrets redacted; None: its frames do not show it.")
    on_open_file: bool = Field(
        default=False,
        description="The rank has the file open and others have locked it; whether it waits for them, its stack and "
        "its system call tell.",
    )
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


class Requests(Value):
    """What clients have asked servers of a job and got no answer to yet, by whose turn it is in their connections."""

    unanswered: int
    oldest_seconds: float | None = Field(default=None, description="How long the longest of them has waited.")
    held_by: tuple[int, ...] = Field(default=(), description="Pids of the processes that they were sent to.")
    unaccepted: int = Field(default=0, description="Further connections that the kernel has, and no server has taken.")
    servers: tuple[int, ...] = Field(
        default=(), description="Pids of the server's processes, that which started the rank first; the ranks are none."
    )


class RankSnapshot(Value):
    """Everything that one look at one rank found."""

    identity: Identity
    looked_at_ns: int | None = Field(default=None, description="Unix nanoseconds on the node; None for bare files.")
    recorded_at_ns: int | None = Field(
        default=None, description="When the file was written that its flight record is from, Unix nanoseconds."
    )
    process: Process | Missing
    stacks: Stacks | Missing
    children: tuple[Child, ...] = ()
    beside: tuple[Child, ...] = Field(
        default=(),
        description="Processes that its parent started together with it, of the same program, and that are no ranks "
        "yet, while ranks of its job are lacking; of several ranks beside them, with the first.",
    )
    followed: tuple[Child, ...] = Field(
        default=(),
        description="Processes of its node, neither its own nor of its job, to which its wait leads: those that hold "
        "the other end of what it waits at, what these wait at in turn, and so on.",
    )
    above: tuple[Child, ...] = Field(
        default=(),
        description="Where clients send requests to a process that started ranks, as to an engine's API server: that, "
        "and what hands work on from there; with the first of the ranks.",
    )
    requests: Requests | None = Field(default=None, description="What `above` has not answered; None: no server.")
    polled_lock: PolledLock | None = Field(
        default=None, description="The lock that its main thread may wait for; None: there is none, or nobody asked."
    )
    awaited: tuple[Awaited, ...] | Missing = Field(
        default=(), description="What its threads wait for, as far as its Python's memory tells."
    )
    served: tuple[ServedKey, ...] = Field(
        default=(), description="Keys that are awaited in stores which its process serves, or its launcher."
    )
    fds: Fds | Missing
    logs: Logs | Missing
    recorder: Trace | Missing
    setup: Setup | Missing = Missing(
        source="setup", reason=Reason.NOT_FOUND, detail="not reported: an older agent, or bare files"
    )
    idle_for_seconds: float | None = Field(
        default=None, description="How long it has made no progress while the agent watched; None: not watched."
    )
    watched_for_seconds: float | None = Field(
        default=None, description="How long the agent has watched it at all; None when it did not watch."
    )
    marks: Marks | None = Field(
        default=None, description="How far it is and since when, by the agent's beats; None: not watched, or a survey."
    )


class Exited(Value):
    """A process that is no longer running: a zombie beside the ranks, or a rank that the agent saw earlier."""

    pid: int
    identity: Identity | None = Field(default=None, description="Which rank it was, if the agent saw it alive.")
    parent_pid: int | None = None
    name: str = ""
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None
    last_marks: Marks | None = Field(
        default=None, description="How far it was when the agent last read its memory; None: it never could."
    )
    gone_by_ns: int | None = Field(
        default=None,
        ge=0,
        lt=1 << 63,
        description="When the agent found that it had ended, Unix nanoseconds; it may have ended before.",
    )
    last_failure: LogEvent | None = Field(
        default=None, description="The last failure that it logged, where it exited with an error; None: not known."
    )
    last_logs: tuple[LogFile, ...] = Field(
        default=(),
        description="The last lines of its output, where it ended by a signal or with an error.",
    )
    sibling_jobs: tuple[str, ...] = Field(default=(), description="Jobs of running ranks with the same parent.")
    sibling_user: str | None = Field(
        default=None, pattern=_USER, description="Owner of those ranks, as in `Identity.user`."
    )


class StrayStacks(Value):
    """Stacks of a process whose rank nothing tells."""

    file: str = Field(description="The name of the file that holds them.")
    stacks: Stacks


class NodeSnapshot(Value):
    """One node at one moment."""

    schema_version: int = SCHEMA_VERSION
    agent_version: str = VERSION
    host: str | None = Field(default=None, description="The node's name; None for bare dump files.")
    taken_at_ns: int | None = Field(
        default=None, description="Unix nanoseconds on the node's clock when the look began."
    )
    live: bool = Field(default=True, description="True: taken from running processes; False: read from files.")
    whole: bool = Field(
        default=True, description="Whether every rank of the job on this node was requested, not only some pids."
    )
    took_seconds: float = 0.0
    ranks: tuple[RankSnapshot, ...] = ()
    exited: tuple[Exited, ...] = ()
    missing: tuple[Missing, ...] = Field(default=(), description="What could not be read for the node as a whole.")
    kernel_events: KernelEvents | Missing | None = Field(default=None, description="None: not requested.")
    gpus: Gpus | Missing | None = Field(default=None, description="None: not requested.")
    ports: Ports | Missing | None = Field(default=None, description="None: not requested, or an older agent.")
    ras: RasLook | None = Field(
        default=None,
        description="What NCCL RAS reports about the jobs here; None: no rank has it, or it was not asked.",
    )
    strays: tuple[StrayStacks, ...] = Field(
        default=(), description="Stacks of processes whose rank nothing tells; files only."
    )
    logs: Logs | None = Field(
        default=None, description="Log files shared by several ranks, such as a job's combined output; files only."
    )

    @property
    def tells_absence(self) -> bool:
        """Is a rank that it does not show not there? Not where only some were asked for, or the list came too late."""
        return self.whole and not lists_late(self.missing)


def lists_late(missing: Iterable[Missing]) -> bool:
    """Was there no time to list all processes of a node? Then nothing follows from who is not in the list."""
    return any(each.source == "ranks" and each.reason in _LATE for each in missing)


_LATE = frozenset({Reason.TIMED_OUT, Reason.REFUSED})


class RankList(Value):
    """Answer to `GET /v1/ranks`: the ranks on this node, without a look at them."""

    host: str
    ranks: tuple[Identity, ...] = ()
    exited: tuple[Exited, ...] = ()
    missing: tuple[Missing, ...] = ()
