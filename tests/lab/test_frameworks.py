"""Frameworks on nccl, on the lab's stand-ins, each started by its own launcher: `make frameworks`.

One of two ranks is sent astray from outside of the program (astray/), and nothing is prepared in the job.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from deploy.lab.environment import OF_FRAMEWORKS, environment
from tests.build.processes.ports import free_port
from tests.system.frameworks.environments import python_with
from tests.system.frameworks.launched import PROGRAMS, SLEEPER, launched

pytestmark = [pytest.mark.live, pytest.mark.ptrace, pytest.mark.frameworks, pytest.mark.lab]

HERE = Path(__file__).parent
KINDS = {
    "asleep": {"rank_not_joined"},
    "branch": {"collective_mismatch", "order_inversion", "rank_not_joined"},
    "starves": {"rank_not_joined"},
}


def lightning(port: str, folder: Path) -> tuple[str, ...]:
    """Rank 0 is what the user has started; it starts the other one."""
    return (python("pytorch-lightning"), str(PROGRAMS / "lightning_trainer.py"), "ddp")


def trainer(port: str, folder: Path) -> tuple[str, ...]:
    """The Trainer of transformers, under torchrun."""
    return (*torchrun(python("accelerate", "transformers"), port), str(PROGRAMS / "hf_trainer.py"), str(folder))


def accelerate(port: str, folder: Path) -> tuple[str, ...]:
    """Accelerate's own launcher."""
    run = (python("accelerate"), "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
    return (*run, "--main_process_port", port, str(PROGRAMS / "accelerated.py"))


def deepspeed(port: str, folder: Path) -> tuple[str, ...]:
    """DeepSpeed's own launcher and engine, which shards gradients."""
    packages = "hjson py-cpuinfo msgpack einops ninja tqdm psutil deepspeed".split()
    run = (python(*packages), "-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--master_port", port)
    return (*run, str(PROGRAMS / "deepspeed_zero.py"))


def megatron(port: str, folder: Path) -> tuple[str, ...]:
    """Megatron-core's layers and schedule, a layer's columns on either rank, under torchrun."""
    return (*torchrun(python("megatron-core"), port), str(PROGRAMS / "megatron_gpt.py"))


def torchtitan(port: str, folder: Path) -> tuple[str, ...]:
    """Its own trainer, which shards by FSDP2. Since 0.3 its attention wants kernels that Triton compiles, or FA3's."""
    return (*torchrun(python("triton", "torchtitan==0.2.2"), port), str(PROGRAMS / "torchtitan_llama.py"))


def python(*packages: str) -> str:
    """Return a Python with these, on the lab's PyTorch."""
    return python_with(*packages, site=str(environment(OF_FRAMEWORKS).site))


def torchrun(interpreter: str, port: str) -> tuple[str, ...]:
    """Return the command that starts two ranks of the program that follows."""
    return (interpreter, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port)


@pytest.mark.parametrize("fault", KINDS)
@pytest.mark.parametrize("framework", [lightning, trainer, accelerate, deepspeed, megatron, torchtitan])
def test_rank_that_goes_astray(framework: Callable[[str, Path], tuple[str, ...]], fault: str, tmp_path: Path) -> None:
    """Its ranks are found as they are, and the one is named, where it is."""
    lab = environment(OF_FRAMEWORKS)
    variables: Mapping[str, str] = {
        **lab.variables(tmp_path),
        "LAB_ASTRAY": f"{fault}:{SLEEPER}",
        "LAB_DEVICES": "2",
        "PYTHONPATH": str(HERE / "astray"),
        "UNHANG_TEST_BACKEND": "nccl",
        "LAB_SYNC": "yield",
    }
    with launched(framework(str(free_port()), tmp_path), tmp_path, probe=False, env=variables) as job:
        found = job.found()
        assert set(found) == {0, 1}, job.output.read_text(errors="replace")
        (name,) = {rank.identity.job for rank in found.values()}
        (finding,) = job.judged(str(name), patience_seconds=60.0).diagnosis.findings
    if fault == "branch" and not finding.culprits:
        return  # one against one: the calls are told, and nobody is blamed
    assert [culprit.rank for culprit in finding.culprits] == [SLEEPER], finding
    assert finding.kind in KINDS[fault], finding
    assert ("check_early" if fault == "branch" else "fetch_quota") in str(finding.where), finding
