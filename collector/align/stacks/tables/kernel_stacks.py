"""Step 8's last table: which driver or file system holds a task that is in uninterruptible sleep.

The module in brackets classifies: a task in state D waits for what that module drives. Code that is built into the
kernel names no module; then the function's own name tells. Used for state D alone: who sleeps otherwise may be woken.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from shared.answer.words import Cause

# __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]
_FRAME = re.compile(r"^(?P<function>[\w.$]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(?P<module>\w+))?")


class StackRow(NamedTuple):
    """What a function or module in a kernel stack says."""

    cause: Cause
    label: str
    modules: re.Pattern[str]
    functions: re.Pattern[str]


def _row(cause: Cause, label: str, modules: str, functions: str) -> StackRow:
    return StackRow(cause, label, re.compile(rf"^(?:{modules})$"), re.compile(rf"^(?:{functions})"))


ROWS = (
    # os_acquire_semaphore+0x4c/0x60 [nvidia]        uvm_api_register_gpu+0x5b/0x80 [nvidia_uvm]
    _row(Cause.GPU_FAULT, "blocked in the GPU's driver", r"nvidia\w*|amdgpu|amdkfd|habanalabs", r"amdgpu_|kfd_"),
    # __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]       ib_dereg_mr_user+0x5f/0x120 [ib_core]
    _row(
        Cause.NETWORK,
        "blocked in the RDMA driver",
        r"mlx[45]_\w+|ib_\w+|rdma_\w+|irdma|bnxt_re|efa|hfi1|cxi_\w+|iw_\w+",
        r"mlx[45]_|ib_(?:dereg|destroy|uverbs)|rdma_",
    ),
    # rpc_wait_bit_killable+0x24/0xb0 [sunrpc]       cxiWaitEventWait+0x208/0x330 [mmfslinux]
    # request_wait_answer+0x139/0x220 [fuse]         nfs4_proc_getattr+0x72/0xf0 [nfsv4]
    _row(
        Cause.FILESYSTEM,
        "blocked in a remote file system",
        r"nfs\w*|sunrpc|lockd|lustre|ptlrpc|osc|mdc|lov|lmv|obdclass|lnet|ksocklnd|ko2iblnd|mmfs\w*|tracedev|ceph|libceph"
        r"|cifs|smb\w*|fuse|virtiofs|beegfs|wekafs\w*|9p\w*|gfs2|ocfs2\w*|afs|orangefs",
        r"nfs\d?_|rpc_|__rpc_|fuse_|request_wait_answer|ceph_|cifs_|p9_|ll_",
    ),
    # jbd2_log_wait_commit+0xe2/0x180 [jbd2]         xfs_log_force_seq+0x8d/0x150 [xfs]      io_schedule+0x46/0x80
    _row(
        Cause.FILESYSTEM,
        "blocked in disk input or output",
        r"ext4|jbd2|xfs|btrfs|zfs|spl|f2fs|nvme\w*|dm_\w+|md_mod|raid\w+|bcache",
        r"jbd2_|ext4_|xfs_|btrfs_|io_schedule|folio_wait_bit|blk_|submit_bio_wait|wait_on_page_bit|balance_dirty_pages",
    ),
    # wait_for_vfork_done+0x3d/0x80: the child has executed nothing yet, and its parent has to wait for that
    _row(Cause.USER_CODE, "waiting for a process that it starts", r"-", r"wait_for_vfork_done"),
)


def stack_row(stack: Iterable[str]) -> StackRow | None:
    """Return what a task in uninterruptible sleep waits for, by its kernel stack, innermost first; None: not told."""
    for frame in stack:
        match = _FRAME.match(frame)
        if match is None:
            continue
        for row in ROWS:
            module = match["module"]
            if (module is not None and row.modules.match(module)) or row.functions.match(match["function"]):
                return row
    return None
