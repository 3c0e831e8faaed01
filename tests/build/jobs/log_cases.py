"""The table of what logs are read as, `log_cases.toml`: each case as lines of ranks, and as the verdict on them."""

import re
import tomllib
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared.answer.diagnosis import Diagnosis, Finding
from shared.rank_sets import fold, unfold
from tests.build.jobs.logged import call, caught, fingerprint, init, judged_logs, signal, status

_TABLE = Path(__file__).parents[2] / "unit/collector/judge/log_cases.toml"
_MAKERS = {maker.__name__: maker for maker in (call, caught, fingerprint, init, signal, status)}
_MADE = re.compile(rf"({'|'.join(_MAKERS)})\((.*)\)")


@dataclass(frozen=True)
class LogCase:
    """One case: what was logged, and what must be read from it."""

    name: str
    found: Sequence[str]
    ranks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    common: Sequence[str] = ()
    world: int | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    says: str = ""
    remarks: Sequence[str] = ()
    sequence: int | None = None
    op: str | None = None
    group: str | None = None
    links: Sequence[str] | None = None

    @property
    def diagnosis(self) -> Diagnosis:
        lines = {rank: [_line(line, rank) for line in said] for at, said in self.ranks.items() for rank in unfold(at)}
        hosts = {int(rank): host for rank, host in self.hosts.items()}
        return judged_logs(dict(sorted(lines.items())), common=self.common, world_size=self.world, hosts=hosts)


def _line(text: str, rank: int) -> str:
    line = text.replace("{rank}", str(rank))
    made = _MADE.fullmatch(line)
    return line if made is None else str(_MAKERS[made[1]](*literal_eval(f"({made[2]},)")))


def in_short(finding: Finding) -> str:
    """A finding as the table has it: kind, culprits, victims, certainty and cause."""
    culprits = fold(finding.culprit_ranks) or "-"
    return f"{finding.kind} {culprits} {finding.victims or '-'} {finding.certainty} {finding.cause}"


LOG_CASES = {row["name"]: LogCase(**row) for row in tomllib.loads(_TABLE.read_text("utf-8"))["cases"]}
