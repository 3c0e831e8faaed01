"""What is advised where nothing can be told yet leads to an answer."""

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.words import Verdict
from shared.wire.stacks import Frame
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
