"""What is true of each program, and whether an answer agrees with it.

A program of tests/programs states its truth in a literal `TRUTH`, read here without running it. It leaves out
what is as usual: a job of four ranks hangs, rank 2 is to blame, and all others are its victims.

    verdict    the right word, or a list of words that are right (hung)
    kinds      accepted kinds of the first finding; none for a job that does not hang
    causes     accepted causes of the first finding
    culprits   the ranks to blame; all of them, and nobody else in any finding (2; nobody without kinds)
    victims    a folded rank set (all but the culprits; nobody without kinds)
    findings   how many findings share the culprits (1)
    where      the function in which the culprit is
    child      a function in which a child of the culprit is
    thread     a function in which the thread is that the culprit may wait for
    or_silent  naming nobody is right too: what a program gives away may not be enough to name anybody
    busy       ranks that never come to rest
    launch, ready, absent   how to start it: launcher, lines to wait for, ranks that are not started
    imports    what its ranks import, or have imported, beside PyTorch: forks of a launcher have it from there
    probe, memory, bare     what differs with the probe, with records in memory alone, and without any
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from shared.rank_sets import fold, unfold

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAMS = REPOSITORY / "tests" / "programs"

Mode = Literal["probe", "memory", "bare"]
Json = Mapping[str, Any]

USUAL_FAULTY_RANK = 2
USUAL_RANKS = 4

NEEDS_RECORDS = frozenset({"rank_not_joined", "collective_mismatch", "order_inversion", "p2p_unmatched"})
"""Kinds that only a flight record can prove."""

STATUS = {"not_hung": 0, "hung": 10, "died": 10, "slow": 11, "cannot_tell": 12}
"""Exit status of `unhang diagnose` by verdict."""


@cache
def read_truth(program: str) -> dict[str, Any]:
    """Read the `TRUTH` of a program without running it."""
    tree = ast.parse((PROGRAMS / f"{program}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TRUTH":
            return _with_usual(ast.literal_eval(node.value))
    raise ValueError(f"{program} says no TRUTH")


def _with_usual(stated: dict[str, Any]) -> dict[str, Any]:
    """Fill in what a truth leaves out."""
    has_finding = "kinds" in stated
    culprits = stated.get("culprits", [USUAL_FAULTY_RANK] if has_finding else [])
    others = set(range(USUAL_RANKS)) - set(culprits) if has_finding else set()
    return {"verdict": "hung", "kinds": [], "causes": [], "culprits": culprits, "victims": fold(others), **stated}


def all_programs() -> list[str]:
    """Return the names of all programs that state a truth."""
    paths = sorted(PROGRAMS.glob("*.py"))
    return [path.stem for path in paths if "\nTRUTH = " in path.read_text(encoding="utf-8")]


@dataclass(frozen=True)
class Truth:
    """What is true of one program, run in one mode, with one rank going astray."""

    verdicts: tuple[str, ...]
    kinds: tuple[str, ...]
    causes: tuple[str, ...]
    culprits: frozenset[int]
    victims: str
    findings: int
    where: str | None
    child: str | None
    thread: str | None
    or_silent: bool
    mode: Mode

    @classmethod
    def of(cls, program: str, mode: Mode, faulty_rank: int = USUAL_FAULTY_RANK, ranks: int = USUAL_RANKS) -> "Truth":
        """Read the truth of `program`; with another faulty rank, culprit and victims move with it."""
        stated = read_truth(program)
        stated = {**stated, **stated.get(mode, {})}
        verdict = stated["verdict"]
        culprits, victims = frozenset(stated["culprits"]), stated["victims"]
        if faulty_rank != USUAL_FAULTY_RANK:
            assert culprits == {USUAL_FAULTY_RANK}, f"{program} has its own faulty ranks"
            culprits, victims = frozenset({faulty_rank}), fold(set(range(ranks)) - {faulty_rank})
        return cls(
            verdicts=(verdict,) if isinstance(verdict, str) else tuple(verdict),
            kinds=tuple(stated["kinds"]),
            causes=tuple(stated["causes"]),
            culprits=culprits,
            victims=victims,
            findings=stated.get("findings", 1),
            where=stated.get("where"),
            child=stated.get("child"),
            thread=stated.get("thread"),
            or_silent=stated.get("or_silent", False),
            mode=mode,
        )

    def disagreements(self, answer: Json, status: int) -> list[str]:
        """Return in words what is wrong with the answer; nothing when it is right."""
        return [*_broken_promises(answer, status), *self._innocents(answer), *self._wrong_findings(answer)]

    def _innocents(self, answer: Json) -> Iterator[str]:
        if innocents := named(answer) - self.culprits:
            yield f"names innocent ranks {fold(innocents)}"

    def _wrong_findings(self, answer: Json) -> Iterator[str]:
        if self.or_silent and not named(answer) and answer["verdict"] in (*self.verdicts, "cannot_tell"):
            return
        if answer["verdict"] not in self.verdicts:
            yield f"verdict {answer['verdict']}, not {' or '.join(self.verdicts)}"
            return
        if not self.kinds:
            if any(finding["kind"] != "held_up" for finding in answer["findings"]):
                yield "has findings where nothing is wrong"
            return
        if not answer["findings"]:
            yield "has no finding"
            return
        yield from self._wrong_culprits(answer["findings"][: self.findings])
        yield from self._wrong_words(answer["findings"][0])
        yield from self._wrong_place(answer["findings"][0])

    def _wrong_culprits(self, findings: list[Json]) -> Iterator[str]:
        found = {culprit["rank"] for finding in findings for culprit in finding["culprits"]}
        if found != self.culprits:
            yield f"culprits {fold(found) or 'nobody'}, not {fold(self.culprits)}"
        victims = {rank for finding in findings for rank in unfold(finding["victims"])} - found
        if fold(victims) != self.victims:
            yield f"victims {fold(victims) or 'nobody'}, not {self.victims or 'nobody'}"

    def _wrong_words(self, finding: Json) -> Iterator[str]:
        if finding["kind"] not in self.kinds:
            yield f"kind {finding['kind']}, not {' or '.join(self.kinds)}"
        if finding["cause"] not in self.causes:
            yield f"cause {finding['cause']}, not {' or '.join(self.causes)}"
        if self.mode == "bare" and finding["kind"] in NEEDS_RECORDS and finding["certainty"] == "proven":
            yield f"{finding['kind']} cannot be proven without records"

    def _wrong_place(self, finding: Json) -> Iterator[str]:
        where = finding["where"] or {}
        user, child = (where.get("user") or {}).get("function"), where.get("child", "")
        if self.where is not None and user != self.where:
            yield f"the culprit is in {user}, not in {self.where}"
        if self.child is not None and self.child not in child:
            yield f"its child is in {child!r}, not in {self.child}"
        told = [
            evidence["text"] for evidence in finding["evidence"] if evidence.get("thread", "MainThread") != "MainThread"
        ]
        if self.thread is not None and not any(self.thread in text for text in told):
            yield f"its threads are in {told}, none in {self.thread}"


def named(answer: Json) -> frozenset[int]:
    """Return all ranks that the answer accuses: who holds others up because it works is accused of nothing."""
    accused = (finding for finding in answer["findings"] if finding["kind"] != "held_up")
    return frozenset(culprit["rank"] for finding in accused for culprit in finding["culprits"])


def _broken_promises(answer: Json, status: int) -> Iterator[str]:
    """Check what the contract promises of every answer."""
    if status != STATUS[answer["verdict"]]:
        yield f"exit status {status} for {answer['verdict']}"
    if answer["findings"] and answer["verdict"] not in ("hung", "slow"):
        yield f"findings although {answer['verdict']}"
    for finding in answer["findings"]:
        shown = {rank for evidence in finding["evidence"] for rank in unfold(evidence["ranks"])}
        if unshown := {culprit["rank"] for culprit in finding["culprits"]} - shown:
            yield f"no evidence names culprits {fold(unshown)}"
