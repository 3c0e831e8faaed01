"""Programs that a question has started are found and ended, whatever /proc hides."""

import subprocess
import sys

import pytest

from tests.architecture.import_graph import REPOSITORY

PROGRAM = """
import ctypes, os, subprocess
from cli.sources.helpers import Helpers
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as one that its user has started
hidden = subprocess.run(["cat", "/proc/1/stat"], capture_output=True).returncode != 0
before = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
with Helpers():
    started = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
print(hidden, started.wait(), before.poll())
before.communicate()
"""


@pytest.mark.root
@pytest.mark.parametrize(("hidepid", "hidden"), [(0, False), (1, True), (2, True)])
def test_children_are_ended_where_proc_hides_others(hidepid: int, hidden: bool) -> None:
    """With hidepid=1 /proc lists processes that may not be read: they are nobody's children here."""
    mounted = f'mount -t proc -o hidepid={hidepid} proc /proc && exec "$@"'
    apart = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", mounted, "sh")
    done = subprocess.run(
        (*apart, sys.executable, "-c", PROGRAM), capture_output=True, text=True, timeout=60, cwd=REPOSITORY, check=False
    )
    assert (done.stdout, done.stderr) == (f"{hidden} -9 None\n", "")
