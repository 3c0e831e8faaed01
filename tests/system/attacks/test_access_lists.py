"""Access lists decide for the agent as they do for the job's user: whom one leaves out gets nothing through us."""

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.proc.file_access import READ, SEARCH, Permissions, Reader, parse_access_list, permissions_of
from shared.errors import NotPermitted
from shared.missing import Missing
from tests.system.attacks.programs import ATTACKER, SECRET, VICTIM, Ask, ask_root, only_rank, secret, started

pytestmark = [pytest.mark.root, pytest.mark.ptrace]

USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
NOBODY = 0xFFFF_FFFF

Entries = list[tuple[int, int, int]]


def set_list(path: Path, entries: Entries) -> None:
    """Give a file an access list, as setfacl does; its entries are tag, permissions and id."""
    data = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + data)


def naming(user: int, granted: int, *, others: int = 4) -> Entries:
    """Return a list that says something of one user."""
    first = [(USER_OBJ, 6, NOBODY), (USER, granted, user), (GROUP_OBJ, 4, NOBODY)]
    return [*first, (MASK, 7, NOBODY), (OTHER, others, NOBODY)]


def test_list_that_leaves_the_jobs_user_out(folder: Path, ask: Ask) -> None:
    """Everybody else may read it, and its mode shows no more than a plus sign."""
    log = secret(folder, mode=0o644)
    set_list(log, naming(ATTACKER, 0))
    with started("sleep", "600", NCCL_DEBUG_FILE=log):
        rank = only_rank(ask())
    assert SECRET not in rank.model_dump_json()
    assert isinstance(rank.logs, Missing)
    assert f"user {ATTACKER} may not read" in rank.logs.detail


def test_list_that_lets_the_jobs_user_in(folder: Path, ask: Ask) -> None:
    """The other way round it counts as well, of what the job holds: what a variable names must be its own."""
    log = secret(folder)
    set_list(log, naming(ATTACKER, 4, others=0))
    with open(log, "a") as held, started("sleep", "600", stdout=held.fileno()):
        assert SECRET in ask().model_dump_json()


def test_list_of_a_folder_on_the_way(folder: Path) -> None:
    """Whoever may not enter it does not get at what lies in it."""
    inner = folder / "inner"
    inner.mkdir(mode=0o755)
    log = secret(inner, mode=0o644)
    set_list(inner, [(t, 7 if t != USER else 0, i) for t, _, i in naming(ATTACKER, 0)])
    with started("sleep", "600", NCCL_DEBUG_FILE=log):
        assert SECRET not in ask_root().model_dump_json()


def test_list_of_a_file_that_the_job_holds(folder: Path) -> None:
    """Standard output that a parent has opened."""
    log = secret(folder, mode=0o644)
    set_list(log, naming(ATTACKER, 0))
    with open(log, "a") as held, started("sleep", "600", stdout=held.fileno()):
        assert SECRET not in ask_root().model_dump_json()


class Person(NamedTuple):
    """Somebody who tries files."""

    uid: int
    groups: tuple[int, ...]


PEOPLE = [
    Person(ATTACKER, (ATTACKER,)),
    Person(ATTACKER, (VICTIM, 61013)),
    Person(VICTIM, (VICTIM, 61014)),
    Person(61013, (61013, 61014, ATTACKER)),
    Person(61014, (61015,)),
]
IDS = (ATTACKER, VICTIM, 61013, 61014)

TRY = """
import json, os, sys
uid, groups, folder = int(sys.argv[1]), json.loads(sys.argv[2]), os.open(sys.argv[3], os.O_RDONLY)
os.setgroups(groups[1:]); os.setgid(groups[0]); os.setuid(uid)
def may(do):
    try:
        do()
    except PermissionError:
        return False
    return True
names = json.load(sys.stdin)
print(json.dumps({n: [may(lambda: os.close(os.open(n, os.O_RDONLY, dir_fd=folder))),
                      may(lambda: os.stat(n + "/.", dir_fd=folder))] for n in names}))
"""


def kernels_answers(person: Person, folder: Path, names: Sequence[str]) -> dict[str, list[bool]]:
    """Have somebody try to open and to enter, and return what they could."""
    command = (sys.executable, "-I", "-S", "-c", TRY, str(person.uid), json.dumps(person.groups), str(folder))
    done = subprocess.run(command, input=json.dumps(names), capture_output=True, text=True, check=True)
    answers: dict[str, list[bool]] = json.loads(done.stdout)
    return answers


def random_list(chance: random.Random) -> Entries:
    """Return a list as the kernel takes it: users and groups in order, a mask where there are any."""
    users = sorted(chance.sample(IDS, chance.randint(0, 2)))
    groups = sorted(chance.sample(IDS, chance.randint(0, 3)))
    entries = [(USER_OBJ, chance.randrange(8), NOBODY), *((USER, chance.randrange(8), each) for each in users)]
    entries += [(GROUP_OBJ, chance.randrange(8), NOBODY), *((GROUP, chance.randrange(8), each) for each in groups)]
    return [*entries, (MASK, chance.choice((0, 1, 4, 5, 7)), NOBODY), (OTHER, chance.randrange(8), NOBODY)]


def test_computed_answer_is_the_kernels(folder: Path) -> None:
    """Owners, modes and lists by chance, people who try, and what we compute for them."""
    chance = random.Random(20)
    names = [f"d{number}" for number in range(400)]
    for name in names:
        path = folder / name
        path.mkdir()
        os.chown(path, chance.choice(IDS), chance.choice(IDS))
        path.chmod(chance.randrange(0o1000))
        if chance.random() < 0.75:
            set_list(path, random_list(chance))
    told = {name: permissions_at(folder / name) for name in names}
    for person in PEOPLE:
        reader = Reader(person.uid, frozenset(person.groups))
        computed = {name: [reader.may(told[name], READ), reader.may(told[name], SEARCH)] for name in names}
        assert computed == kernels_answers(person, folder, names)
        assert any(may for each in computed.values() for may in each)
        unknown = (Reader(None, None), Reader(person.uid, None))
        for wanted in (READ, SEARCH):
            for name in names:
                assert reader.may(told[name], wanted) >= any(one.may(told[name], wanted) for one in unknown)


def permissions_at(path: Path) -> Permissions:
    """Ask a file, held as the agent holds it."""
    held = os.open(path, os.O_PATH)
    try:
        return permissions_of(held)
    finally:
        os.close(held)


@pytest.mark.parametrize("data", [b"", b"\2\0\0", b"\1\0\0\0", b"\2\0\0\0" + b"x" * 9])
def test_list_of_an_unknown_kind(data: bytes) -> None:
    """What is not understood grants nothing."""
    with pytest.raises(NotPermitted):
        parse_access_list(data)
