"""What a rank of a trial computes and says."""

import subprocess
import sys

import pytest

from cli.preflight.user_python import trial_runner
from tests.build.processes.commands import REPOSITORY

# What c10d raises: https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/NCCLUtils.cpp
OF_NCCL = """NCCL error in: /pytorch/torch/csrc/NCCLUtils.cpp:94, invalid usage (run with NCCL_DEBUG=WARN for details)
ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
Last error:
Bootstrap : no socket interface found"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OF_NCCL, "Bootstrap : no socket interface found (RuntimeError: NCCL error in: "),
        ("no such backend\nand more", "RuntimeError: no such backend"),
        ("", "RuntimeError: "),
        ("ncclInternalError: Internal check failed.\nLast error:\n", "RuntimeError: ncclInternalError"),
        ("x" * 5000 + "\nLast error:\n" + "y" * 5000, "y" * 200),
    ],
)
def test_what_an_error_says(text: str, said: str) -> None:
    """NCCL's own last error comes first, for it is the reason; nothing is longer than the report has room for."""
    found = trial_runner.words_of(RuntimeError(text))
    assert found.startswith(said) and len(found) <= 520 and "\n" not in found


MULTIPLIED = """
import torch
from cli.preflight.user_python.rank_work import use_device

order = {"backend": "gloo", "gpus": []}
phases = []
assert use_device(order, 0, 0, lambda **fields: phases.append(fields["phase"]))["multiply_seconds"] > 0
assert phases == ["allocate", "multiply"], phases
multiply = torch.Tensor.__matmul__

def wrongly(one, other):
    product = multiply(one, other)
    product[700, 300] += 1
    return product

torch.Tensor.__matmul__ = wrongly
use_device(order, 0, 0, lambda **_: None)
"""


def test_matrices_are_compared_with_the_right_result() -> None:
    """One wrong number of a million is seen.

    In a process of its own: in the memory of whoever has imported PyTorch each `unhang` that other tests run on this
    machine would look for a process group, which takes a second of it.
    """
    command = (sys.executable, "-c", MULTIPLIED)
    done = subprocess.run(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: a product of matrices is wrong"), done.stderr
