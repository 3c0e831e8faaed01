"""Jobs whose ranks go round in the same few lines: nothing shows whether they work, or ask for what never comes."""

from dataclasses import replace

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Verdict
from shared.wire.stacks import Frame
from tests.build.jobs.simulated import PAIRS, USER, Job, Seen, Stay, live_looks, training

AT_WORK = Seen(frames=(USER,), state="R", cpu_share=1.0)
NEXT_LINE = USER._replace(line=41)
ELSEWHERE = Frame("validate", USER.file, 90)


@pytest.mark.parametrize(
    ("frames", "after", "recorder", "verdict"),
    [
        ([USER, USER], 90.0, True, Verdict.CANNOT_TELL),
        ([USER, NEXT_LINE], 90.0, True, Verdict.CANNOT_TELL),
        ([USER, USER], 4.0, False, Verdict.CANNOT_TELL),
        ([USER, USER], 30.0, True, Verdict.CANNOT_TELL),
        ([USER, USER], 4.0, True, Verdict.NOT_HUNG),
        ([USER, ELSEWHERE], 90.0, True, Verdict.NOT_HUNG),
    ],
)
def test_where_all_go_round_in_one_place_nothing_shows_whether_they_work(
    frames: list[Frame], after: float, recorder: bool, verdict: Verdict
) -> None:
    """`while not work.is_completed()` on every rank is no progress, and no proof of a hang either."""
    job = Job({rank: [*training(rank, 2), Stay()] for rank in range(4)}, PAIRS)
    looks = [
        live_looks(
            job,
            dict.fromkeys(range(4), replace(AT_WORK, frames=(frame,))),
            after_seconds=after - 3.0,
            recorder=recorder,
        )[i]
        for i, frame in enumerate(frames)
    ]
    diagnosis = diagnose(looks, Expected())
    assert diagnosis.verdict is verdict and not diagnosis.findings
    assert ("poll for what does not come" in diagnosis.headline) is (verdict is Verdict.CANNOT_TELL)


def test_who_goes_round_in_another_place_than_the_others_is_told_beside_them() -> None:
    """Two ranks that wait for each other's message poll in functions of their own."""
    job = Job({rank: [*training(rank, 2), Stay()] for rank in range(4)}, PAIRS)
    seen = {rank: replace(AT_WORK, frames=(USER if rank < 2 else ELSEWHERE,)) for rank in range(4)}
    diagnosis = diagnose(live_looks(job, seen, after_seconds=4.0, recorder=False), Expected())
    assert diagnosis.verdict is Verdict.CANNOT_TELL and not diagnosis.findings
    where = "ranks 0-1 were at train_step (/home/ada/train.py:40), ranks 2-3 were at validate (/home/ada/train.py:90)"
    assert f"{where} in every look" in diagnosis.headline
