"""Who wrote a line, by whichever mark: tables of made-up lines, and what only looks alike."""

import pytest

from shared.formats.logs.parse import find_events
from shared.formats.logs.writers import WriterMark, naming_of

OLD = (
    "[E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, "
    "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800100 milliseconds before timing out."
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def ranks(*lines: str) -> list[int | None]:
    """The ranks that the events of one file are given to."""
    naming = naming_of([lines])
    return [event.rank for event in find_events(lines, path="job.log", rank=None, naming=naming)]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ((OLD,), [3]),
        ((f"[rank=3] {OOM}",), [3]),
        ((f"[rank: 3] {OOM}",), [3]),
        ((f"2026-11-21 09:10:11,123 [RANK 3] {OOM}",), [3]),
        ((f"rank 3: {OOM}",), [3]),
        ((f"[node1:3]: {OOM}", f"[node2:4]: {OOM}"), [3, 4]),
        ((f"2026-11-21 09:10:11.123\tnode1:3\ttrainer:648\tERROR\t{OOM}",), [3]),
        ((f"3: {OOM}", "0: step 9", f"  1: {OOM}"), [3, 1]),
        (("3: Traceback (most recent call last):", "1: step 9", "3: KeyError: 'a'"), [3]),
        ((f"[trainer3]:{OOM}", f"[default3]:{OOM}"), [3, 3]),
        ((f"3: [rank3]: {OOM}",), [3]),
    ],
)
def test_each_names_a_writer(lines: tuple[str, ...], wanted: list[int]) -> None:
    assert ranks(*lines) == wanted


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        # with PyTorch's own marks beside it, a place in a group
        ((OLD, "[rank5]:[E1121 09:10:11.1] [Rank 3] x"), [None]),
        # local numbers, of two nodes
        ((f"[node1:3]: {OOM}", f"[node2:3]: {OOM}"), [None, None]),
        ((f"node1: [default3]:{OOM}", f"node2: [default3]:{OOM}"), [None, None]),
        ((f"[default3]:{OOM}", "[default3]:[rank7]: x"), [None]),
        # a task of several ranks
        ((f"0: {OOM}", "0: [rank5]: x"), [None]),
        # files with lines, ports, line numbers, a counter
        ((f"[trainer.py:3]: {OOM}",), [None]),
        ((f"[node1:29500]: {OOM}",), [None]),
        ((f"2026-11-21\ttrainer:648\tERROR\t{OOM}",), [None]),
        (("153: step 9", "170: step 10", f"201: {OOM}"), [None]),
        (("step 9", "step 10", f"3: {OOM}"), [None]),
        ((f"RuntimeError: {OOM}",), [None]),
    ],
)
def test_what_is_not_the_rank(lines: tuple[str, ...], wanted: list[int | None]) -> None:
    assert ranks(*lines) == wanted


def test_a_local_rank_in_two_files_is_of_two_nodes() -> None:
    assert naming_of([[f"[default3]:{OOM}"]]).marks == {WriterMark.LOCAL}
    assert naming_of([[f"[default3]:{OOM}"], [f"[default3]:{OOM}"]]).marks == set()


def test_a_label_with_a_host_tells_the_host() -> None:
    """pdsh and clush: the line behind it is read as any other."""
    lines = ("node04: Traceback (most recent call last):", "node05: step 9", "node04: KeyError: 'a'")
    (event,) = find_events(lines, path="job.log", rank=None)
    assert (event.fields["type"], event.fields["writer_host"]) == ("KeyError", "node04")
    (event,) = find_events((f"node04: {OOM}", *["step 9"] * 9), path="job.log", rank=None)
    assert "writer_host" not in event.fields


def test_a_marked_error_ends_a_traceback_that_was_cut_away() -> None:
    (event,) = find_events(["[rank3]: KeyError: 'a'"], path="job.log", rank=None)
    assert (event.rank, event.fields) == (3, {"type": "KeyError", "message": "'a'"})
    assert find_events(["[rank3]: a: b", "[rank3]: Error rate: 3", "KeyError: 'a'"], path="", rank=None) == ()
