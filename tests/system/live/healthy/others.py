"""Healthy jobs that other projects ship: their packages, in build/healthy/env, and copies of their repositories.

Nothing of theirs is changed, but what asks for a GPU: `sed` in `prepare` says what. Data sets and models are made by data.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tests.system.live.healthy.programs import Program

_DATA = f"{{python}} {Path(__file__).with_name('data.py')}"
_ON_CPU = 's/\\.cuda()//g; s/"cuda:[01]"/"cpu"/g'
_RUN = "{python} -m torch.distributed.run --standalone --nproc-per-node 2"
_LAUNCH = "{python} -m accelerate.commands.launch --cpu --num_processes 2 --num_machines 1 --main_process_port 29534"
_AGAIN = "until [ -e {{folder}}/enough ]; do {} || exit 1; done"

RPC = {
    "rpc-rnn": (
        "rnn/main.py",
        "Training epoch",
        "A trainer calls the layers that a parameter server holds, which waits in shutdown.",
    ),
    "rpc-pipeline": (
        "pipeline/main.py",
        "Processing batch",
        "A master sends micro-batches through the two halves of a ResNet-50.",
    ),
    "rpc-reinforce": (
        "batch/reinforce.py",
        "",
        "Observers play CartPole and ask an agent for each action, in batches.",
    ),
    "rpc-rl": ("rl/main.py", "", "Observers play CartPole, and an agent calls them for an episode each."),
}

ACCELERATE = {
    "accelerate-test-script": (
        "test_script",
        "What `accelerate test` runs: loaders, states and training, checked on two ranks.",
    ),
    "accelerate-test-sync": (
        "test_sync",
        "Gradients accumulated with and without synchronisation, compared between two ranks.",
    ),
    "accelerate-test-loop": (
        "test_distributed_data_loop",
        "Loaders of uneven length, joined and dispatched by rank 0.",
    ),
    "accelerate-test-ops": ("test_ops", "Each of accelerate's collectives, once."),
}

TRL = {
    "trl-sft": ("sft", "text", "", "Rank 0 tokenizes the data set first (`main_process_first`), the other waits."),
    "trl-sft-processes": (
        "sft",
        "text",
        "--dataset_num_proc 2",
        "Two processes of rank 0 tokenize; the other rank waits.",
    ),
    "trl-dpo": ("dpo", "preferences", "", "Rank 0 maps pairs of replies first, three times; the other waits."),
    "trl-reward": ("reward", "replies", "", "Rank 0 maps replies for a reward model first; the other waits."),
}


def others(repositories: Path) -> Iterator[Program]:
    """Give each."""
    for program in (*_examples(), *_accelerate(), *_lightning(), *_trl(), *_ray(), *_training_scripts()):
        replaced = {"{repositories}": str(repositories), "{data}": _DATA}
        command, prepare = program.command, program.prepare
        for name, value in replaced.items():
            command, prepare = command.replace(name, value), prepare.replace(name, value)
        yield replace(program, command=command, prepare=prepare)


def _examples() -> Iterator[Program]:
    """pytorch/examples."""
    origin, folder = "pytorch/examples", "{repositories}/pytorch+examples"
    for name, (path, words, waits) in RPC.items():
        copy = f"cp -r {folder}/distributed/rpc/{path.partition('/')[0]} copy && sed -i '{_ON_CPU}' copy/*.py"
        command = _AGAIN.format(f"(cd {{folder}}/copy && {{python}} {path.partition('/')[2]})")
        yield Program(name, origin, waits, command, prepare=copy, waits_from=words)
    server = "{python} copy/rpc_parameter_server.py --world_size 3 --rank"
    yield Program(
        "rpc-parameter-server", origin, "Two trainers call a parameter server for each layer; it waits in shutdown.",
        f"mkdir -p in && cd in && {' & '.join(f'{server} {rank}' for rank in range(3))} & wait".replace("copy/", "../copy/"),
        prepare=f"cp -r {folder}/distributed/rpc/parameter_server copy && {{data}} mnist data", waits_from="training batch",
    )  # fmt: skip
    yield Program(
        "imagenet", origin, "Two ranks train on invented images by themselves, for long, before they meet to validate.",
        f"exec {_RUN} {folder}/imagenet/main.py --dummy --no-accel --dist-backend gloo --dist-url env:// -a resnet18 "
        "-b 4 -j 1 --print-freq 1", waits_from="Epoch: [0]",
    )  # fmt: skip


def _accelerate() -> Iterator[Program]:
    """The test scripts that accelerate's package ships, and skorch's use of it."""
    for name, (module, waits) in ACCELERATE.items():
        run = f"{_LAUNCH} -m accelerate.test_utils.scripts.{module}"
        yield Program(name, "accelerate (package)", waits, _AGAIN.format(run))
    script = "{repositories}/skorch-dev+skorch/examples/accelerate-multigpu"
    for name, path, waits in (
        (
            "skorch-cross-validates",
            "run-no-skorch.py",
            "Cross-validation by scikit-learn, each of its fits on two ranks.",
        ),
        ("skorch-saves", "run-save-load.py", "A skorch net is trained on two ranks, saved by one and loaded by both."),
    ):
        yield Program(name, "skorch-dev/skorch", waits, _AGAIN.format(f"{_LAUNCH} {script}/{path}"))


def _lightning() -> Iterator[Program]:
    """Lightning's examples, which start their ranks themselves."""
    origin, copy = "Lightning-AI/pytorch-lightning", "cp -r {repositories}/Lightning-AI+pytorch-lightning/examples ."
    fabric = "exec {python} -m lightning.fabric.cli run --accelerator cpu --devices 2 --strategy ddp examples/fabric"
    yield Program(
        "fabric-images", origin, "Fabric starts its second rank, which imports; rank 0 reads the data first; then they train.",
        f"{fabric}/image_classifier/train_fabric.py --epochs 1 --batch-size 256",
        prepare=f"{copy} && {{data}} mnist examples/Datasets && cp -r examples/Datasets .", waits_from="MEMBER: 1/2",
    )  # fmt: skip
    yield Program(
        "fabric-folds", origin, "Fabric trains one model for each fold, on two ranks that it starts.",
        f"{fabric}/kfold_cv/train_fabric.py --epochs 1 --batch-size 256",
        prepare=f"{copy} && {{data}} mnist examples/Datasets && cp -r examples/Datasets .", waits_from="MEMBER: 1/2",
    )  # fmt: skip
    yield Program(
        "lightning-autoencoder", origin, "The Trainer starts its second rank, which imports; rank 0 draws images after an epoch.",
        "cd examples/pytorch/basics && exec {python} autoencoder.py --trainer.accelerator cpu --trainer.devices 2 "
        "--trainer.strategy ddp --trainer.max_epochs 1 --data.batch_size 512",
        prepare=f"{copy} && {{data}} mnist examples/Datasets && cp -r examples/Datasets examples/pytorch/", waits_from="MEMBER: 1/2",
    )  # fmt: skip


def _trl() -> Iterator[Program]:
    """The scripts of trl's package, on the Trainer of transformers."""
    for name, (script, texts, more, waits) in TRL.items():
        yield Program(
            name, "trl (package)", waits,
            f"exec {_LAUNCH} -m trl.scripts.{script} --model_name_or_path model --dataset_name texts/{texts} --output_dir out "
            f"--use_cpu --bf16 False --max_steps 20 --save_strategy no --report_to none {more}",
            prepare="{data} model model && {data} texts texts $(({seconds} * 2000))",
            waits_from="examples/s",
        )  # fmt: skip


def _ray() -> Iterator[Program]:
    """The examples of ray's package."""
    for name, module, waits in (
        (
            "ray-linear",
            "torch_linear_example --epochs 60",
            "Ray starts two workers, which report and save after each epoch.",
        ),
        ("ray-images", "torch_fashion_mnist_example", "Two of Ray's workers load data behind a lock file, and train."),
    ):
        yield Program(
            name, "ray (package)", waits,
            _AGAIN.format(f"{{python}} -m ray.train.examples.pytorch.{module} --num-workers 2"),
            {"HOME": "{folder}", "RAY_TRAIN_V2_ENABLED": "1"}, prepare="{data} mnist data",
        )  # fmt: skip


def _training_scripts() -> Iterator[Program]:
    """Whole training scripts."""
    yield Program(
        "ignite-cifar10", "pytorch/ignite", "Ignite starts two ranks; rank 0 makes the data set first; they train and validate.",
        "cd copy && exec {python} main.py run --backend gloo --nproc_per_node 2 --data_path data --output_dir out "
        "--num_epochs 2 --batch_size 64 --num_workers 1 --log_every_iters 1",
        prepare="cp -r {repositories}/pytorch+ignite/examples/cifar10 copy && sed -i -E "
        "'s/datasets.CIFAR10\\(.*transform=(\\w+)\\)/datasets.FakeData(2000, (3, 32, 32), transform=\\1)/' copy/utils.py", waits_from="Train CIFAR10",
    )  # fmt: skip
    yield Program(
        "timm", "huggingface/pytorch-image-models", "Two ranks train on images with a loader process each; rank 0 writes checkpoints.",
        f"cd {{repositories}}/huggingface+pytorch-image-models && exec {_RUN} train.py {{folder}}/images --model resnet18 "
        "--device cpu --dist-backend gloo --num-classes 2 --img-size 64 -b 8 -j 1 --epochs 2 --output {folder}/out --no-prefetcher",
        prepare="{data} images images 300", waits_from="Train: 0",
    )  # fmt: skip
    for name, compiled, waits in (
        ("nanogpt", "False", "Rank 0 alone estimates the loss every few steps, for long; the other waits in backward."),
        ("nanogpt-compiled", "True", "The same, compiled by inductor on each rank."),
    ):
        yield Program(
            name, "karpathy/nanoGPT", waits,
            f"cd copy && exec {_RUN} train.py --device=cpu --backend=gloo --compile={compiled} --dataset=noise --dtype=float32 "
            "--eval_iters=1500 --eval_interval=20 --block_size=64 --batch_size=8 --n_layer=2 --n_head=2 --n_embd=64 "
            "--gradient_accumulation_steps=2 --max_iters=200 --out_dir={folder}/out",
            prepare="cp -r {repositories}/karpathy+nanoGPT copy && {data} tokens copy/data/noise 100000 && sed -i "
            "\"s/device = f'cuda:.*/device = 'cpu'/; s/torch.cuda.set_device.*/pass/\" copy/train.py", waits_from="num non-decayed parameter tensors",
        )  # fmt: skip
