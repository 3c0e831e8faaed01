"""Step 8's table of kernel facts: system calls, what they concern, and the kernel functions that a process sleeps in.

Above each row, or group of rows, stands a real fact that it must match. The first row that matches wins.
"""

from functools import lru_cache

from collector.align.stacks.tables.row_types import Doing, KernelPattern, WaitsOn, kernel_row
from shared.answer.words import Cause

FROZEN = "__refrigerator"
WAITS_FOR_SIGNAL = frozenset({"pause", "rt_sigtimedwait", "rt_sigsuspend"})
"""System calls of signal.pause(), signal.sigwait() and its kin, and sigsuspend(3)."""

KERNEL: tuple[KernelPattern, ...] = (
    # wchan do_freezer_trap (cgroup v2), __refrigerator (v1): `docker pause`, `systemctl freeze`
    kernel_row(Cause.SIGNAL, "frozen with its cgroup", wchan=r"^(do_freezer_trap|(__)?refrigerator)$"),
    # wchan mem_cgroup_oom_synchronize: the cgroup's memory is used up, and its OOM killer is switched off
    kernel_row(
        Cause.OOM,
        "waiting for memory above its cgroup's limit",
        wchan=r"^(mem_cgroup_oom_synchronize|mem_cgroup_handle_over_high)$",
    ),
    # syscall read, fd 9 -> /tmp/feed, wchan anon_pipe_read (pipe_read before Linux 6.14): a FIFO, fed from elsewhere
    kernel_row(Cause.PIPE_BLOCKED, "reading an empty FIFO", target=r"^/(?!dev/)", wchan=r"pipe_read$"),
    # syscall read, fd 9 -> pipe:[81234], wchan anon_pipe_read: `curl` at the other end may be slow
    kernel_row(Cause.PIPE_BLOCKED, "reading an empty pipe", wchan=r"pipe_read$", may_pass=True),
    # syscall write, fd 1 -> pipe:[81234], wchan anon_pipe_write (pipe_write before Linux 6.14)
    kernel_row(Cause.PIPE_BLOCKED, "writing to a full pipe", wchan=r"pipe_write$"),
    # syscall openat, wchan wait_for_partner: a FIFO that nobody has open at the other end
    kernel_row(Cause.PIPE_BLOCKED, "opening a FIFO whose other end is not open", wchan=r"^wait_for_partner$"),
    # syscall sendto, fd 12 -> socket:[4711], wchan sock_alloc_send_pskb (Unix); sk_stream_wait_memory (TCP)
    kernel_row(
        Cause.NETWORK,
        "sending to a peer that does not read",
        wchan=r"^(sk_stream_wait_memory|sock_alloc_send_pskb|unix_wait_for_peer)$",
        may_pass=True,
    ),
    # syscall flock, wchan locks_lock_inode_wait; fcntl F_SETLKW, wchan fcntl_setlk
    kernel_row(
        Cause.FILESYSTEM,
        "waiting for a file lock",
        wchan=r"^(locks_lock_inode_wait|fcntl_setlk|posix_lock)",
        waits_on=WaitsOn.LOCK_FILE,
    ),
    kernel_row(Cause.FILESYSTEM, "waiting for a file lock", syscall=r"^flock$", waits_on=WaitsOn.LOCK_FILE),
    # wchan rpc_wait_bit_killable, nfs_wait_bit_killable; fuse: request_wait_answer; 9p: p9_client_rpc
    # Lustre: cl_sync_io_wait, ptlrpc_set_wait, ldlm_completion_ast; Ceph: ceph_mdsc_wait_request
    # SMB: wait_for_response; Spectrum Scale: cxiWaitEventWait; autofs: autofs_wait
    kernel_row(
        Cause.FILESYSTEM,
        "waiting for a remote file system",
        wchan=r"^(rpc_|nfs\d?_|request_wait_answer|fuse_|cl_|ptlrpc_|ldlm_|osc_|ceph_|p9_|cifs_|smb2_|wait_for_response$"
        r"|cxiWaitEventWait|autofs_)",
        may_pass=True,
    ),
    # state D, wchan folio_wait_bit_common; jbd2_log_wait_commit; io_schedule; balance_dirty_pages
    kernel_row(
        Cause.FILESYSTEM,
        "waiting for a disk",
        wchan=r"^(folio_wait_|wait_on_page_|jbd2_|io_schedule|balance_dirty_pages|blk_mq_get_tag|rq_qos_wait|wb_wait_for)",
        may_pass=True,
    ),
    # syscall clone3, wchan kernel_clone (_do_fork before Linux 5.10): vfork's parent sleeps until the child executes
    kernel_row(
        Cause.USER_CODE,
        "waiting for a child process to execute its program",
        wchan=r"^(kernel_clone|_do_fork|wait_for_vfork_done)$",
        waits_on=WaitsOn.CHILD,
    ),
    # syscall wait4, wchan do_wait: os.system(), os.waitpid()
    kernel_row(
        Cause.USER_CODE,
        "waiting for a child process",
        syscall=r"^(wait4|waitid|waitpid)$",
        may_pass=True,
        waits_on=WaitsOn.CHILD,
    ),
    # syscall rt_sigtimedwait, wchan do_sigtimedwait: signal.sigwait(); pause: signal.pause()
    kernel_row(
        Cause.USER_CODE,
        "waiting for a signal",
        syscall=rf"^({'|'.join(sorted(WAITS_FOR_SIGNAL))})$",
        waits_on=WaitsOn.SIGNAL,
    ),
    # syscall read, fd 0 -> /dev/pts/3, wchan wait_woken (n_tty_read): input(), a login prompt, a debugger's prompt
    kernel_row(
        Cause.USER_CODE,
        "waiting for terminal input",
        syscall=r"^read$",
        target=r"^/dev/(pts/\d+|tty\w*|console)",
    ),
    # syscall ioctl, fd 31 -> /dev/nvidia0; /dev/nvidia-uvm; /dev/kfd: the driver waits for the device, as a victim may
    kernel_row(
        Cause.DEVICE_SYNC,
        "in its device's driver",
        syscall=r"^(ioctl|poll|ppoll)$",
        target=r"^/dev/(nvidia|kfd|dri/)",
        doing=Doing.DEVICE,
    ),
    # syscall read, fd 37 -> /mnt/data/shard-3.tar
    kernel_row(
        Cause.FILESYSTEM,
        "in file input or output",
        syscall=r"^(p?(read|write)(v|64)?v?2?|fsync|fdatasync)$",
        target=r"^/(?!dev/)",
        may_pass=True,
    ),
)


@lru_cache(maxsize=1024)
def kernel_pattern(syscall: str, target: str, wchan: str) -> KernelPattern | None:
    """Return the first row that matches all three facts; empty parts of a row match anything."""
    for row in KERNEL:
        if row.syscall.search(syscall) and row.target.search(target) and row.wchan.search(wchan):
            return row
    return None
