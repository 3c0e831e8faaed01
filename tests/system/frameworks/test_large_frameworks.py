"""Ray Train, the Trainer of transformers, DeepSpeed's launcher. `make frameworks`: they take long to install."""

from pathlib import Path

import pytest

from tests.build.processes.ports import free_port
from tests.system.frameworks.environments import python_with
from tests.system.frameworks.launched import PROGRAMS, launched
from tests.system.frameworks.test_launchers import assert_found_and_named

RAY = {"RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "120", "RAY_DISABLE_METRICS_COLLECTION": "1"}

pytestmark = [pytest.mark.live, pytest.mark.ptrace, pytest.mark.frameworks]


def test_ray_train(tmp_path: Path) -> None:
    """The training loop runs in a thread; the main thread of a worker waits for Ray."""
    python = python_with("ray[train]")
    with launched((python, str(PROGRAMS / "ray_train.py")), tmp_path, env=RAY) as job:
        assert_found_and_named(job)


def test_hugging_face_trainer(tmp_path: Path) -> None:
    """Under torchrun, on top of accelerate."""
    python = python_with("transformers")
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()))
    with launched((python, *torchrun, str(PROGRAMS / "hf_trainer.py"), str(tmp_path)), tmp_path) as job:
        assert_found_and_named(job)


def test_deepspeed(tmp_path: Path) -> None:
    """Its launcher alone: a program that DeepSpeed trains is a plain one to us."""
    python = python_with("hjson", "py-cpuinfo", "msgpack", "einops", "ninja", "tqdm", "psutil", "deepspeed")
    port = str(free_port())
    runner = (python, "-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--master_port", port)
    with launched((*runner, str(PROGRAMS / "plain.py"), "env://"), tmp_path) as job:
        assert_found_and_named(job, name=f"127.0.0.1:{port}")
