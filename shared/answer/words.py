"""The words of a verdict. They are API: a new word is a change-log entry, a changed one a new schema version."""

from enum import StrEnum


class Verdict(StrEnum):
    """The verdict on a job."""

    HUNG = "hung"
    SLOW = "slow"
    DIED = "died"
    """It has ended, and not as jobs end that finish: by a signal or with an error, whoever sent the signal."""
    NOT_HUNG = "not_hung"
    CANNOT_TELL = "cannot_tell"


class Kind(StrEnum):
    """What is wrong between the ranks."""

    RANK_NOT_JOINED = "rank_not_joined"
    RANK_EXITED = "rank_exited"
    RANK_UNREACHABLE = "rank_unreachable"
    RANK_STOPPED = "rank_stopped"
    RANK_MISSING = "rank_missing"
    COLLECTIVE_MISMATCH = "collective_mismatch"
    ORDER_INVERSION = "order_inversion"
    P2P_DEADLOCK = "p2p_deadlock"
    P2P_UNMATCHED = "p2p_unmatched"
    STUCK_TOGETHER = "stuck_together"
    STARTUP_INCOMPLETE = "startup_incomplete"
    STRAGGLER = "straggler"
    HELD_UP = "held_up"
    """Others wait for a rank that demonstrably works."""
    REQUESTS_UNANSWERED = "requests_unanswered"
    """Clients of a server wait for one of its processes, which stands still."""


class Cause(StrEnum):
    """Why the culprit is where it is."""

    DATALOADER = "dataloader"
    CHECKPOINT = "checkpoint"
    FILESYSTEM = "filesystem"
    PIPE_BLOCKED = "pipe_blocked"
    DEBUGGER = "debugger"
    USER_CODE = "user_code"
    EXCEPTION = "exception"
    TEARDOWN = "teardown"
    GIL = "gil"
    COMPILE = "compile"
    DEVICE_SYNC = "device_sync"
    COMMUNICATION = "communication"
    RENDEZVOUS = "rendezvous"
    IMPORT = "import"
    OOM = "oom"
    SIGNAL = "signal"
    CANCELLED = "cancelled"
    """A launcher, a scheduler or a person ended the job, as by SIGTERM, and no rank is known to have failed."""
    NETWORK = "network"
    OTHER_PROCESS = "other_process"
    """It waits for a process outside its job, which does not answer."""
    GPU_FAULT = "gpu_fault"
    UNKNOWN = "unknown"


HARDWARE_CAUSES = frozenset({Cause.GPU_FAULT, Cause.NETWORK, Cause.DEVICE_SYNC, Cause.COMMUNICATION})
"""Causes that a faulty device or link of the culprit's node can have; a file server is nobody's node."""


class WorkMeans(StrEnum):
    """What a rank is at work with that others wait for."""

    CPU = "cpu"
    CHILD = "child"
    SIBLING = "sibling"
    """A process that was started together with it and has not joined yet."""
    FILE = "file"
    BYTES = "bytes"
    CONNECTION = "connection"
    SLEEP = "sleep"
    """It does nothing, and goes on at a time that is known."""


class Act(StrEnum):
    """What to do about a verdict."""

    RESTART = "restart"
    RESTART_WITHOUT_NODES = "restart_without_nodes"
    """Never because of what programs do: a device of these nodes is at fault, or has been before."""
    FIX_CODE = "fix_code"
    """Change the code, or what it is started with: as it is, it comes to the same point again."""
    FREE = "free"
    """Let go what is held, by a signal, a lock, a full pipe or a storage: the job goes on by itself."""
    WAIT = "wait"
    COLLECT = "collect"
    """Too little is known for any of the others."""
    NOTHING = "nothing"


class Certainty(StrEnum):
    """How certain a finding is: three words with a definition, not a number. `certainty_reason` says why."""

    PROVEN = "proven"
    """The flight records of all ranks involved, or the state of a process, show it."""
    SUPPORTED = "supported"
    """Two independent sources agree, or one shows it with a part that is inferred or not observed."""
    SUSPECTED = "suspected"
    """One weak source, a tie, or elimination."""
