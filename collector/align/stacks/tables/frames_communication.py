"""Step 8's table of Python frames: what the innermost telling frame says about where a thread is.

Above each row, or group of rows, stands a real frame that it must match, as py-spy prints it. Rows are tried from the
innermost frame outwards; at one frame the first row wins.
"""

from collector.align.stacks.tables.row_types import Doing, FramePattern, WaitsOn, frame_row, package
from shared.answer.words import Cause

_C10D = r"(^|/)torch/distributed/distributed_c10d\.py$"
_ENGINES = package("vllm/distributed", "sglang/srt/distributed")
_TORCHFT = r"(^|/)torchft/manager\.py$"

COMMUNICATION_FRAMES: tuple[FramePattern, ...] = (
    # all_reduce (torch/distributed/distributed_c10d.py:3252)
    # barrier (torch/distributed/distributed_c10d.py:5356)
    frame_row(
        Doing.COLLECTIVE,
        Cause.COMMUNICATION,
        "in a collective",
        r"^_?(all_reduce|all_gather|gather|scatter|broadcast|reduce|reduce_scatter|all_to_all|barrier)"
        r"(_into_tensor|_tensor|_base|_single|_object|_object_list|_coalesced)*$",
        _C10D,
    ),
    # monitored_barrier (torch/distributed/distributed_c10d.py:5421)
    frame_row(Doing.COLLECTIVE, Cause.COMMUNICATION, "in a collective", r"^monitored_barrier$", _C10D),
    # all_reduce (vllm/distributed/device_communicators/cpu_communicator.py:275): by shared memory, or NCCL by hand
    frame_row(
        Doing.COLLECTIVE,
        Cause.COMMUNICATION,
        "in a collective",
        r"^(all_reduce|all_gather|gather|broadcast|reduce_scatter)(_into_tensor|v)?$",
        _ENGINES,
    ),
    # recv_tensor_dict (vllm/distributed/device_communicators/cpu_communicator.py:325)
    frame_row(
        Doing.P2P,
        Cause.COMMUNICATION,
        "in a point-to-point operation",
        r"^(send|recv)(_tensor_dict|_object)?$",
        _ENGINES,
    ),
    # recv (torch/distributed/distributed_c10d.py:2799)
    frame_row(
        Doing.P2P,
        Cause.COMMUNICATION,
        "in a point-to-point operation",
        r"^(send|recv|isend|irecv|send_object_list|recv_object_list|batch_isend_irecv)$",
        _C10D,
    ),
    # _store_based_barrier (torch/distributed/distributed_c10d.py:966)
    # new_group (torch/distributed/distributed_c10d.py:5610)
    # init_process_group (torch/distributed/distributed_c10d.py:1854)
    frame_row(
        Doing.STORE,
        Cause.RENDEZVOUS,
        "in rendezvous",
        r"^(_store_based_barrier|new_group|_new_group_with_tag|new_subgroups|split_group|init_process_group"
        r"|_new_process_group_helper|destroy_process_group)$",
        _C10D,
    ),
    # _create_c10d_store (torch/distributed/rendezvous.py:207)
    frame_row(Doing.STORE, Cause.RENDEZVOUS, "in rendezvous", r".", r"(^|/)torch/distributed/rendezvous\.py$"),
    # wait_quorum (torchft/manager.py:632)
    frame_row(
        Doing.STORE,
        Cause.RENDEZVOUS,
        "in torchft's quorum",
        r"^(wait_quorum|start_quorum|_async_quorum)$",
        _TORCHFT,
        waits_on=WaitsOn.OTHER_JOBS,
    ),
    # should_commit (torchft/manager.py:800): a vote of the ranks of one replica group
    frame_row(Doing.STORE, Cause.RENDEZVOUS, "in torchft's vote", r"^should_commit$", _TORCHFT),
    # barrier (torch/distributed/elastic/utils/store.py:223)
    frame_row(Doing.STORE, Cause.RENDEZVOUS, "in rendezvous", r".", r"(^|/)torch/distributed/elastic/utils/store\.py$"),
    # wait_tensor (torch/distributed/_functional_collectives.py:129)
    frame_row(
        Doing.WORK,
        Cause.COMMUNICATION,
        "waiting for a collective",
        r".",
        r"(^|/)torch/distributed/_functional_collectives",
    ),
    # _wait_all_workers (torch/distributed/rpc/api.py:270); synchronize (horovod/torch/mpi_ops.py:1260)
    frame_row(
        Doing.WORK,
        Cause.COMMUNICATION,
        "waiting for other ranks",
        r"^(_wait_all_workers|_all_gather|_barrier|synchronize|join)$",
        r"(^|/)(torch/distributed/rpc/api|horovod/torch/mpi_ops)\.py$",
        waits_on=WaitsOn.UNRECORDED,
    ),
    # rpc_sync (torch/distributed/rpc/api.py:842)
    frame_row(
        Doing.WORK,
        Cause.COMMUNICATION,
        "waiting for a remote procedure call",
        r"^(rpc_sync|_invoke_rpc\w*|_?wait_all|_to_here|_rref_typeof_on_owner)$",
        r"(^|/)torch/distributed/rpc/",
        waits_on=WaitsOn.UNRECORDED,
    ),
    # wait_all (torch/futures/__init__.py:334), of remote procedure calls or of work handles
    frame_row(
        Doing.WORK,
        Cause.COMMUNICATION,
        "waiting for futures of other ranks",
        r"^(wait|wait_all|value)$",
        r"(^|/)torch/futures/__init__\.py$",
        waits_on=WaitsOn.UNRECORDED,
    ),
    # wait_for_unshard (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:420): a work handle's wait, inside C
    # _wait_batch_p2p (torch/distributed/pipelining/schedules.py:610)
    # _communicate (megatron/core/pipeline_parallel/p2p_communication.py:320)
    # finish_grad_sync (megatron/core/distributed/param_and_grad_buffer.py:350)
    # wait (deepspeed/runtime/zero/partition_parameters.py:700); wait (accelerate/utils/operations.py:420)
    frame_row(
        Doing.WORK,
        Cause.COMMUNICATION,
        "waiting for a work handle",
        r"(^|_)(wait|communicate|finish|finalize|synchronize)(_|$)",
        r"(^|/)(torch/distributed/(fsdp|tensor|pipelining|_composable|algorithms|optim|nn)|deepspeed/(runtime|comm)"
        r"|megatron/core/(pipeline_parallel|distributed|tensor_parallel|optimizer)|accelerate/utils|fairscale|colossalai)/",
    ),
    # _engine_run_backward (torch/autograd/graph.py:869)
    frame_row(
        Doing.WORK, Cause.COMMUNICATION, "in backward", r"^_engine_run_backward$", r"(^|/)torch/autograd/graph\.py$"
    ),
    # synchronize (torch/cuda/__init__.py:1040); wait (torch/cuda/streams.py:201)
    frame_row(
        Doing.DEVICE,
        Cause.DEVICE_SYNC,
        "waiting for the device",
        r"^(synchronize|wait_stream|wait_event|wait|query|elapsed_time|empty_cache|mem_get_info)$",
        r"(^|/)(torch/(cuda|xpu|mps|accelerator)|torch_npu/npu|habana_frameworks)/",
    ),
    # mark_step (torch_xla/core/xla_model.py:1056)
    frame_row(
        Doing.DEVICE,
        Cause.DEVICE_SYNC,
        "waiting for the device",
        r"^(mark_step|wait_device_ops|sync)$",
        package("torch_xla"),
    ),
    # run (triton/runtime/jit.py:623): a launch that waits for room on the device's queue
    frame_row(
        Doing.DEVICE,
        Cause.DEVICE_SYNC,
        "launching work on the device",
        r"^(run|__call__|launch)$",
        package("triton") + r"(runtime/(jit|autotuner)|backends/\w+/driver)\.py$",
    ),
)
