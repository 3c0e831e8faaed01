"""Kinds and causes in plain words, said beside the words of the contract."""

from shared.answer.words import Cause, Kind

KINDS = {
    Kind.RANK_NOT_JOINED: "others wait in an operation that it has not joined",
    Kind.RANK_EXITED: "its process has ended, and others wait for it",
    Kind.RANK_UNREACHABLE: "its node does not answer, and others wait for it",
    Kind.RANK_STOPPED: "its process is stopped, and others wait for it",
    Kind.RANK_MISSING: "nothing was seen of it, and others wait for it",
    Kind.COLLECTIVE_MISMATCH: "ranks call different operations, or with different arguments",
    Kind.ORDER_INVERSION: "ranks issue the operations of several groups in different orders",
    Kind.P2P_DEADLOCK: "ranks wait for each other in sends and receives",
    Kind.P2P_UNMATCHED: "a send or receive has no partner",
    Kind.STUCK_TOGETHER: "every rank has joined the operation, and it does not complete",
    Kind.STARTUP_INCOMPLETE: "the job has not come together at its start",
    Kind.HELD_UP: "others wait for it, and it works",
    Kind.STRAGGLER: "it goes on, but the others wait for it in every step",
}
"""What is wrong between the ranks."""

DIED = "a rank ended by a signal or with an error, and the job with it"
"""The same of a job that died, in which nobody waits."""

CAUSES = {
    Cause.DATALOADER: "its DataLoader",
    Cause.CHECKPOINT: "a checkpoint",
    Cause.FILESYSTEM: "a file system",
    Cause.PIPE_BLOCKED: "a pipe that the other end does not serve",
    Cause.DEBUGGER: "a debugger",
    Cause.USER_CODE: "user code",
    Cause.EXCEPTION: "an exception",
    Cause.TEARDOWN: "shutting down",
    Cause.GIL: "Python's GIL",
    Cause.COMPILE: "compilation",
    Cause.DEVICE_SYNC: "waiting for the device",
    Cause.COMMUNICATION: "communication",
    Cause.RENDEZVOUS: "the rendezvous",
    Cause.IMPORT: "an import",
    Cause.OOM: "out of memory",
    Cause.SIGNAL: "a signal",
    Cause.CANCELLED: "a launcher, a scheduler or a person ended it",
    Cause.NETWORK: "the network",
    Cause.GPU_FAULT: "a GPU fault",
    Cause.UNKNOWN: "not known",
}
"""Why the culprit is where it is."""
