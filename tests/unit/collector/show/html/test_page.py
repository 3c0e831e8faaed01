"""A page as text: what may run in it, what job text becomes, and what it says of each rank."""

import base64
import hashlib
import html
import json
import re

import pytest

from collector.align.expected import Expected
from collector.align.stacks.stack_classes import merged
from collector.judge.verdict import diagnose
from collector.keep.kept import Kept
from collector.show.html.branches import grow
from collector.show.html.compare import comparison
from collector.show.html.grid import MOST_DRAWN, draw_sheets
from collector.show.html.page import Site, headers, policy, render_report
from collector.show.html.report import json_markup, report_of
from collector.show.html.standing import RankStanding, Standing
from collector.show.html.wait_drawing import draw_waits
from shared.answer.diagnosis import Diagnosis, Finding, GroupRef, Wait, WaitEvidence
from shared.answer.words import Certainty, Kind
from shared.rank_sets import fold, unfold
from shared.wire.stacks import Frame
from tests.build.jobs.hostile import hostile_job
from tests.build.jobs.verdicts import VERDICTS


def page_of(diagnosis: Diagnosis, site: Site | None = None) -> str:
    report = report_of(Kept(diagnosis=diagnosis, expected=Expected(), snapshots=()))
    return render_report(report) if site is None else render_report(report, site)


@pytest.mark.parametrize("served", [False, True])
def test_the_policy_allows_our_style_and_script_and_nothing_else(served: bool) -> None:
    page = page_of(VERDICTS["rank_not_joined"](), Site(served=served))
    allowed = policy(served=served)
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(text) == 1
        code = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{rule} 'sha256-{code}'" in allowed
    assert "default-src 'none'" in allowed and "unsafe" not in allowed and "http" not in allowed
    assert "frame-ancestors 'none'" in headers()["Content-Security-Policy"]
    assert not re.search(r"\son\w+=|\sstyle=|src=", re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))


@pytest.mark.parametrize("name", VERDICTS)
def test_each_certainty_has_its_own_reason(name: str) -> None:
    """As in the text and the Markdown, whose golden files show it."""
    diagnosis = VERDICTS[name]()
    page = html.unescape(page_of(diagnosis))
    assert all(finding.certainty_reason and finding.certainty_reason in page for finding in diagnosis.findings)


def test_text_of_jobs_is_text() -> None:
    looks, expected = hostile_job()
    page = render_report(
        report_of(Kept(diagnosis=diagnose(looks, expected), expected=expected, snapshots=tuple(looks)))
    )
    assert page.count("<script") == 2, "ours, and the grid's values"
    assert "<img" not in page and "<!channel>" not in page
    assert "\x1b" not in page and "\u202e" not in page and "\x07" not in page
    page.encode()


def test_json_in_a_page_cannot_end_its_element() -> None:
    written = json_markup({"a": "</script><!--&"})
    assert not set("<>&") & set(written)
    assert json.loads(written) == {"a": "</script><!--&"}


@pytest.mark.parametrize("name", VERDICTS)
def test_the_headline_and_every_step_are_on_the_page(name: str) -> None:
    diagnosis = VERDICTS[name]()
    page = page_of(diagnosis)
    assert page.count("<h1>") == 1
    commands = [step.command for finding in diagnosis.findings for step in finding.next_steps if step.command]
    assert all(command.replace("'", "&#39;") in page for command in commands)


def test_ranks_stand_by_host_and_by_group() -> None:
    places = [RankStanding(rank, f"n{rank // 4}", rank % 4, Standing.SEEN) for rank in range(16)]
    groups = [GroupRef(name=f"tp{at}", ranks=fold(range(at, 16, 4))) for at in range(4)]
    by_host, by_group = draw_sheets(places, [*groups, GroupRef(name="world", ranks="0-15")])
    assert [row[2:] for row in by_host.rows] == [("n0", "0-3"), ("n1", "4-7"), ("n2", "8-11"), ("n3", "12-15")]
    assert by_group.axis == "group tp"
    assert [row[3] for row in by_group.rows] == ["0,4,8,12", "1,5,9,13", "2,6,10,14", "3,7,11,15"]


@pytest.mark.parametrize("count", [1, 7, 640, 641, 5000, 10_000])
def test_every_rank_is_drawn_once_and_within_the_drawing(count: int) -> None:
    places = [RankStanding(rank, f"n{rank // 8}", rank % 8, Standing.VICTIM) for rank in range(count)]
    (sheet,) = draw_sheets(places, ())
    drawn = [rank for *_, ranks in sheet.rows for rank in unfold(ranks)]
    assert sorted(drawn) == list(range(count))
    cells = len(sheet.cells) + sum(path.count("M") for _, path in sheet.paths)
    assert cells == count and sheet.width <= 1200
    assert all(
        x >= 0 and x + sheet.step_x <= sheet.width and y + sheet.step_y <= sheet.height + 1 for x, y, *_ in sheet.rows
    )


@pytest.mark.parametrize("host", ["gpu-a100-{:04}.cluster.example", "n{}", None])
def test_heads_of_blocks_are_whole(host: str | None) -> None:
    """Each fits above its block, and tells blocks apart: by the end of a node's name, or by the first rank."""
    places = [
        RankStanding(rank, None if host is None else host.format(rank // 4), rank % 4, Standing.VICTIM)
        for rank in range(8192)
    ]
    (sheet,) = draw_sheets(places, ())
    heads = [label.text for label in sheet.labels]
    lefts = [label.x for label in sheet.labels]
    assert len(heads) > 8 and len(set(heads)) == len(heads)
    assert all(left + 6.1 * len(head) <= right for left, right, head in zip(lefts, lefts[1:], heads, strict=False))
    assert host is None or all(host.format(0)[0] == head[0] or head[0] == "…" for head in heads)


def test_a_claimed_million_is_not_drawn() -> None:
    places = [RankStanding(rank, None, None, Standing.UNSEEN) for rank in range(MOST_DRAWN + 1)]
    assert draw_sheets(places, ()) == ()


def test_stacks_of_a_hostile_job_are_bounded() -> None:
    """Hundreds of ranks, each a hundred frames deep in functions with names of a megabyte."""
    name = "x" * 1_000_000
    stacks = [(rank, tuple(Frame(name, f"/{rank}.py", depth) for depth in range(100))) for rank in range(300)]
    branches = grow(merged(stacks), frozenset({299}))
    assert branches[0].ranks == "299" and branches[0].guilty
    lines = [line for branch in branches for line in (*branch.outer, *branch.frames)]
    assert len(lines) <= 3100 and all(len(line.function) <= 160 for line in lines)


def waits(*edges: tuple[int, str, str]) -> Finding:
    """A finding with `rank waits in group for ranks`; rank 0 is at fault."""
    every = tuple(
        Wait(rank=rank, waits_for=whom, op="all_reduce", group=GroupRef(name=name)) for rank, name, whom in edges
    )
    return Finding(
        kind=Kind.RANK_NOT_JOINED,
        certainty=Certainty.PROVEN,
        evidence=(WaitEvidence(ranks="", text="", waits=every),),
    )


def test_equal_waits_are_one_box_and_arrows_lead_to_the_end() -> None:
    """Four ranks of two groups wait for one each, and these for rank 0."""
    drawing = draw_waits(waits((2, "data", "0"), (3, "data", "0"), (4, "tp0", "2"), (5, "tp1", "3")))
    assert drawing is not None
    assert [box.ranks for box in sorted(drawing.boxes, key=lambda box: -box.x)] == ["0", "2-3", "4-5"]
    assert len(drawing.arrows) == 2
    assert drawing.sentences[0] == "ranks 2-3 wait in all_reduce of data for rank 0"


def test_who_waits_for_two_stands_left_of_both() -> None:
    drawing = draw_waits(waits((1, "a", "0"), (2, "b", "0-1")))
    assert drawing is not None
    at = {box.ranks: box.x for box in drawing.boxes}
    assert at["2"] < at["1"] < at["0"]


def test_a_circle_is_closed_by_one_arc_back() -> None:
    cycle = tuple(Wait(rank=rank, waits_for=str((rank + 1) % 4), op="recv") for rank in range(4))
    finding = Finding(kind=Kind.P2P_DEADLOCK, certainty=Certainty.PROVEN, cycle=cycle)
    drawing = draw_waits(finding)
    assert drawing is not None
    assert len(drawing.arrows) == 4 and all(arrow.in_circle for arrow in drawing.arrows)


def test_thousands_of_waits_are_few_boxes() -> None:
    alike = draw_waits(waits(*((rank, f"g{rank}", "0") for rank in range(1, 4000))))
    assert alike is not None and [box.lines for box in alike.boxes if len(box.lines) == 3] == [
        ("ranks 1-3999 (3999)", "in all_reduce", "in g")
    ]
    apart = draw_waits(waits(*((rank, f"g{rank}x", "0") for rank in range(1, 4000))))
    assert apart is not None and len(apart.boxes) <= 12 and apart.more > 3000


def test_what_differs_between_two_diagnoses_is_marked() -> None:
    rows = comparison(VERDICTS["rank_not_joined"](), VERDICTS["chain_of_victims"]())
    differing = {row.name for row in rows if row.differ}
    assert {"cause", "where"} <= differing and "kind" not in differing
