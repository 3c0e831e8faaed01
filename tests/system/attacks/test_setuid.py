"""A program with more rights than its caller lends the agent to nobody: not by its environment nor by its files."""

import subprocess
import sys
from pathlib import Path

import pytest

from shared.missing import Missing, Reason
from shared.wire.log_events import Logs
from shared.wire.setup import Setup
from shared.wire.snapshot import NodeSnapshot, Process
from tests.build.processes.processes import until
from tests.system.attacks.programs import (
    ATTACKER,
    SECRET,
    SET_GROUP,
    SET_USER,
    VICTIM,
    Ask,
    ask_root,
    only_rank,
    program,
    refusals,
    secret,
    started,
)

pytestmark = [pytest.mark.root, pytest.mark.ptrace]

ALL_SOURCES = {"process", "stacks", "fds", "logs", "recorder", "setup"}


def assert_untouched(taken: NodeSnapshot) -> None:
    """Nothing of the only rank was read, and it is said why."""
    assert SECRET not in taken.model_dump_json()
    told = refusals(only_rank(taken))
    assert told.keys() == ALL_SOURCES
    for missing in told.values():
        assert missing.reason is Reason.NOT_PERMITTED
        assert "rights that the user who started it may not have" in missing.detail


def assert_refused(taken: NodeSnapshot) -> None:
    """The rank is seen, but the file is not opened."""
    assert SECRET not in taken.model_dump_json()
    rank = only_rank(taken)
    assert isinstance(rank.process, Process)
    assert isinstance(rank.logs, Missing)
    assert rank.logs.reason is Reason.NOT_PERMITTED
    assert "may have started the job" in rank.logs.detail


def test_su_at_its_prompt(ask: Ask) -> None:
    """It has the attacker's environment and root's rights; /etc/shadow stays shut."""
    with started("su", runs="su", NCCL_DEBUG_FILE="/etc/shadow"):
        taken = ask()
    assert_untouched(taken)
    assert "root:" not in taken.model_dump_json()


@pytest.mark.parametrize(
    ("owner", "group", "bits"), [(0, 0, SET_USER), (VICTIM, 0, SET_USER), (0, VICTIM, SET_GROUP)], ids=str
)
def test_program_with_the_rights_of_its_owner(folder: Path, owner: int, group: int, bits: int) -> None:
    """Set-user-ID or set-group-ID, root's or another user's."""
    log = secret(folder, owner=owner, group=group, mode=0o640)
    with started(program(folder, "sleep", owner=owner, group=group, bits=bits), "600", NCCL_DEBUG_FILE=log):
        assert_untouched(ask_root())


def test_program_with_capabilities_of_its_file(folder: Path) -> None:
    """It may read what its caller may not, with the caller's ids."""
    sleep = program(folder, "sleep")
    subprocess.run(("setcap", "cap_dac_read_search+ep", sleep), check=True)
    with started(sleep, "600", NCCL_DEBUG_FILE=secret(folder)):
        assert_untouched(ask_root())


ALL_ROOT = "import os, sys, time; os.setresgid(0, 0, 0); os.setgroups([]); os.setresuid(0, 0, 0); {}"


def test_program_that_has_made_all_its_ids_root(folder: Path, ask: Ask) -> None:
    """As sudo does at its prompt: by its ids it is root's own, but the kernel knows how it began."""
    python = program(folder, "python", bits=SET_USER, source=sys.executable)
    ready = folder / "ready"
    then = f"open({str(ready)!r}, 'w'); time.sleep(600)"
    variables = {"PYTHONHOME": sys.base_prefix, "NCCL_DEBUG_FILE": str(secret(folder))}
    with started(python, "-c", ALL_ROOT.format(then), runs="python", **variables):
        until(ready.exists, bool)
        assert ask().ranks == ()  # whose it is no id says: it is nobody's rank


@pytest.mark.parametrize("owner", [0, VICTIM])
def test_what_such_a_program_runs_in_its_turn(folder: Path, owner: int) -> None:
    """Wholly its owner's, begun with no more rights than its caller, who had gained them: the shell above tells."""
    setpriv = program(folder, "setpriv", owner=owner, bits=SET_USER)
    shell = f"{setpriv} --reuid {owner} sleep 600 & wait"
    with started("sh", "-c", shell, runs="sleep", NCCL_DEBUG_FILE=secret(folder, owner=owner)):
        assert_refused(ask_root())


def test_what_such_a_program_runs_when_its_caller_has_gone(folder: Path) -> None:
    """Its group is the attacker's still, and no login of root's has another group than root's."""
    setpriv = program(folder, "setpriv", bits=SET_USER)
    shell = f"{setpriv} --reuid 0 sleep 600 & exit"
    with started("sh", "-c", shell, runs="sleep", NCCL_DEBUG_FILE=secret(folder)) as caller:
        caller.wait(30)
        assert_refused(ask_root())


def test_another_group_by_a_program(folder: Path) -> None:
    """As newgrp and sg do it: wholly of another group, under a shell that is not."""
    setpriv = program(folder, "setpriv", group=VICTIM, bits=SET_GROUP)
    log = secret(folder, group=VICTIM, mode=0o640)
    with started(
        "sh", "-c", f"{setpriv} --regid {VICTIM} --keep-groups sleep 600 & wait", runs="sleep", NCCL_DEBUG_FILE=log
    ):
        assert_refused(ask_root())


def test_child_with_other_rights(folder: Path) -> None:
    """A rank of the attacker's own starts su: of that child its name and state are told, and no word of its command."""
    with started("sh", "-c", "exec 3<&0; su <&3 & wait", runs="su"):
        rank = only_rank(ask_root())
    (su,) = [child for child in rank.children if child.process.name == "su"]
    assert isinstance(su.stacks, Missing)
    assert su.stacks.reason is Reason.NOT_PERMITTED
    assert (su.process.syscall, su.process.wchan, su.process.before) == (None, None, None)
    assert su.process.command == ""


@pytest.mark.parametrize(("mode", "seen"), [(0o600, False), (0o644, True)], ids=oct)
def test_descriptor_that_a_privileged_parent_has_left_open(folder: Path, mode: int, seen: bool) -> None:
    """It was opened by root; what counts is whether the job's user may open it."""
    with open(secret(folder, mode=mode), "a") as log, started("sleep", "600", stdout=log.fileno()):
        rank = only_rank(ask_root())
    assert isinstance(rank.logs, Logs) == seen


def test_jobs_own_log_is_read(folder: Path, ask: Ask) -> None:
    """The attacker's own file, by the same way."""
    with started("sleep", "600", NCCL_DEBUG_FILE=secret(folder, owner=ATTACKER)):
        assert SECRET in ask().model_dump_json()


def test_log_of_roots_own_job_is_read(folder: Path, ask: Ask) -> None:
    """And another user's is not, though root may read it: who owns a log may have written anything into it."""
    with started("sleep", "600", user=0, NCCL_DEBUG_FILE=secret(folder, owner=0)):
        assert SECRET in ask().model_dump_json()
    log = secret(folder, owner=VICTIM)
    with started("sleep", "600", user=0, NCCL_DEBUG_FILE=log):
        assert SECRET not in ask().model_dump_json()
    with started("setpriv", "--bounding-set=-all", "sleep", "600", user=0, runs="sleep", NCCL_DEBUG_FILE=log):
        assert_refused(ask())


def test_root_of_a_user_namespace_is_the_user_outside(folder: Path, ask: Ask) -> None:
    """All capabilities and user 0 inside are none and an ordinary user here."""
    inside = ("unshare", "--user", "--map-root-user", "sleep", "600")
    with started(*inside, runs="sleep", NCCL_DEBUG_FILE=secret(folder)):
        assert_refused(ask())
    with started(*inside, runs="sleep", NCCL_DEBUG_FILE=secret(folder, owner=ATTACKER)):
        assert SECRET in ask().model_dump_json()


def test_file_of_the_kernels_under_an_honest_name(ask: Ask) -> None:
    """Everybody may read /proc/PID/maps by its mode, and the kernel shows it to the process's own user alone."""
    laid = 'mount --bind "$0" /etc/hosts && exec setpriv --reuid "$1" --regid "$1" --clear-groups sleep 600'
    with subprocess.Popen(("sleep", "600"), user=VICTIM, group=VICTIM, extra_groups=()) as other:
        maps = Path(f"/proc/{other.pid}/maps")
        address, *_, library = maps.read_text(encoding="utf-8").splitlines()[0].split()
        command = ("unshare", "--mount", "sh", "-c", laid, str(maps), str(ATTACKER))
        with started(*command, user=0, runs="sleep", MASTER_ADDR=library):
            rank = only_rank(ask())
        other.kill()
    assert isinstance(rank.setup, Setup)
    assert address not in rank.model_dump_json()
