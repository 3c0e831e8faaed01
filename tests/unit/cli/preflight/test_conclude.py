"""The report of what a board says: states, verdict, commands, and that text can steer no terminal."""

from collections.abc import Callable

import pytest

from cli.preflight.board import Board, Limits
from cli.preflight.conclude import conclude
from cli.preflight.conduct import Outcome, TrialPlan
from cli.tables.preflight import render_preflight
from shared.answer.preflight import NodeState, PreflightKind, PreflightReport, Soundness

Change = Callable[[Board], None]


def report(*changes: Change, nodes: int = 4, together: bool = True) -> PreflightReport:
    """Return the report of a board on which something was changed."""
    board = Board([f"n{node}" for node in range(nodes)], {}, Limits(), lambda _: None)
    board.together = frozenset(range(nodes)) if together else frozenset()
    for change in changes:
        change(board)
    return conclude(board, None)


def accused(kind: PreflightKind, *nodes: int) -> Change:
    """Add a finding."""

    def change(board: Board) -> None:
        board.accuse(kind, nodes, f"{kind} of {nodes}")
        if kind.value.startswith("node"):
            board.together -= set(nodes)

    return change


def test_all_together_is_sound() -> None:
    """Nothing was found, and all nodes work together."""
    found = report()
    assert (found.verdict, found.drain, found.hosts(NodeState.GOOD)) == (Soundness.SOUND, (), ("n0", "n1", "n2", "n3"))


@pytest.mark.parametrize("kind", [kind for kind in PreflightKind if kind.value.startswith(("node", "path_fails"))])
def test_a_bad_node(kind: PreflightKind) -> None:
    """It is named, and the commands drain it alone."""
    found = report(accused(kind, 2))
    assert (found.verdict, found.hosts(NodeState.BAD)) == (Soundness.BAD_NODES, ("n2",))
    assert [each.command for each in found.drain] == [
        "scontrol update NodeName=n2 State=DRAIN Reason=preflight",
        "kubectl cordon -- n2",
    ]
    assert found.headline == "1 bad node of 4: n2"


def test_a_bad_link() -> None:
    """One end is left out, and neither is bad; both are good again where the other end of each is bad anyway."""
    found = report(accused(PreflightKind.LINK_FAILS, 0, 3), accused(PreflightKind.LINK_SLOW, 1, 3))
    assert (found.verdict, found.drain) == (Soundness.BAD_NODES, ())
    assert (found.hosts(NodeState.LEFT_OUT), found.hosts(NodeState.BAD)) == (("n3",), ())
    also_bad = report(accused(PreflightKind.LINK_FAILS, 0, 3), accused(PreflightKind.NODE_FAILS, 3))
    assert [each.kind for each in also_bad.findings] == [PreflightKind.NODE_FAILS]
    assert also_bad.hosts(NodeState.LEFT_OUT) == ()


@pytest.mark.parametrize("kind", [PreflightKind.FAILS_AT_SCALE, PreflightKind.NOT_TOLD_APART])
def test_what_accuses_nobody(kind: PreflightKind) -> None:
    """The verdict is that it cannot be told, and no node is bad."""
    found = report(accused(kind, 0, 1, 2, 3), together=False)
    assert (found.verdict, found.hosts(NodeState.BAD), found.drain) == (Soundness.CANNOT_TELL, (), ())


def test_what_did_not_fit_into_the_deadline_is_said() -> None:
    """No node is called good that was not tried."""

    def late(board: Board) -> None:
        board.late = True

    found = report(late, together=False)
    assert found.verdict is Soundness.CANNOT_TELL and "deadline" in found.untested[0]
    assert found.hosts(NodeState.UNKNOWN) == ("n0", "n1", "n2", "n3")


def test_a_node_of_which_the_name_is_unknown_is_in_no_command() -> None:
    """`node 3` is no name that a scheduler knows."""

    def unnamed(board: Board) -> None:
        board.unnamed = frozenset({3})

    found = report(accused(PreflightKind.NODE_ABSENT, 3), unnamed)
    assert (found.hosts(NodeState.BAD), found.drain) == (("n3",), ())


def test_names_can_steer_no_terminal_and_no_shell() -> None:
    """What a node calls itself is foreign text."""

    def evil(board: Board) -> None:
        board.names[1] = "\x1b[2J$(reboot)"
        board.accuse(PreflightKind.NODE_FAILS, [1], f"{board.names[1]} fails", evidence=["\x1b]0;x\x07"])

    found = report(evil)
    text = render_preflight(found, width=100)
    assert "\x1b" not in text and "\x07" not in text
    assert found.drain == ()


def test_a_link_that_fails_on_several_paths_stands_once_in_the_headline() -> None:
    """The findings tell of each path."""
    kinds = (PreflightKind.LINK_FAILS, PreflightKind.PATH_LINK_FAILS, PreflightKind.PATH_LINK_FAILS)
    found = report(*(accused(kind, 1, 2) for kind in kinds))
    assert (found.headline, len(found.findings)) == ("Bad links: n1–n2", 3)


@pytest.mark.parametrize("empty", ["", "no answer within 5 s", "failed in the first all_reduce: ended by signal 9"])
def test_the_most_telling_words_of_a_trial(empty: str) -> None:
    """Not those of ranks that were ended for another one had failed."""
    plan = TrialPlan((0, 1), "gloo", 5.0)
    told = "failed while it connected to the other ranks: Connection refused"
    assert Outcome(plan, passed=False, said={0: empty, 1: told}).why == told
    assert Outcome(plan, passed=False, said={0: empty}).why == empty
