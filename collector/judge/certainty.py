"""How sure a finding is, by what it rests on: one table, by kind of finding and by its support.

`proven`     what was recorded, or the state of a process, shows it: no healthy job looks so.
`supported`  it follows from two independent sources that agree, or from one of which a part is inferred or not seen.
`suspected`  one weak source, a tie, or nothing but elimination.

Nothing else in the judge says how sure it is: it names the support, and `how_sure` looks it up in `certainty.toml`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from shared.answer.diagnosis import Finding
from shared.answer.words import Certainty, Kind
from shared.packs import read_pack


class Sure(NamedTuple):
    """How sure a finding is, and why: a row of the table."""

    level: Certainty
    sources: int
    """Independent sources that it takes."""
    reason: str
    """Told to users, behind the word."""

    @property
    def is_proven(self) -> bool:
        return self.level is Certainty.PROVEN

    @property
    def is_suspicion(self) -> bool:
        return self.level is Certainty.SUSPECTED


class Support(StrEnum):
    """What a finding rests on: its sources, and whether they are whole and agree."""

    PROCESS = "process states"
    ENDINGS = "how processes ended"
    ENDED = "that all have ended"
    ASKED = "signals that ask processes to end"
    EXIT_CODE = "an exit code"
    ABSENCE = "absence from all nodes that were asked"
    BESIDE = "processes beside ranks that wait in rendezvous"
    SILENCE = "silence"
    SILENT_NODE = "the silence of a node whose ranks are known"
    AT_WORK = "the time for which it has worked"
    ELIMINATION = "elimination"
    TIE = "a tie"
    RECORD = "flight records"
    ROOTS = "roots in the memory of ranks"
    PART_OF_RECORD = "flight records, with a gap or an inference"
    RECORD_AND_STACKS = "flight records and stacks"
    HABIT = "what was usual before"
    STACKS = "stacks"
    STACKS_AND_KERNEL = "stacks and the kernel's word"
    KERNEL_LINES = "the kernel log"
    COUNTS = "RAS's counts"
    COUNTS_AND_STACKS = "RAS's counts and stacks"
    LINES = "log lines"
    AGREED_LINES = "log lines that others, or process states, confirm"
    OWN_LINES = "the odd one's own log lines against those of several others"
    LOCK = "a lock file"
    LOCK_HOLDER = "a lock file whose holder is known"
    OTHER_END = "who holds the other end of what it waits at"
    STACKS_OF_SERVER = "requests that wait, and the stack of a process that serves them"
    PROCESS_OF_SERVER = "requests that wait, and the state of a process that serves them"
    FILE_TIMES = "the dates of two sets of dumps"
    COUNTERS = "counters of process groups"
    MAY_COME = "the time that a rank at work has taken"
    INFERRED_GROUP = "a group whose members are inferred"
    OTHER_USERS = "processes that may be another user's"
    PART_FAILED = "a part of unhang that failed"


TABLE: Mapping[tuple[Kind | None, Support], Sure] = {
    (Kind(row["kind"]) if "kind" in row else None, Support[row["support"].upper()]): Sure(
        Certainty(row["level"]), row.get("sources", 1), row["reason"]
    )
    for row in read_pack(__file__, "certainty.toml")["rows"]
}
"""A row with a kind goes before that of all kinds."""


def how_sure(kind: Kind, support: Support) -> Sure:
    """Look up how sure a finding of a kind is, and why."""
    return TABLE.get((kind, support)) or TABLE[None, support]


def unproven(sure: Sure, support: Support) -> Sure:
    """Return how sure what rests, besides, on something that may not be so is."""
    return TABLE[None, support] if sure.is_proven else sure


def less_sure(finding: Finding, support: Support) -> Mapping[str, object]:
    """Return what changes in a finding that rests, besides, on something that may not be so."""
    level, _, reason = TABLE[None, support]
    return {"certainty": level, "certainty_reason": reason} if finding.certainty is Certainty.PROVEN else {}
