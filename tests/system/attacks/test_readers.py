"""On whose behalf files are read, by processes as /proc tells of them: cases that a test machine cannot bring about."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.proc import on_behalf_of
from agent.proc.credentials import has_borrowed_rights, require_own
from agent.proc.file_access import Reader
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from shared.errors import NotPermitted
from tests.build.processes.proc_trees import add_process, make_tree

ALICE, BOB = 1000, 1001
JOB = 500

ANYONE = Reader(None, None)
ROOT = Reader(0, frozenset({0}))

Add = Callable[..., None]


@pytest.fixture
def add(tmp_path: Path) -> Add:
    """Add a process: its pid, its parent, its user ids (one for all four), its group and what else it holds."""
    root = make_tree(tmp_path / "proc")

    def add(pid: int, parent: int, uids: str, *, gid: int | None = None, groups: str = "", caps: int = 0) -> None:
        four = uids if " " in uids else " ".join([uids] * 4)
        group = uids.split()[0] if gid is None else str(gid)
        add_process(root, pid, parent, {})
        (root / str(pid) / "status").write_text(
            f"PPid:\t{parent}\nUid:\t{four}\nGid:\t{' '.join([group] * 4)}\nGroups:\t{groups}\n"
            f"CapPrm:\t{caps:x}\nCapEff:\t{caps:x}\nCapAmb:\t0\n"
        )

    return add


def found(tmp_path: Path) -> tuple[Reader, ...]:
    """Ask about the job."""
    return readers_of(ProcFs(tmp_path / "proc"), JOB)


def one(uid: int, *groups: int) -> Reader:
    """Somebody with a group of their own and others."""
    return Reader(uid, frozenset({uid, *groups}))


def test_job_of_a_user_from_a_login(add: Add, tmp_path: Path) -> None:
    """Their shell above it is theirs as well, and root above that has let them in."""
    add(100, 1, "0")
    add(101, 100, "1000", groups="27")
    add(JOB, 101, "1000", groups="27")
    assert found(tmp_path) == (one(ALICE, 27),)


def test_job_of_another_user_by_su(add: Add, tmp_path: Path) -> None:
    """su has asked for a password: the job is the user's that it became."""
    add(100, 1, "1000")
    add(101, 100, "1000 0 0 0")
    add(JOB, 101, "1001")
    assert found(tmp_path) == (one(BOB),)


def test_job_of_roots_under_a_users_shell(add: Add, tmp_path: Path) -> None:
    """By su or by a program with a hole: both are asked, through as many processes of root's as there are."""
    add(100, 1, "1000")
    add(101, 100, "1000 0 0 0")
    add(102, 101, "0")
    add(JOB, 102, "0")
    assert found(tmp_path) == (ROOT, one(ALICE))


def test_login_counts_for_root_alone(add: Add, tmp_path: Path) -> None:
    """It outlives who started the job. A daemon that an administrator has started by hand hands on their login."""
    for uid, expected in (("0", (ROOT, Reader(ALICE, None))), ("1001", (one(BOB),))):
        add(JOB, 1, uid)
        for login, more in (("1000", expected[1:]), ("4294967295", ()), ("0", ()), ("", ())):
            (tmp_path / "proc" / str(JOB) / "loginuid").write_text(login)
            assert found(tmp_path) == (expected[0], *more)
        (tmp_path / "proc" / str(JOB)).rename(tmp_path / uid)


def test_root_with_a_users_group(add: Add, tmp_path: Path) -> None:
    """Who became root and kept their group did not log in as root."""
    add(JOB, 1, "0", gid=ALICE)
    assert found(tmp_path) == (Reader(0, frozenset({ALICE})), ANYONE)


def test_other_groups_above(add: Add, tmp_path: Path) -> None:
    """Whoever had fewer groups is asked as well."""
    add(100, 1, "1000")
    add(JOB, 100, "1000", gid=27)
    assert found(tmp_path) == (Reader(ALICE, frozenset({27})), one(ALICE))


def test_ancestors_without_end_or_without_trace(add: Add, tmp_path: Path) -> None:
    """Who is above is not known then: only what everybody may read is read."""
    add(JOB, 499, "1000")
    assert found(tmp_path) == (one(ALICE), ANYONE)
    for pid in range(499, 400, -1):
        add(pid, pid - 1, "1000")
    assert found(tmp_path) == (one(ALICE), ANYONE)


def test_ids_that_our_user_namespace_does_not_know(add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are shown as one number, which is nobody's; without such a namespace it is a user's as any other."""
    add(JOB, 1, "65534")
    assert found(tmp_path) == (one(65534),)
    monkeypatch.setattr(on_behalf_of, "_sees_all_ids", lambda: False)
    assert found(tmp_path) == (Reader(None, None),)


@pytest.mark.parametrize(
    ("data", "own"),
    [
        (struct.pack("=QQQQ", 6, 4096, 23, 0), True),
        (struct.pack("=QQQQ", 6, 4096, 23, 1), False),
        (struct.pack("=IIII", 6, 4096, 23, 0), True),
        (struct.pack("=IIII", 6, 4096, 23, 1), False),
        (struct.pack("=QQ", 6, 4096), False),
        (b"\0" * 5, False),
    ],
)
def test_how_the_program_began(add: Add, tmp_path: Path, data: bytes, own: bool) -> None:
    """By AT_SECURE, of programs of 64 and of 32 bits; where it does not stand, the worse."""
    add(JOB, 1, "1000")
    (tmp_path / "proc" / str(JOB) / "auxv").write_bytes(data)
    if own:
        require_own(ProcFs(tmp_path / "proc"), JOB)
    else:
        with pytest.raises(NotPermitted, match="rights that the user who started it may not have"):
            require_own(ProcFs(tmp_path / "proc"), JOB)


@pytest.mark.parametrize("words", ["=QQ", "=II"])
@pytest.mark.parametrize(
    ("caller", "secured", "now", "borrowed"),
    [(ALICE, 1, 0, True), (ALICE, 0, 0, False), (ALICE, 1, ALICE, False), (0, 1, 0, False)],
)
def test_who_began_a_program_that_is_wholly_its_owners(
    add: Add, tmp_path: Path, words: str, caller: int, secured: int, now: int, borrowed: bool
) -> None:
    """Programs of 32 bits as those of 64; one that root itself began, or that gained a group alone, is its user's."""
    add(JOB, 1, str(now))
    noted = ((6, 4096), (11, caller), (23, secured), (15, 0x7FFF_0000), (0, 0))
    (tmp_path / "proc" / str(JOB) / "auxv").write_bytes(b"".join(struct.pack(words, *each) for each in noted))
    assert has_borrowed_rights(ProcFs(tmp_path / "proc"), JOB) == borrowed


@pytest.mark.parametrize("uids", ["1000 0 0 0", "1000 1000 0 0", "1000 1000 1000 0", "0 1000 1000 1000", "0 0 0"])
def test_ids_that_are_not_equal(add: Add, tmp_path: Path, uids: str) -> None:
    """Whichever of the four differs."""
    add(JOB, 1, uids)
    with pytest.raises(NotPermitted):
        found(tmp_path)
