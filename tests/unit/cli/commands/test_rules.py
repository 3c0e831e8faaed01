"""`unhang rules`, and what a site's rules do to what is read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.packaging.environments import REPOSITORY

RULES = REPOSITORY / "tests" / "data" / "rules"
LOST = "node3 fabricd: lost link mlx5_0 to 10.0.0.7<33> after 4000 ms"


def unhang(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own: rules are read once."""
    start = (sys.executable, "-c", "from cli.main import main; main()")
    environment = {**os.environ, **variables}
    return subprocess.run([*start, *arguments], capture_output=True, text=True, cwd=REPOSITORY, env=environment)


def test_list_shows_what_a_site_adds() -> None:
    """And how many are built in, which does not change by it."""
    plain = json.loads(unhang("rules", "list", "--json").stdout)
    assert plain["site"] == []
    assert plain["built_in"]["lines"] > 100
    done = json.loads(unhang("--rules", str(RULES), "rules", "list", "--json").stdout)
    assert done["built_in"] == plain["built_in"]
    assert [each["id"] for each in done["site"]] == [
        "acme-fabric-reset",
        "acme-lease",
        "acme-token",
        "acme-lease-short",
    ]
    assert "acme-lease" in unhang("rules", "list", UNHANG_RULES=str(RULES)).stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LOST, "lines: transport_error; the rule acme-fabric-reset of your site fits"),
        ("wait_lease (acme/lease.py:41)", "frames: waiting for a lease of Acme's data service"),
        ("acme_0123456789abcdef0123456789abcdef", "secrets: shown as ***"),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "kernel_lines: xid"),
        ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "frames: in a collective"),
    ],
)
def test_explain_says_what_a_line_is_taken_for(line: str, said: str) -> None:
    """By rules of ours and of a site."""
    done = unhang("--rules", str(RULES), "rules", "explain", line)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


@pytest.mark.parametrize("line", [LOST, "wait_lease (acme/lease.py:41)"])
def test_explain_says_which_row_to_write(line: str, tmp_path: Path) -> None:
    """A row that can be used as it stands, once its example of what it must not match is one."""
    done = unhang("rules", "explain", line)
    assert done.returncode == 1
    row = done.stdout.partition("\n\n")[2]
    row = row.replace("'words that are in each such line'", "'lost link'").replace("those words, and", "lost link")
    row = row.replace(", what changes", " after")
    row = row.replace("(?P<peer>\\S+) after", "\\w+ to (?P<peer>\\S+) after")
    (tmp_path / "own.toml").write_text(row, encoding="utf-8")
    tested = unhang("rules", "test", str(tmp_path))
    assert (tested.returncode, tested.stdout) == (0, "1 rule can be used\n")
    assert "of your site fits" in unhang("--rules", str(tmp_path), "rules", "explain", line).stdout


def test_explain_says_what_nearly_takes_it() -> None:
    """The hint by which a rule is found, where its pattern does not match."""
    done = unhang("--rules", str(RULES), "rules", "explain", "fabricd: lost link")
    assert "nearly: it holds 'fabricd: lost link'" in done.stdout


def test_a_row_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """By the status, too."""
    text = (RULES / "acme.toml").read_text(encoding="utf-8")
    (tmp_path / "acme.toml").write_text(text.replace("acme/lease.py:41", "acme/lease.py:x"), encoding="utf-8")
    done = unhang("rules", "test", str(tmp_path))
    assert done.returncode == 1
    assert "3 rules can be used" in done.stdout
    assert "[[frames]] acme-lease: does not match" in done.stdout


def test_check_of_a_site_is_made(tmp_path: Path) -> None:
    """Of a variable that nothing of ours looks at, in a process that says it is a rank."""
    job = f"checked-{os.getpid()}"
    given = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": job, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    program = (sys.executable, "-c", "import time; print(flush=True); time.sleep(600)")
    for seconds, found in (("30", True), ("600", False)):
        environment = {**os.environ, **given, "ACME_LEASE_SECONDS": seconds}
        with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE) as rank:
            assert rank.stdout is not None and rank.stdout.readline()
            checks = json.loads(unhang("--rules", str(RULES), "check", job, "--json").stdout)["checks"]
            rank.kill()
        seen = {(each["id"], each["rule"]): each["seen"] for each in checks}
        assert (("site_rule", "acme-lease-short") in seen) == found
        if found:
            assert seen["site_rule", "acme-lease-short"].startswith("ACME_LEASE_SECONDS is 30 for rank 0 on ")
