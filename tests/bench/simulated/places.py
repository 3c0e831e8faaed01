"""Where the main threads of a simulated training job are: Python stacks as py-spy would show them, outermost first.

The program is made up: a trainer in layers below `/opt/train`, Megatron's names for what runs in parallel, PyTorch's
and Python's own below. Line numbers are of no release.
"""

from functools import cache

from shared.wire.stacks import Frame

_PACKAGES = "/usr/local/lib/python3.12/dist-packages"
_PYTHON = "/usr/lib/python3.12"
_ROOTS = {"torch": _PACKAGES, "megatron": _PACKAGES, "tensorboard": _PACKAGES, "nccl": "/usr/lib", "train": "/opt"}

_STEP = """
<module> train/pretrain.py:212
main train/pretrain.py:187
decorated train/configuration/entry.py:94
run_with_configuration train/configuration/entry.py:61
launch train/launching/cluster.py:140
guarded train/launching/errors.py:58
wrapper torch/distributed/elastic/multiprocessing/errors/__init__.py:355
run train/launching/cluster.py:96
Trainer.fit train/trainer/trainer.py:538
Trainer._within_strategy train/trainer/trainer.py:402
Trainer._fit train/trainer/trainer.py:574
Trainer._run_stages train/trainer/trainer.py:981
run_stage train/trainer/stages.py:77
run train/trainer/loops/epochs.py:205
advance train/trainer/loops/epochs.py:363
run train/trainer/loops/batches.py:140
advance train/trainer/loops/batches.py:250
train_step train/trainer/loops/batches.py:318
call_hook train/trainer/hooks.py:176
train_step train/strategies/megatron.py:441
profiled train/strategies/profiling.py:52
"""

_FORWARD = """
forward_backward_pipelining train/strategies/pipeline.py:512
forward_step train/strategies/pipeline.py:218
forward_step train/models/gpt.py:188
Module._wrapped_call_impl torch/nn/modules/module.py:1773
Module._call_impl torch/nn/modules/module.py:1784
forward megatron/core/distributed/data_parallel_base.py:22
Module._wrapped_call_impl torch/nn/modules/module.py:1773
Module._call_impl torch/nn/modules/module.py:1784
GPTModel.forward megatron/core/models/gpt/gpt_model.py:407
Module._call_impl torch/nn/modules/module.py:1784
TransformerBlock.forward megatron/core/transformer/transformer_block.py:551
Module._call_impl torch/nn/modules/module.py:1784
TransformerLayer.forward megatron/core/transformer/transformer_layer.py:{layer}
Module._call_impl torch/nn/modules/module.py:1784
RowParallelLinear.forward megatron/core/tensor_parallel/layers.py:1189
reduce_from_tensor_model_parallel_region megatron/core/tensor_parallel/mappings.py:489
apply torch/autograd/function.py:581
forward megatron/core/tensor_parallel/mappings.py:230
_reduce megatron/core/tensor_parallel/mappings.py:28
wrapper torch/distributed/c10d_logger.py:81
all_reduce torch/distributed/distributed_c10d.py:3002
"""

_BACKWARD = """
backward torch/autograd/function.py:311
backward megatron/core/tensor_parallel/layers.py:{layer}
wrapper torch/distributed/c10d_logger.py:81
all_reduce torch/distributed/distributed_c10d.py:3002
"""

_PAIR = """
forward_backward_pipelining train/strategies/pipeline.py:{layer}
{op}_neighbour megatron/core/pipeline_parallel/p2p_communication.py:447
_communicate megatron/core/pipeline_parallel/p2p_communication.py:356
_p2p_ops megatron/core/pipeline_parallel/p2p_communication.py:163
i{op} torch/distributed/distributed_c10d.py:2571
"""

_EXHAUSTED = """
Prefetcher.next_batch train/data/prefetching.py:133
Prefetcher.any_is_exhausted train/data/prefetching.py:97
wrapper torch/distributed/c10d_logger.py:81
all_reduce torch/distributed/distributed_c10d.py:3002
"""

_GRADIENTS = """
finalize_gradients train/strategies/megatron.py:502
DistributedDataParallel.finish_grad_sync megatron/core/distributed/distributed_data_parallel.py:498
_ParamAndGradBucketGroup.start_grad_sync megatron/core/distributed/param_and_grad_buffer.py:284
wrapper torch/distributed/c10d_logger.py:81
reduce_scatter_tensor torch/distributed/distributed_c10d.py:4387
"""

_NORM = """
optimizer_step train/strategies/megatron.py:530
step megatron/core/optimizer/optimizer.py:613
{op} megatron/core/optimizer/optimizer.py:{layer}
get_grad_norm megatron/core/optimizer/clip_grads.py:108
wrapper torch/distributed/c10d_logger.py:81
all_reduce torch/distributed/distributed_c10d.py:3002
"""

_PARAMETERS = """
optimizer_step train/strategies/megatron.py:530
step megatron/core/optimizer/distrib_optimizer.py:2241
_ParamAndGradBucketGroup.start_param_sync megatron/core/distributed/param_and_grad_buffer.py:193
wrapper torch/distributed/c10d_logger.py:81
all_gather_into_tensor torch/distributed/distributed_c10d.py:3849
"""

_LOADING = """
Prefetcher.next_batch train/data/prefetching.py:131
_BaseDataLoaderIter.__next__ torch/utils/data/dataloader.py:732
_MultiProcessingDataLoaderIter._next_data torch/utils/data/dataloader.py:1482
_MultiProcessingDataLoaderIter._get_data torch/utils/data/dataloader.py:1434
_MultiProcessingDataLoaderIter._try_get_data torch/utils/data/dataloader.py:1275
Queue.get queue.py:180
Condition.wait threading.py:359
"""

_WAITING_FOR_GRADIENTS = """
finalize_gradients train/strategies/megatron.py:502
DistributedDataParallel.finish_grad_sync megatron/core/distributed/distributed_data_parallel.py:498
_ParamAndGradBucketGroup.finish_grad_sync megatron/core/distributed/param_and_grad_buffer.py:352
"""

_NATIVE = """
cuEventSynchronize nccl/x86_64-linux-gnu/libcuda.so.560.35.03:0
cudaEventSynchronize torch/lib/libcudart.so.12:0
c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal torch/lib/libtorch_cuda.so:0
c10d::ProcessGroupNCCL::WorkNCCL::wait torch/lib/libtorch_cuda.so:0
"""


@cache
def forward(layer: int) -> tuple[Frame, ...]:
    """Call an all_reduce of tensor parallelism in the forward pass; `layer` is a line, as with the others."""
    return frames_of(_STEP + _FORWARD, layer)


@cache
def backward(layer: int) -> tuple[Frame, ...]:
    """The same in the backward pass: on a thread of autograd's, whose Python begins at the hook."""
    return frames_of(_BACKWARD, layer)


@cache
def pair(op: str, line: int) -> tuple[Frame, ...]:
    """Send to the next stage of the pipeline, or receive (`op`: send, recv)."""
    return frames_of(_STEP + _PAIR, line, op)


@cache
def exhausted() -> tuple[Frame, ...]:
    """Ask the tensor-parallel group whether anybody is out of data: where the group waits for the culprit."""
    return frames_of(_STEP + _EXHAUSTED)


@cache
def gradients() -> tuple[Frame, ...]:
    """Begin to reduce the buckets of gradients over the data-parallel group."""
    return frames_of(_STEP + _GRADIENTS)


@cache
def norm(name: str, line: int) -> tuple[Frame, ...]:
    """Reduce the norm of the gradients, or whether any is infinite."""
    return frames_of(_STEP + _NORM, line, name)


@cache
def parameters() -> tuple[Frame, ...]:
    """Gather the buckets of parameters over the data-parallel group."""
    return frames_of(_STEP + _PARAMETERS)


@cache
def loading() -> tuple[Frame, ...]:
    """Wait for the DataLoader: where the culprit is."""
    return frames_of(_STEP + _LOADING)


@cache
def waiting_for_gradients() -> tuple[Frame, ...]:
    """Wait for the handle of a reduction: no Python frame tells of which."""
    return frames_of(_STEP + _WAITING_FOR_GRADIENTS)


@cache
def below_the_handle() -> tuple[Frame, ...]:
    """The native frames below a handle's wait, outermost first."""
    return tuple(frame._replace(native=True) for frame in reversed(frames_of(_NATIVE)))


def frames_of(stack: str, line: int = 0, op: str = "") -> tuple[Frame, ...]:
    """Read a stack of this folder's notation: FUNCTION FILE:LINE, one frame a line; `line` and `op` fill its gaps."""
    return tuple(_frame(each.replace("{layer}", str(line)).replace("{op}", op)) for each in stack.split("\n") if each)


def _frame(text: str) -> Frame:
    function, _, place = text.partition(" ")
    file, _, line = place.rpartition(":")
    root = _ROOTS.get(file.partition("/")[0], _PYTHON)
    return Frame(function, f"{root}/{file}", int(line))
