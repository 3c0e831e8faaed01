"""The environment variables of a rank that are reported, beside those that say which rank it is.

An allow-list of names: settings of PyTorch, the communication libraries, the launchers and the devices. None of
them holds a secret by its meaning; no other variable is ever kept, but for those that rules of the site check.
"""

from functools import cache

from shared.rules.site_rules import checked_variables

REPORTED = frozenset(
    {
        # who it is and whom it meets
        *("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT".split()),
        *("TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS HOSTNAME".split()),
        *("TORCHELASTIC_USE_AGENT_STORE SLURM_JOB_ID SLURM_STEP_ID SLURM_STEPID SLURM_NTASKS SLURM_NNODES".split()),
        *("SLURM_JOB_NUM_NODES SLURM_PROCID SLURM_LOCALID SLURM_NTASKS_PER_NODE SLURM_NODEID".split()),
        # devices and threads
        *("CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES".split()),
        *("CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING OMP_NUM_THREADS MKL_NUM_THREADS".split()),
        # PyTorch's watchdog, recorder and checks
        *("TORCH_FR_BUFFER_SIZE TORCH_NCCL_TRACE_BUFFER_SIZE TORCH_NCCL_DUMP_ON_TIMEOUT".split()),
        *("TORCH_NCCL_ASYNC_ERROR_HANDLING NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_BLOCKING_WAIT".split()),
        *("NCCL_BLOCKING_WAIT TORCH_NCCL_ENABLE_MONITORING TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC".split()),
        *("TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_DESYNC_DEBUG TORCH_DISTRIBUTED_DEBUG TORCH_CPP_LOG_LEVEL".split()),
        # the communication libraries
        *("NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_SOCKET_IFNAME NCCL_SOCKET_FAMILY NCCL_IB_HCA NCCL_IB_DISABLE".split()),
        *("NCCL_IB_GID_INDEX NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT NCCL_NET NCCL_NET_PLUGIN NCCL_P2P_DISABLE".split()),
        *("NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_ALGO NCCL_PROTO NCCL_CROSS_NIC NCCL_NVLS_ENABLE".split()),
        *("NCCL_CUMEM_ENABLE NCCL_BUFFSIZE NCCL_COLLNET_ENABLE NCCL_RAS_ENABLE NCCL_RAS_ADDR".split()),
        *("GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME UCX_NET_DEVICES".split()),
    }
)


@cache
def reported() -> frozenset[str]:
    """Return the names that are reported here."""
    return REPORTED | checked_variables()
