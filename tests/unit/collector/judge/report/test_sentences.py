"""What is advised where nothing can be told yet leads to an answer."""

from itertools import combinations

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Verdict
from shared.missing import Missing, Reason
from shared.wire.stacks import Frame
from tests.build.jobs.four_ranks import AWAY, RANKS, looks_at_all_stuck, looks_without
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import USER, WORLD, Collective, Job, Seen, Stay, Step, live_looks

READ = Frame("read_shard", "/home/ada/data.py", 12)
JOIN = Frame("Thread.join", "/usr/lib/python3.11/threading.py", 1119)


@pytest.mark.parametrize("frames", [(USER,), (USER, JOIN)])
def test_looking_again_as_advised_decides(frames: tuple[Frame, ...]) -> None:
    """Without a recorder two looks a few seconds apart may not do; those of the advice do."""
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD)] * 6 for rank in range(4)}
    steps[3][4:] = [Stay()]
    seen = {rank: Seen() for rank in range(4)} | {3: Seen(frames)}

    def asked(interval_seconds: float) -> tuple[Verdict, list[str]]:
        looks = live_looks(Job(steps), seen, recorder=False, interval_seconds=interval_seconds)
        answer = diagnose(looks, Expected(job=None, world_size=4))
        return answer.verdict, [step.command or "" for step in answer.next_steps]

    verdict, commands = asked(1.0)
    assert verdict is Verdict.CANNOT_TELL
    words = commands[0].split()
    assert words[:2] == ["unhang", "diagnose"]
    patience = float(words[words.index("--patience") + 1])
    assert asked(patience)[0] is Verdict.HUNG


@pytest.mark.parametrize("read", [False, True])
def test_what_keeps_native_frames_from_being_read_is_said_where_they_would_tell(read: bool) -> None:
    """Ranks of a container, seen from its node, may wait in C for each other; inside it could be read."""
    called = Frame("_lib_step", "/env/lib/python3.11/site-packages/unknown_library/steps.py", 3)
    looks = live_looks(
        Job({0: [Stay()], 1: [Stay()]}), dict.fromkeys((0, 1), Seen((USER, called))), recorder=False, looks=3
    )
    if not read:
        why = Missing(source="stacks", reason=Reason.UNREADABLE, detail="run it in the container")
        looks = [*looks[:-1], *with_rank(looks[-1:], 0, stacks=why)]
    found = judged(looks)
    assert found.verdict is Verdict.CANNOT_TELL
    assert (found.next_steps[0].text == "rank 0 may wait for others in C: run it in the container") is not read


def test_two_ranks_that_differ_in_sizes_alone_are_told_with_their_sizes() -> None:
    """Where the operation's name is the same it is no difference to show."""
    steps: dict[int, list[Step]] = {0: [Collective(WORLD)] * 3, 1: [Collective(WORLD), Collective(WORLD, size=32)]}
    (finding,) = judged(live_looks(Job(steps), {0: Seen(), 1: Seen()})).findings
    assert "rank 0 (all_reduce [16] of type Float) vs. rank 1 (all_reduce [32] of type Float)" in finding.summary


@pytest.mark.parametrize("recorded", [ranks for size in range(1, 4) for ranks in combinations(RANKS, size)])
@pytest.mark.parametrize("away", [(3,), (2, 3), ()])
def test_that_no_record_tells_is_said_only_where_there_is_none(
    recorded: tuple[int, ...], away: tuple[int, ...]
) -> None:
    """Beside `3 with a flight record` it would be wrong: who has none is told, or that those there are do not tell."""
    none = Missing(source="recorder", reason=Reason.NOT_ENABLED, detail="switched off")
    looks = looks_without(dict.fromkeys(away, AWAY)) if away else looks_at_all_stuck()
    for rank in set(RANKS) - {*recorded}:
        looks = with_rank(looks, rank, recorder=none)
    found = judged(looks)
    assert found.coverage.with_trace == len(recorded)
    remarks = [remark for finding in found.findings for remark in finding.remarks]
    assert not any("no flight record shows which operation" in remark for remark in remarks)
