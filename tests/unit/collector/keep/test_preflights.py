"""Preflights in the store, on each kind of database: the newest stay, within bounds, and each is as it was sent."""

import pytest

from collector.keep import preflights as bounds
from shared.answer.preflight import NodeState, PreflightFinding, PreflightKind, PreflightResult, Soundness
from shared.errors import NotFound
from tests.unit.collector.conftest import Opener


def result(headline: str = "1 bad node of 3: n2", *, bad: tuple[str, ...] = ("n2",), text: str = "") -> PreflightResult:
    """What a preflight of three nodes found."""
    good = tuple(name for name in ("n0", "n1", "n2") if name not in bad)
    finding = PreflightFinding(kind=PreflightKind.NODE_FAILS, hosts=bad, text=text or "n2 works with no other node")
    return PreflightResult(
        made_at="2026-11-22T20:00:00Z",
        verdict=Soundness.BAD_NODES,
        headline=headline,
        hosts={NodeState.GOOD: good, NodeState.BAD: bad},
        findings=(finding,),
    )


def test_newest_first_and_by_node(opened: Opener) -> None:
    """Any replica shows what any has kept; a node's are those in which it took part."""
    one, two = opened().preflights, opened().preflights
    ids = [one.save(result(f"number {number}")).id for number in range(3)]
    assert [each.id for each in two.list()] == ids[::-1]
    assert [each.id for each in two.list(limit=1, before=ids[2])] == [ids[1]]
    assert [each.state_of("n2") for each in two.list(host="n2")] == [NodeState.BAD] * 3
    assert two.list(host="n9") == ()
    assert two.get(ids[0]).headline == "number 0"
    with pytest.raises(NotFound, match="there is no preflight"):
        two.get("a\0b")


@pytest.mark.parametrize("id", ["", "3f2a\0"], ids=["without an id", "with an id"])
def test_what_is_sent_twice_is_kept_once(opened: Opener, id: str) -> None:
    """Also through another replica; two preflights that found the same are two."""
    one, two = opened().preflights, opened().preflights
    found = result().model_copy(update={"result_id": id})
    kept = one.save(found)
    assert two.save(found) == kept and one.list() == (kept,)
    later = found.model_copy(update={"made_at": "2026-11-22T20:10:00Z", "result_id": id and f"{id}2"})
    assert [each.made_at for each in two.list()] == [found.made_at]
    assert one.save(later).id != kept.id and len(two.list()) == 2


def test_the_oldest_go(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number and by size; the newest stays, however large."""
    monkeypatch.setattr(bounds, "MOST_PREFLIGHTS", 3)
    kept = opened().preflights
    for number in range(5):
        kept.save(result(f"number {number}"))
    assert [each.headline for each in kept.list()] == ["number 4", "number 3", "number 2"]
    monkeypatch.setattr(bounds, "MOST_BYTES", 10)
    kept.save(result("number 5"))
    assert [each.headline for each in kept.list()] == ["number 5"]
