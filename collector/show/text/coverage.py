"""How much was examined, and what is missing: silence is reported, never left out."""

import re
from collections.abc import Sequence

from collector.show.text.layout import Line, Style, indented, paragraph
from collector.show.text.printable import printable
from collector.show.text.waits import ranks_text
from shared.answer.diagnosis import Conflict, Coverage, Gap
from shared.answer.files_read import FileRead
from shared.answer.statements import Statement
from shared.missing import Reason
from shared.plural import counted
from shared.rank_sets import fold, unfold

MOST_FILES = 20
"""Files of which is said what was read."""
_MOST_SOURCES = 6
_NUMBER = re.compile(r"\b(?:0x[0-9a-f]+|\d+)\b")


def coverage_text(coverage: Coverage) -> str:
    """Return `3 of 4 ranks answered, 3 with stacks, none with a flight record`."""
    if coverage.expected is None:
        seen = f"{counted(coverage.seen, 'rank')} seen (world size unknown)"
    else:
        seen = f"{coverage.seen} of {counted(coverage.expected, 'rank')} seen"
    parts = [f"{_number(coverage.with_stacks)} with stacks", f"{_number(coverage.with_trace)} with a flight record"]
    if coverage.with_counters:
        parts.append(f"{coverage.with_counters} with counters of process groups")
    if coverage.with_ras:
        parts.append(f"{coverage.with_ras} with counts of NCCL RAS")
    answered = [] if coverage.answered == coverage.seen else [f"{_number(coverage.answered)} answered"]
    return ", ".join([seen, *answered, *parts])


def _number(count: int) -> str:
    return str(count) if count else "none"


def read_lines(files: Sequence[FileRead], width: int) -> list[Line]:
    """Return what was read of each file: the telling lines, and why they do not suffice."""
    lines: list[Line] = []
    for each in files[:MOST_FILES]:
        lines += paragraph(file_text(each), width)
        for said in each.telling:
            lines += [*indented(paragraph(printable(said), width - 2, Style.DIM), 2)]
        lines += [*indented(paragraph(each.note, width - 2), 2)] if each.note else []
    more = len(files) - MOST_FILES
    return [*lines, *paragraph(f"… {more} more in the JSON output", width, Style.DIM)] if more > 0 else lines


def statement_text(said: Statement) -> str:
    """Return `ranks 3,6 waited 600 s in all_to_all #4486 of group 2 (log)`."""
    return printable(said.text) + (f" ({said.source})" if said.source else "")


def file_text(each: FileRead) -> str:
    """Return `train.log: log, 812 lines, 3 recognised`."""
    counts = (
        "" if each.lines is None else f", {counted(each.lines, 'line')}, {_number(each.recognised or 0)} recognised"
    )
    cut = "; it is too long, and not all of it was looked at" if each.cut else ""
    return f"{printable(each.path, most=200)}: {each.kind}{counts}{cut}"


def fold_gaps(gaps: Sequence[Gap]) -> list[Gap]:
    """Return `gaps` with those alike but for their ranks and host made one; the order of first sight is kept.

    What cannot be read names each rank's own process and addresses: all of a job are told once, by the first of them.
    """
    alike: dict[tuple[object, ...], list[Gap]] = {}
    for gap in gaps:
        alone = (gap.host,) if not gap.ranks else ()
        detail = gap.missing.detail
        shape = _NUMBER.sub("N", detail) if gap.ranks and gap.missing.reason is Reason.UNREADABLE else detail
        alike.setdefault((gap.missing.source, gap.missing.reason, shape, *alone), []).append(gap)
    return _fold_sources([_one(same) for same in alike.values()])


def _fold_sources(gaps: Sequence[Gap]) -> list[Gap]:
    """Name several sources at once where all else is alike: `process, stacks`."""
    alike: dict[tuple[object, ...], list[Gap]] = {}
    for gap in gaps:
        alike.setdefault((gap.ranks, gap.host, gap.missing.reason, gap.missing.detail), []).append(gap)
    return [_of_sources(same) for same in alike.values()]


def _of_sources(same: Sequence[Gap]) -> Gap:
    sources = list(dict.fromkeys(gap.missing.source for gap in same))
    more = f" and {len(sources) - _MOST_SOURCES} more" if len(sources) > _MOST_SOURCES else ""
    named = ", ".join(sources[:_MOST_SOURCES]) + more
    return same[0].model_copy(update={"missing": same[0].missing.model_copy(update={"source": named})})


def _one(same: Sequence[Gap]) -> Gap:
    hosts = {gap.host for gap in same}
    ranks = fold(rank for gap in same for rank in unfold(gap.ranks))
    missing = same[0].missing
    if len({gap.missing.detail for gap in same}) > 1:
        missing = missing.model_copy(update={"detail": f"{missing.detail}; the others differ in their numbers alone"})
    return Gap(ranks=ranks, host=same[0].host if len(hosts) == 1 else None, missing=missing)


def gap_text(gap: Gap) -> str:
    """Return `ranks 0-3 on node1: recorder not_enabled: set TORCH_FR_BUFFER_SIZE` as far as it is known."""
    host = None if gap.host is None else printable(gap.host, most=80)
    if gap.ranks:
        whose = ranks_text(gap.ranks) + ("" if host is None else f" on {host}") + ": "
    else:
        whose = "" if host is None else f"node {host}: "
    detail = f" — {printable(gap.missing.detail, most=400)}" if gap.missing.detail else ""
    return f"{whose}{printable(gap.missing.source, most=200)} {gap.missing.reason}{detail}"


def conflict_text(conflict: Conflict) -> str:
    """Return `stacks vs. recorder: …`."""
    sources = " vs. ".join(printable(source, most=80) for source in conflict.sources)
    return f"{sources}: {printable(conflict.text)}" if sources else printable(conflict.text)
