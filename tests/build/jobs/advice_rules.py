"""What makes a next step absurd, by rules that read nothing but the answer and how it was asked for.

1. A command runs as printed: `unhang` takes its options, it holds nothing to be filled in, and of files it shows what
   is in them.
2. It asks whom was asked: a collector, hosts over ssh or files are named in it.
3. It is not the question that was just asked, nor said twice.
4. Of files or a job that is gone it asks nothing that only runs, and sends no signal.
5. It speaks of nothing that the evidence does not hold.
6. Its words are whole: no negative count, no `1 ranks`, no empty place.
7. Whoever is proven to stand in the user's code is told the line, and a hang is never left without a step.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import click

from cli.main import unhang
from shared.answer.diagnosis import Diagnosis, Finding, NextStep
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.rank_sets import unfold

_TAKES_A_SOURCE = frozenset({"diagnose", "stacks", "sequences", "logs", "fds", "check", "look", "jobs"})
_TO_BE_FILLED_IN = re.compile(r"…|\.\.\.|\bNODES\b|<\w+>|\bURL\b|\bDIR\b")
_BROKEN = re.compile(
    r"(?<![\d\w.-])-\d+ (ranks?|others?|processes|nodes|more|times?)\b|\bother -\d"
    r"|\b1 (ranks|processes|nodes|hosts|looks)\b"
    r"|\branks \d+ |\brank \d+[-,]\d|\bNone\b|\{\w*\}| \(\)|``|''| ,|  |: *$"
)
_OF_DEVICES = re.compile(r"\bGPUs?\b|\bdriver\b|PCIe|NCCL_P2P")
_HARDWARE = frozenset({Cause.GPU_FAULT, Cause.NETWORK, Cause.DEVICE_SYNC})
_NOT_NCCL = frozenset({"gloo", "mpi", "ucc"})


@dataclass(frozen=True)
class Situation:
    """How the answer was asked for: the words of its source, and whether the job was looked at as it ran."""

    source: tuple[str, ...] = ()
    live: bool = True
    backends: frozenset[str] = frozenset()
    """Backends whose operations are on record; empty: not known."""


@dataclass(frozen=True)
class Complaint:
    """One absurd step, and the rule that it breaks."""

    rule: str
    step: NextStep | None
    why: str

    def __str__(self) -> str:
        said = "" if self.step is None else f": {self.step.text!r} {self.step.command or ''}"
        return f"{self.rule}: {self.why}{said}"


def complaints(answer: Diagnosis, situation: Situation) -> Iterator[Complaint]:
    """Yield what is absurd about the steps of an answer; `broken words` looks at its sentences, too."""
    groups = [(finding, finding.next_steps) for finding in answer.findings] + [(None, answer.next_steps)]
    dead = not situation.live or _is_over(answer)
    for finding, steps in groups:
        for at, step in enumerate(steps):
            for rule, why in _of_step(step, finding, answer, situation, dead=dead):
                yield Complaint(rule, step, why)
            if step in steps[:at] or (step.command and step.command in [each.command for each in steps[:at]]):
                yield Complaint("said twice", step, "it stands further up")
    for text in _sentences(answer):
        if (found := _BROKEN.search(text)) is not None:
            yield Complaint("broken words", None, f"{found[0]!r} in {text!r}")
    yield from _left_alone(answer)


def _is_over(answer: Diagnosis) -> bool:
    return answer.verdict is Verdict.DIED or answer.state in ("finished", "ended")


def _of_step(
    step: NextStep, finding: Finding | None, answer: Diagnosis, situation: Situation, *, dead: bool
) -> Iterator[tuple[str, str]]:
    if (found := _BROKEN.search(step.text)) is not None:
        yield "broken words", repr(found[0])
    for why in _unheld(step, finding, answer, situation):
        yield "not in the evidence", why
    if step.command is None:
        return
    words = shlex.split(step.command)
    if (why := _unfit(words)) is not None:
        yield "does not run", why
        return
    if words[0] == "unhang" and words[1] in _TAKES_A_SOURCE:
        lacking = [word for word in situation.source if word not in words]
        if lacking:
            yield "asks another", f"{shlex.join(lacking)} is missing"
        if words[1] == "diagnose" and not _options(words[2:], situation):
            yield "repeats the question", "nothing in it differs"
    if dead and (why := _needs_a_live_job(words, finding, situation)):
        yield "live, of a dead job", why


def _unfit(words: list[str]) -> str | None:
    """1."""
    held = _TO_BE_FILLED_IN.search(" ".join(words))
    if held is not None:
        return f"{held[0]!r} is to be filled in"
    if "" in words:
        return "an empty word"
    if words[0] != "unhang":
        return None
    try:
        # With its parent: a command keeps the option for help that it has been parsed with.
        parent = unhang.make_context("unhang", [words[1]])
        unhang.commands[words[1]].make_context(words[1], words[2:], parent=parent)
    except (click.ClickException, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _options(words: list[str], situation: Situation) -> list[str]:
    """What a question asks beyond its source and the job's name."""
    own = words[: words.index("--")] if "--" in words else words
    return [word for word in own if word not in situation.source and word.startswith("-")]


def _needs_a_live_job(words: list[str], finding: Finding | None, situation: Situation) -> str | None:
    """4."""
    if words[0] in ("kill", "gdb", "py-spy", "strace", "ping", "echo", "docker"):
        return f"{words[0]} is for what runs"
    if words[:2] == ["unhang", "look"] or "--native" in words:
        return "only a process that runs has native frames"
    if words[:2] == ["unhang", "stacks"] and situation.live:
        return "no process is left"
    return None


def _unheld(step: NextStep, finding: Finding | None, answer: Diagnosis, situation: Situation) -> Iterator[str]:
    """5."""
    held = answer.model_dump_json(exclude={"next_steps": True, "findings": {"__all__": {"next_steps"}}})
    text = step.text
    if re.search(r"torchft|lighthouse|replica group", text) and "torchft" not in held:
        yield "torchft is nowhere"
    if re.search(r"children's stacks|its child", text) and '"child":"' not in held.replace('"child":""', ""):
        yield "no child was seen"
    if re.search(r"\bthis rank\b|\bits stack\b", text) and (finding is None or not finding.culprits):
        yield "no rank is named"
    if re.search(r"the records show", text) and not answer.coverage.with_trace:
        yield "there are no records"
    if re.search(r"in the ranks' stacks|their stacks", text) and not answer.coverage.with_stacks:
        yield "there are no stacks"
    if _OF_DEVICES.search(text):
        of_hardware = finding is not None and finding.cause in _HARDWARE
        whole = finding is not None and finding.kind is Kind.STUCK_TOGETHER and _accounts_for_all(finding, answer)
        if situation.backends and situation.backends <= _NOT_NCCL and not of_hardware:
            yield "no rank uses a device"
        elif not of_hardware and not whole:
            yield "ranks are unaccounted for, and nothing tells of hardware"
    if re.search(r"NCCL_P2P_DISABLE", text) and not _on_one_known_host(finding):
        yield "nothing shows that these GPUs are in one node"
    for rank in _ranks_in(step.command):
        if not any(rank in unfold(each.ranks) for each in answer.stack_classes):
            yield f"rank {rank} has no stack"


def _ranks_in(command: str | None) -> list[int]:
    found = re.search(r" (?:look|--rank) (\d+)\b", command or "")
    return [] if found is None else [int(found[1])]


def _accounts_for_all(finding: Finding, answer: Diagnosis) -> bool:
    """Is the world known and all of it seen, and does it concern all of it or of a group?"""
    coverage = answer.coverage
    named = {*unfold(finding.victims), *finding.culprit_ranks}
    members = set() if finding.group is None else {*unfold(finding.group.ranks)}
    whole = coverage.expected is not None and coverage.seen >= coverage.expected
    return whole and (len(named) >= coverage.seen or (bool(members) and members <= named))


def _on_one_known_host(finding: Finding | None) -> bool:
    """Which is tested alone, then."""
    return finding is not None and any(step.command == "unhang preflight" for step in finding.next_steps)


def _sentences(answer: Diagnosis) -> Iterator[str]:
    yield answer.headline
    for finding in answer.findings:
        yield from (finding.summary, *finding.remarks)
        yield from (each.text for each in finding.evidence)


_OF_SEVERAL_PLACES = frozenset({Kind.COLLECTIVE_MISMATCH, Kind.ORDER_INVERSION})
"""What is to be compared is where the ranks' code paths part, not the line at which one of them stands by now."""


def _left_alone(answer: Diagnosis) -> Iterator[Complaint]:
    """7."""
    for finding in answer.findings:
        if not finding.next_steps:
            yield Complaint("no step", None, finding.summary)
        if finding.cause is not Cause.USER_CODE or finding.certainty is not Certainty.PROVEN or not finding.culprits:
            continue
        if finding.kind in _OF_SEVERAL_PLACES:
            continue
        place = None if finding.where is None else finding.where.user
        if place is not None and not any(f"{place.file}:{place.line}" in step.text for step in finding.next_steps):
            yield Complaint("line not told", None, f"{place} is proven, and no step says so")
    if answer.verdict is Verdict.CANNOT_TELL and not answer.next_steps and not answer.findings:
        yield Complaint("no step", None, answer.headline)
