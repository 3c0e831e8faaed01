"""Lines that belong together, and what stands around them: tracebacks, marks of launchers, times, wrapping, secrets."""

import time

import pytest

from shared.formats.logs.parse import clean_line, find_events
from shared.formats.logs.writers import rank_of_line
from shared.wire.log_events import EventKind
from tests.unit.shared.formats.logs.test_parse import events

TRACEBACK = """\
step 3
Traceback (most recent call last):
  File "/srv/train.py", line 9, in <module>
    main()
  File "/srv/train.py", line 5, in main
    raise ValueError("no such shard")
ValueError: no such shard
goodbye"""


def test_traceback_is_told_by_its_last_line() -> None:
    """Type and message, and the innermost line that is no library's."""
    (event,) = events(TRACEBACK, rank=2)
    assert (event.kind, event.rank, event.text) == (EventKind.EXCEPTION, 2, "ValueError: no such shard")
    raised = {"raised_file": "/srv/train.py", "raised_line": "5", "raised_function": "main"}
    assert event.fields == {"type": "ValueError", "message": "no such shard", **raised}
    library = '  File "/venv/lib/python3.11/site-packages/shards.py", line 7, in read\n    raise\n'
    (event,) = events(TRACEBACK.replace("ValueError: ", library + "ValueError: "), rank=2)
    assert event.fields.items() >= raised.items()


def test_interleaved_tracebacks_of_marked_ranks() -> None:
    """Two ranks write into one file at once."""
    mine = [f"[rank0]: {line}" for line in TRACEBACK.split("\n")[1:-1]]
    other = [f"[rank1]: {line}" for line in TRACEBACK.replace("ValueError", "KeyError").split("\n")[1:-1]]
    mixed = [line for pair in zip(mine, other, strict=True) for line in pair]
    found = events("\n".join(mixed))
    assert [(event.rank, event.fields["type"]) for event in found] == [(0, "ValueError"), (1, "KeyError")]


@pytest.mark.parametrize(
    "mark",
    [
        "[default{}]:",
        "[1,{}]<stderr>:",
        "Sat Nov 21 09:10:11 2026[1,{}]<stderr>:",
        "(Trainer pid=4{}, ip=10.1.2.3) ",
    ],
)
def test_interleaved_tracebacks_under_the_marks_of_launchers(mark: str) -> None:
    """The marks keep the ranks apart, whether or not they tell which rank it is."""
    mine = [f"{mark.format(0)}{line}" for line in TRACEBACK.split("\n")[1:-1]]
    other = [f"{mark.format(1)}{line}" for line in TRACEBACK.replace("ValueError", "KeyError").split("\n")[1:-1]]
    found = events("\n".join(line for pair in zip(mine, other, strict=True) for line in pair))
    assert [event.fields["type"] for event in found] == ["ValueError", "KeyError"]
    assert [event.rank for event in found] == ([0, 1] if "[1," in mark else [None, None])


def test_events_have_the_time_that_their_lines_have() -> None:
    """By the writer's clock; as a moment only where the machine that wrote it is this one."""
    line = "[rank1]:[E606 09:09:08.123456789 ProcessGroupNCCL.cpp:1] First PG on this rank to signal dumping."
    (event,) = events(line)
    assert (event.stamp, event.at) == ("06-06 09:09:08.123456", None)
    (dated,) = find_events([line], path="", rank=None, written_at=time.mktime((2026, 6, 7, 0, 0, 0, 0, 0, -1)))
    assert dated.at == pytest.approx(time.mktime((2026, 6, 6, 9, 9, 8, 0, 0, -1)) + 0.123456)


def test_chained_tracebacks_are_told_one_by_one() -> None:
    """The last is what ended the program."""
    chain = TRACEBACK.replace("goodbye", "\nDuring handling of the above exception, another exception occurred:\n")
    found = events(chain + "\n" + TRACEBACK.replace("ValueError", "torch.cuda.OutOfMemoryError"))
    assert [event.fields["type"] for event in found] == ["ValueError", "torch.cuda.OutOfMemoryError"]


def test_lines_of_two_processes_in_one() -> None:
    """Progress bars do not end their lines."""
    signal = "[E] First PG on this rank to signal dumping."
    glued = f"12%|#  | 3/25 [00:09<01:08][rank0]:{signal}[rank1]:{signal}"
    assert [event.rank for event in events(glued)] == [0, 1]


def test_wrapped_lines_are_put_together() -> None:
    """People and terminals break long lines."""
    (event,) = events(
        "[Rank 0] Watchdog caught collective operation timeout: \n  WorkNCCL(SeqNum=7, OpType=BROADCAST, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000)\n  ran for 600066 milliseconds before timing out."
    )
    assert event.fields["sequence"] == "7"


def test_colours_and_notes_of_launchers_are_taken_off() -> None:
    """And characters that a terminal would obey."""
    assert clean_line("\x1b[31mbad\x1b[0m\x07 news [repeated 15x across cluster]\r") == "bad news"
    assert clean_line("t/test_a.py::test_b[Killed process 4242] PASSED [ 9%]") == "t/test_a.py::test_b PASSED [ 9%]"


def test_mark_of_a_line_goes_before_the_file() -> None:
    """Whoever is named in the line has written it."""
    (event,) = events("[rank4]: First PG on this rank to signal dumping", rank=0)
    assert event.rank == 4
    assert rank_of_line("[rank0]: x") == 0
    assert rank_of_line("[Rank 0] x") is None


def test_secrets_are_not_carried() -> None:
    """Neither in the line nor in its parts."""
    (event,) = events(TRACEBACK.replace("no such shard", "api_key=0123abcd is wrong"))
    assert "0123abcd" not in event.model_dump_json()


@pytest.mark.parametrize("at", [70, 85])
def test_words_that_a_terminal_broke_are_read(at: int) -> None:
    """What stands on both of its lines is told once, with all that they say."""
    line = (
        "2026-11-21 09:10:11,123 WARNING worker.py:15 -- Worker proc VllmWorker-2 died unexpectedly, shutting down all"
    )
    found = find_events([line[:at], line[at:], "bye"], path="a.log", rank=None, voices=True)
    told = [event for event in found if event.kind is not EventKind.LAST_LINE]
    assert [(event.kind, event.fields["worker"]) for event in told] == [(EventKind.SIGNAL, "VllmWorker-2")]
