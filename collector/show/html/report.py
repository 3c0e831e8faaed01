"""Everything that the page of one diagnosis shows, as values: the verdict, and what it rests on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from collector.align.accounting import account_for_ranks
from collector.align.groups.process_groups import line_up
from collector.align.groups.table import GroupView
from collector.align.roster import Roster
from collector.align.stacks.stack_classes import tree_of
from collector.keep.kept import Kept
from collector.show.html.branches import Branch, grow
from collector.show.html.grid import Sheet, draw_sheets
from collector.show.html.issued import Issued, draw_issued
from collector.show.html.lanes import GroupLanes, QuietGroups, draw_lanes
from collector.show.html.standing import MEANINGS, RankStanding, places_of, ranks_by_standing
from collector.show.html.wait_drawing import WaitDrawing, draw_waits
from collector.show.html.wording import CAUSES, DIED, KINDS, PROVES
from collector.show.text.classes import culprits_of
from collector.show.text.coverage import conflict_text, coverage_text, fold_gaps, gap_text
from collector.show.text.findings import why_certain
from collector.show.text.printable import printable
from collector.show.text.text import headline_text
from collector.show.views import (
    LogLine,
    RankFds,
    TreeView,
    only,
    view_fds,
    view_logs,
)
from shared.answer.diagnosis import ChainLink, Culprit, Diagnosis, Evidence, Finding, Gap, NextStep, WaitEvidence
from shared.isolation import costs_itself, failures_told
from shared.rank_sets import fold, unfold

_MOST_EVIDENCE = 24
_MOST_GAPS = 40
_MOST_LOG_RANKS = 12
_LOG_LINES = 40
_MOST_FDS = 8
_MOST_CULPRITS = 8


@dataclass(frozen=True)
class EvidenceRow:
    """Pieces of evidence of one kind, and what they show."""

    kind: str
    proves: str
    pieces: tuple[Evidence, ...]


@dataclass(frozen=True)
class ShownFinding:
    """One finding, prepared."""

    number: int
    finding: Finding
    reason: str
    """What is wrong, in plain words."""
    cause: str
    meaning: str
    culprits: str
    shown_culprits: tuple[Culprit, ...]
    graph: WaitDrawing | None
    proofs: tuple[EvidenceRow, ...]
    more_proofs: int


@dataclass(frozen=True)
class Report:
    """The values of one page. Empty where a part is not known: a store may have kept the verdict alone."""

    diagnosis: Diagnosis
    headline: str
    faults: tuple[ShownFinding, ...]
    steps: tuple[NextStep, ...]
    legend: tuple[tuple[str, str, int, str], ...]
    """Standing, meaning, how many, and who."""
    sheets: tuple[Sheet, ...]
    grid_data: Markup
    issued: Issued | None
    lanes: tuple[GroupLanes, ...]
    quiet: tuple[QuietGroups, ...]
    branches: tuple[Branch, ...]
    coverage: str
    gaps: tuple[str, ...]
    more_gaps: int
    conflicts: tuple[str, ...]
    logs: tuple[tuple[str, tuple[str, ...]], ...]
    last_words: tuple[tuple[str, tuple[str, ...]], ...]
    """What the first screen shows of logs; the verdict alone has it."""
    fds: tuple[RankFds, ...]
    tree: TreeView | None
    kept: Kept
    """What all this was made of, for exports."""

    @property
    def chain(self) -> tuple[ChainLink, ...]:
        """Who waits for whom beyond the groups, of what is told first."""
        return self.faults[0].finding.chain if self.faults else self.diagnosis.chain


def report_of(kept: Kept) -> Report:
    """Prepare the page of a diagnosis. Without snapshots it shows the verdict alone; a part that fails is a gap."""
    with failures_told() as failures:
        report = _report_of(kept)
    failed = tuple(gap_text(Gap(missing=missing)) for missing in failures)
    return replace(report, gaps=(*failed, *report.gaps)) if failed else report


def _report_of(kept: Kept) -> Report:
    diagnosis, expected = kept.diagnosis, kept.expected
    culprits = culprits_of(diagnosis)
    snapshots = only(kept.snapshots, expected, ranks=None)
    roster: Roster | None = None
    tree: TreeView | None = None
    groups: tuple[GroupView, ...] = ()
    issued: Issued | None = None
    lanes: tuple[GroupLanes, ...] = ()
    quiet: tuple[QuietGroups, ...] = ()
    if snapshots:
        roster = account_for_ranks(snapshots, expected)
        tree = TreeView(job=expected.job, tree=tree_of(roster))
        groups = tuple(line_up(roster))
        lanes, quiet = draw_lanes(groups, roster, diagnosis, culprits)
        issued = draw_issued(roster, diagnosis)
    places = places_of(diagnosis, roster)
    sheets = draw_sheets(places, [group.ref for group in groups])
    gaps = [gap_text(gap) for gap in fold_gaps(diagnosis.coverage.missing)]
    suspects = frozenset(sorted(culprits)[:_MOST_LOG_RANKS])
    told = only(snapshots, expected, ranks=suspects) if suspects else snapshots[:2]
    return Report(
        diagnosis=diagnosis,
        headline=headline_text(diagnosis),
        faults=tuple(_fault(number, finding) for number, finding in enumerate(diagnosis.findings, start=1)),
        steps=diagnosis.next_steps,
        legend=_legend(places),
        sheets=sheets,
        grid_data=_grid_data(sheets, places, diagnosis),
        issued=issued,
        lanes=lanes,
        quiet=quiet,
        branches=() if tree is None else grow(tree.tree, culprits),
        coverage=coverage_text(diagnosis.coverage),
        gaps=tuple(gaps[:_MOST_GAPS]),
        more_gaps=max(0, len(gaps) - _MOST_GAPS),
        conflicts=tuple(map(conflict_text, diagnosis.conflicts)),
        logs=_logs(view_logs(told, expected, lines=_LOG_LINES).lines),
        last_words=_logs(diagnosis.last_lines),
        fds=tuple(each for each in view_fds(told, expected).ranks[:_MOST_FDS]),
        tree=tree,
        kept=kept,
    )


def _fault(number: int, finding: Finding) -> ShownFinding:
    pieces = [piece for piece in finding.evidence if not isinstance(piece, WaitEvidence)]
    kinds = dict.fromkeys(piece.kind for piece in pieces)
    proofs = (
        EvidenceRow(
            kind,
            PROVES.get(kind, "what was seen"),
            tuple(piece for piece in pieces[:_MOST_EVIDENCE] if piece.kind == kind),
        )
        for kind in kinds
    )
    return ShownFinding(
        number=number,
        finding=finding,
        reason=DIED if finding.ended else KINDS[finding.kind],
        cause=CAUSES[finding.cause],
        meaning=why_certain(finding),
        culprits=fold(finding.culprit_ranks),
        shown_culprits=finding.culprits[:_MOST_CULPRITS],
        graph=draw_waits(finding),
        proofs=tuple(proof for proof in proofs if proof.pieces),
        more_proofs=max(0, len(pieces) - _MOST_EVIDENCE),
    )


def _legend(places: Sequence[RankStanding]) -> tuple[tuple[str, str, int, str], ...]:
    together = ranks_by_standing(places)
    return tuple(
        (standing.value, MEANINGS[standing], len(unfold(ranks)), ranks) for standing, ranks in together.items()
    )


def _grid_data(sheets: Sequence[Sheet], places: Sequence[RankStanding], diagnosis: Diagnosis) -> Markup:
    """What the script needs to say which rank a cell is, as JSON that no markup can be in."""
    data = {
        "sheets": {
            sheet.key: {"x": sheet.step_x, "y": sheet.step_y, "w": sheet.width, "rows": sheet.rows} for sheet in sheets
        },
        "standings": {standing.value: ranks for standing, ranks in ranks_by_standing(places).items()},
        "doing": [
            (each.ranks, printable(each.label, most=120), printable(each.frames[-1].function, most=80))
            for each in diagnosis.stack_classes[:_MOST_CLASSES]
            if each.frames
        ],
    }
    return json_markup(data)


_MOST_CLASSES = 64


def json_markup(value: object) -> Markup:
    """Return JSON that can stand inside a script element: `<`, `>` and `&` are written as escapes."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@costs_itself(lambda lines: (), part="log lines on the page")
def _logs(lines: Sequence[LogLine]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the files' last lines, each file under its name and rank."""
    files: dict[str, list[str]] = {}
    for line in lines:
        rank = "" if line.rank is None else f"rank {line.rank}"
        host = "" if line.host is None else f" on {line.host}"
        files.setdefault(f"{rank}{host} {line.path}".strip(), []).append(line.text)
    shown = [(name, texts) for name, texts in files.items() if any(map(str.strip, texts))][:_MOST_LOG_RANKS]
    return tuple((name, tuple(texts[-_LOG_LINES:])) for name, texts in shown)
