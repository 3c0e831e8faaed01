"""`import unhang` in a stranger's program, which has a `shared` of its own, and whose process stays its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.wheel.build_hook import private
from tests.system.packaging.environments import REPOSITORY, RUN_SECONDS, Environment

HANG = REPOSITORY / "tests" / "data" / "cases" / "missing_rank2"

PROGRAM = """
import sys
import shared, unhang

before = set(sys.modules)
observed: unhang.Observed = unhang.read(sys.argv[1])
diagnosis: unhang.Diagnosis = unhang.diagnose(observed)
(finding,) = diagnosis.findings
print(diagnosis.verdict.value, finding.kind.value, [rank.rank for rank in finding.culprits], len(diagnosis.read))
try:
    unhang.look("no-such-job")
except unhang.UnhangError as error:
    print(error)
print(shared.OWNER, sorted({"agent", "cli", "collector"} & set(sys.modules)))
"""


def test_program_reads_and_judges(installed: Environment, tmp_path: Path) -> None:
    """What it names is what the command names; its modules are its own."""
    said = installed.run("python", "-c", PROGRAM, str(HANG), cwd=tmp_path).splitlines()
    assert said[0] == "hung rank_not_joined [2] 4"
    assert said[-1] == "someone else []"
    assert "no-such-job" in said[1]


@pytest.mark.release
def test_program_is_checked_with_our_types(installed: Environment, tmp_path: Path) -> None:
    """They come with the package: mypy, strict, finds nothing in the program, and a mistake in another."""
    for text, status in (
        (PROGRAM.replace("import shared, unhang", "import unhang").replace("shared.OWNER, ", ""), 0),
        ("import unhang\nunhang.read(1)\n", 1),
    ):
        (tmp_path / "program.py").write_text(text, encoding="utf-8")
        python = installed.folder / "bin" / "python"
        command = (sys.executable, "-m", "mypy", "--strict", f"--python-executable={python}", "program.py")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("from shared.errors import UnhangError", "from unhang._app.shared.errors import UnhangError"),
        ("def f():\n    from agent import agent", "def f():\n    from unhang._app.agent import agent"),
        ("'''\nfrom shared import it\n'''", "'''\nfrom shared import it\n'''"),
        ("from sharedness import it\nfrom . import shared", "from sharedness import it\nfrom . import shared"),
    ],
)
def test_imports_of_ours_alone_are_rewritten(source: str, becomes: str) -> None:
    """In statements, wherever they stand; texts that look like one stay."""
    assert private(source) == becomes


def test_import_that_cannot_be_rewritten_is_refused() -> None:
    """Its name would be another one in the wheel."""
    with pytest.raises(ValueError, match="line 2"):
        private("import os\nimport shared.errors")
