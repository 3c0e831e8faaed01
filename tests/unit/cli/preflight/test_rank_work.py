"""What a rank of a trial computes and says, in this process."""

import pytest

from cli.preflight.user_python import trial_runner
from cli.preflight.user_python.rank_work import use_device

ORDER = {"backend": "gloo", "gpus": []}

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


def test_matrices_are_compared_with_the_right_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong number of a million is seen."""
    import torch  # takes a second and much memory, which workers that list the tests need not

    phases: list[object] = []
    assert use_device(ORDER, 0, 0, lambda **fields: phases.append(fields["phase"]))["multiply_seconds"] > 0
    assert phases == ["allocate", "multiply"]
    multiply = torch.Tensor.__matmul__

    def wrongly(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        product = multiply(one, other)
        product[700, 300] += 1
        return product

    monkeypatch.setattr(torch.Tensor, "__matmul__", wrongly)
    with pytest.raises(RuntimeError, match="a product of matrices is wrong"):
        use_device(ORDER, 0, 0, lambda **_: None)
