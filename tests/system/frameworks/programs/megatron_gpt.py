"""Megatron-core: a small GPT whose layers are split over the ranks, in Megatron's own schedule."""

import os

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import TransformerConfig
from torch.utils.data import DataLoader, TensorDataset

WORDS, LENGTH, BATCH = 64, 16, 2


def forward_step(batches, model):
    """One batch, as Megatron's schedules ask for it."""
    tokens = next(batches)[0].cuda()
    places = torch.arange(LENGTH, device="cuda").expand(BATCH, LENGTH)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device="cuda")
    return model(tokens, places, mask, labels=tokens), lambda losses: (losses.mean(), {})


def main() -> None:
    """Train."""
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=dist.get_world_size())
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(num_layers=2, hidden_size=16, num_attention_heads=2, use_cpu_initialization=True)
    model = GPTModel(config, get_gpt_layer_local_spec(), WORDS, LENGTH).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = TensorDataset(torch.zeros(64 * BATCH, LENGTH, dtype=torch.int64))
    batches = iter(DataLoader(data, BATCH))
    for _ in range(64):
        optimizer.zero_grad()
        get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=batches,
            model=model,
            num_microbatches=1,
            seq_length=LENGTH,
            micro_batch_size=BATCH,
        )
        optimizer.step()


if __name__ == "__main__":
    main()
