"""Tables of cases, with the verdict that each must get: what is in logs, and what flight records hold."""

import re
import tomllib
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared.answer.diagnosis import Diagnosis, Finding
from shared.answer.words import Verdict
from shared.rank_sets import fold, unfold
from tests.build.jobs.logged import call, caught, fingerprint, init, judged_logs, signal, status
from tests.build.jobs.records import judged_records, row_of

_TABLES = Path(__file__).parents[2] / "unit/collector/judge"
_MAKERS = {maker.__name__: maker for maker in (call, caught, fingerprint, init, signal, status)}
_MADE = re.compile(rf"({'|'.join(_MAKERS)})\((.*)\)")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What there is of each rank, and what must be read from it; None, or empty: the case is not about that."""

    name: str
    why: str = ""
    ranks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    found: Sequence[str]
    """For each finding: kind, culprits, victims, certainty and cause."""
    says: str = ""
    remarks: Sequence[str] = ()
    sequence: int | None = None
    op: str | None = None
    group: str | None = None
    links: Sequence[str] | None = None

    @property
    def diagnosis(self) -> Diagnosis:
        raise NotImplementedError

    def check(self) -> None:
        """Judge it, and compare."""
        answer = self.diagnosis
        assert [_in_short(finding) for finding in answer.findings] == list(self.found), answer.headline
        assert answer.verdict is (Verdict.HUNG if self.found else Verdict.CANNOT_TELL)
        assert answer.findings or self.says in answer.headline
        for finding in answer.findings:
            shown = {rank for evidence in finding.evidence for rank in unfold(evidence.ranks)}
            assert set(finding.culprit_ranks) <= shown
        for first in answer.findings[:1]:
            assert self.says in first.summary
            assert set(self.remarks) <= {*first.remarks}
            assert self.sequence in (None, first.sequence)
            assert self.op in (None, first.op)
            assert self.group in (None, "" if first.group is None else f"{first.group.name} {first.group.ranks}")
            assert self.links is None or [link.to.host for link in first.links] == self.links


def _in_short(finding: Finding) -> str:
    culprits = fold(finding.culprit_ranks) or "-"
    return f"{finding.kind} {culprits} {finding.victims or '-'} {finding.certainty} {finding.cause}"


@dataclass(frozen=True, kw_only=True)
class LogCase(Case):
    """What ranks logged, and what stands in a file into which all write."""

    common: Sequence[str] = ()
    world: int | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def diagnosis(self) -> Diagnosis:
        lines = {rank: [_line(line, rank) for line in said] for at, said in self.ranks.items() for rank in unfold(at)}
        hosts = {int(rank): host for rank, host in self.hosts.items()}
        return judged_logs(dict(sorted(lines.items())), common=self.common, world_size=self.world, hosts=hosts)


def _line(text: str, rank: int) -> str:
    line = text.replace("{rank}", str(rank))
    made = _MADE.fullmatch(line)
    return line if made is None else str(_MAKERS[made[1]](*literal_eval(f"({made[2]},)")))


@dataclass(frozen=True, kw_only=True)
class RecordCase(Case):
    """What the flight records of ranks hold."""

    groups: Mapping[str, str]
    timed: bool = False

    @property
    def diagnosis(self) -> Diagnosis:
        rows = {rank: [row_of(text) for text in held] for at, held in self.ranks.items() for rank in unfold(at)}
        groups = {name: unfold(ranks) for name, ranks in self.groups.items()}
        return judged_records(dict(sorted(rows.items())), groups, timed=self.timed)


LOG_CASES = {row["name"]: LogCase(**row) for row in tomllib.loads((_TABLES / "log_cases.toml").read_text())["cases"]}
RECORD_CASES = {
    row["name"]: RecordCase(**row) for row in tomllib.loads((_TABLES / "records/cases.toml").read_text())["cases"]
}
