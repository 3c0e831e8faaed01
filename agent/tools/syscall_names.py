"""Names of the system calls that a stuck process is found in, and which of them name a file descriptor.

Numbers from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (arm64) of Linux.
"""

import platform

_X86_64 = {
    0: "read", 1: "write", 2: "open", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 8: "lseek",
    9: "mmap", 10: "mprotect", 11: "munmap", 12: "brk", 16: "ioctl", 17: "pread64", 18: "pwrite64", 19: "readv",
    20: "writev", 21: "access", 22: "pipe", 23: "select", 24: "sched_yield", 25: "mremap", 26: "msync",
    28: "madvise", 34: "pause", 35: "nanosleep", 40: "sendfile", 41: "socket", 42: "connect", 43: "accept",
    44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 48: "shutdown", 56: "clone", 57: "fork",
    58: "vfork", 59: "execve", 60: "exit", 61: "wait4", 62: "kill", 65: "semop", 69: "msgsnd", 70: "msgrcv",
    72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 76: "truncate", 77: "ftruncate", 78: "getdents",
    82: "rename", 83: "mkdir", 84: "rmdir", 87: "unlink", 89: "readlink", 128: "rt_sigtimedwait",
    130: "rt_sigsuspend", 162: "sync", 187: "readahead", 202: "futex", 208: "io_getevents", 217: "getdents64",
    219: "restart_syscall", 220: "semtimedop", 230: "clock_nanosleep", 231: "exit_group", 232: "epoll_wait",
    234: "tgkill", 247: "waitid",
    257: "openat", 258: "mkdirat", 262: "newfstatat", 263: "unlinkat", 264: "renameat", 270: "pselect6",
    271: "ppoll", 275: "splice", 277: "sync_file_range", 281: "epoll_pwait", 285: "fallocate", 288: "accept4",
    295: "preadv", 296: "pwritev", 299: "recvmmsg", 306: "syncfs", 307: "sendmmsg", 326: "copy_file_range",
    327: "preadv2", 328: "pwritev2", 332: "statx", 426: "io_uring_enter", 435: "clone3", 441: "epoll_pwait2",
    449: "futex_waitv",
}  # fmt: skip
_ARM64 = {
    4: "io_getevents", 20: "epoll_create1", 22: "epoll_pwait", 25: "fcntl", 29: "ioctl", 32: "flock",
    34: "mkdirat", 35: "unlinkat", 38: "renameat", 45: "truncate", 46: "ftruncate", 47: "fallocate", 56: "openat",
    57: "close", 59: "pipe2", 61: "getdents64", 62: "lseek", 63: "read", 64: "write", 65: "readv", 66: "writev",
    67: "pread64", 68: "pwrite64", 69: "preadv", 70: "pwritev", 71: "sendfile", 72: "pselect6", 73: "ppoll",
    76: "splice", 79: "newfstatat", 80: "fstat", 81: "sync", 82: "fsync", 83: "fdatasync", 84: "sync_file_range",
    93: "exit", 94: "exit_group", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep",
    124: "sched_yield", 128: "restart_syscall", 129: "kill", 131: "tgkill", 133: "rt_sigsuspend",
    137: "rt_sigtimedwait", 188: "msgrcv",
    189: "msgsnd", 192: "semtimedop", 193: "semop", 198: "socket", 202: "accept", 203: "connect", 206: "sendto",
    207: "recvfrom", 210: "shutdown", 211: "sendmsg", 212: "recvmsg", 213: "readahead", 214: "brk", 215: "munmap",
    216: "mremap", 220: "clone", 221: "execve", 222: "mmap", 226: "mprotect", 227: "msync", 233: "madvise",
    242: "accept4", 243: "recvmmsg", 260: "wait4", 267: "syncfs", 269: "sendmmsg", 285: "copy_file_range",
    286: "preadv2", 287: "pwritev2", 291: "statx", 426: "io_uring_enter", 435: "clone3", 441: "epoll_pwait2",
    449: "futex_waitv",
}  # fmt: skip

_TABLES = {"x86_64": _X86_64, "aarch64": _ARM64}

_FD_FIRST = frozenset(
    "read write close fstat lseek ioctl pread64 pwrite64 readv writev connect accept sendto recvfrom sendmsg "
    "recvmsg shutdown fcntl flock fsync fdatasync ftruncate getdents getdents64 readahead epoll_wait "
    "epoll_pwait epoll_pwait2 splice sync_file_range fallocate accept4 preadv pwritev recvmmsg syncfs sendmmsg "
    "copy_file_range preadv2 pwritev2 io_uring_enter".split()
)
_FD_SECOND = frozenset(("sendfile",))


_PATH_FIRST = frozenset(
    "open stat lstat access truncate rename mkdir rmdir unlink readlink execve chdir statfs".split()
)
_PATH_SECOND = frozenset("openat mkdirat newfstatat unlinkat renameat statx".split())


def takes_lock(name: str) -> bool:
    """May a process be in this system call because it waits for a file lock?"""
    return name in ("flock", "fcntl")


def path_argument(name: str) -> int | None:
    """Return which argument of a system call points to the path it works on, counted from 0."""
    if name in _PATH_FIRST:
        return 0
    return 1 if name in _PATH_SECOND else None


def syscall_name(number: int, machine: str | None = None) -> str:
    """Return the name of a system call, or `syscall_N` for one that processes are rarely stuck in."""
    return _TABLES.get(machine or platform.machine(), {}).get(number, f"syscall_{number}")


def fd_argument(name: str) -> int | None:
    """Return which argument of a system call is the descriptor it works on, counted from 0."""
    if name in _FD_FIRST:
        return 0
    return 1 if name in _FD_SECOND else None
