"""Every tie-breaker is needed: without it, the case that it is named after is no longer decided.

What has no case here has no place in the folder.
"""

import importlib
import pkgutil
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from collector.align.expected import Expected
from collector.judge import tie_breakers
from collector.judge.verdict import diagnose
from shared.wire.snapshot import NodeSnapshot
from shared.wire.stacks import Frame
from shared.wire.trace import Group, Trace
from tests.build.jobs.four_ranks import RANKS, looks_without
from tests.build.jobs.placed import with_rank
from tests.build.jobs.records import DONE, ISSUED, Row, recorded
from tests.build.jobs.simulated import RECV, USER, Seen, a_send_too_many
from tests.build.simulation.scenario import draw

Case = tuple[Sequence[NodeSnapshot], Expected]


def simulated(seed: int, *faults: str) -> Case:
    """A job of the simulator, with the one fault that its seed draws, of these or of all."""
    job = draw(seed, faults=faults) if faults else draw(seed)
    return job.dumps, job.expected


def a_call_too_many() -> Case:
    """All did what they had to do, and the one who waits made a call of its own, of which its call sites tell."""
    lines = [10 + sequence % 3 for sequence in range(1, 8)]
    rows = {rank: [Row("0", s, DONE, line=line) for s, line in enumerate(lines, 1)] for rank in range(4)}
    longer = [*lines[:3], 77, *lines[3:]]
    rows[1] = [Row("0", s, DONE if s < 8 else ISSUED, line=line) for s, line in enumerate(longer, 1)]
    return recorded(rows, {"0": (0, 1, 2, 3)}), Expected(world_size=4)


def a_send_left_out() -> Case:
    """Gloo: rank 2 receives in vain, the others reduce, and rank 1 has made one call less before that than ever."""
    looks = looks_without({2: Seen((USER, RECV))})
    for rank in RANKS:
        trace = next(r.recorder for look in looks[-1:] for r in look.ranks if r.identity.rank == rank)
        assert isinstance(trace, Trace)
        counts = [2 * (at + 1) for at in range(len(trace))]
        counts[-1] -= rank == 1
        gloo = tuple(signature._replace(backend="gloo") for signature in trace.signatures)
        looks = with_rank(
            looks, rank, recorder=trace.model_copy(update={"signatures": gloo, "op_id": array("q", counts)})
        )
    return looks, Expected()


def a_send_left_out_as_no_other_pipeline_did() -> Case:
    """Gloo, two pipelines: rank 3 receives in vain; rank 2 has sent less than rank 0, and no step is like another."""
    looks = looks_without({3: Seen((USER, RECV))})
    groups = tuple(Group(name=f"pp{at}", description=f"pp{at}", members=f"{2 * at}-{2 * at + 1}") for at in range(2))
    for rank in RANKS:
        trace = next(r.recorder for look in looks[-1:] for r in look.ranks if r.identity.rank == rank)
        assert isinstance(trace, Trace)
        counts = [at * (at + 3) // 2 for at in range(len(trace))]
        counts[-1] -= rank == 2
        gloo = tuple(signature._replace(backend="gloo") for signature in trace.signatures)
        mine = {"signatures": gloo, "op_id": array("q", counts), "groups": (groups[rank // 2],), "marks": ()}
        looks = with_rank(looks, rank, recorder=trace.model_copy(update=mine))
    return looks, Expected()


def a_group_that_one_does_not_make() -> Case:
    new_group = Frame("new_group", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 5610)
    return looks_without({rank: Seen((USER, new_group)) for rank in (0, 1, 3)}), Expected()


@dataclass(frozen=True)
class Needed:
    """A tie-breaker, what it says where it has no opinion, and the case that nothing else decides."""

    rule: str
    silent: Callable[..., Any]
    case: Callable[[], Case]
    culprits: tuple[int, ...]


def as_it_was(found: object, *_: object) -> object:
    return found


def nothing(*_: object) -> None:
    return None


_OF_ORDER = ("skips", "shuns group", "extra", "inverts", "never sends")

NEEDED = {
    "an all_reduce too many in one of two shards": Needed(
        "sibling_groups.settled_by_siblings", as_it_was, lambda: simulated(23), (2,)
    ),
    "a gather to a root of its own": Needed("usual_roots.with_usual_root", as_it_was, lambda: simulated(62), (5,)),
    "an all_reduce too many in one pipeline": Needed("few_have_come.turned", as_it_was, lambda: simulated(119), (1,)),
    "a group that one rank shuns": Needed("call_order.odd_tally", nothing, lambda: simulated(13), (5,)),
    "a shard's all_reduce left out": Needed("call_order.CallOrders.strays", lambda *_: (), lambda: simulated(5), (0,)),
    "two groups taken in another order": Needed(
        "group_order.order_breaker", nothing, lambda: simulated(50773, *_OF_ORDER), (0,)
    ),
    "a call too many that looks like all others": Needed("skipped_call.shift_of", nothing, a_call_too_many, (1,)),
    "a send left out that was posted each time before": Needed(
        "left_out_send.left_out_send", nothing, lambda: simulated(257, "never sends"), (2,)
    ),
    "a send left out over Gloo": Needed("broken_habit.broken_habit", nothing, a_send_left_out, (1,)),
    "a send left out in one of two pipelines": Needed(
        "sibling_sends.fewer_by_record", nothing, lambda: simulated(43, "never sends"), (5,)
    ),
    "a send left out in one of two pipelines over Gloo": Needed(
        "sibling_sends.fewer_by_count", nothing, a_send_left_out_as_no_other_pipeline_did, (2,)
    ),
    "a send too many": Needed(
        "one_too_many.undecided_pair", as_it_was, lambda: (a_send_too_many().dumps(), Expected()), ()
    ),
    "a group that one does not make": Needed("new_group.went_past", nothing, a_group_that_one_does_not_make, (2,)),
}


def switched_off(needed: Needed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the rule away wherever it is called."""
    module, *owner, name = needed.rule.split(".")
    home = importlib.import_module(f"{tie_breakers.__name__}.{module}")
    if owner:
        monkeypatch.setattr(getattr(home, owner[0]), name, needed.silent)
        return
    rule = getattr(home, name)
    for imported in [one for at, one in sys.modules.items() if at.startswith("collector.")]:
        if getattr(imported, name, None) is rule:
            monkeypatch.setattr(imported, name, needed.silent)


def culprits(case: Case) -> tuple[int, ...]:
    return tuple(sorted({rank for finding in diagnose(*case).findings for rank in finding.culprit_ranks}))


@pytest.mark.parametrize("name", NEEDED)
def test_without_its_tie_breaker_the_case_is_not_decided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = NEEDED[name]
    case = needed.case()
    assert culprits(case) == needed.culprits
    switched_off(needed, monkeypatch)
    assert culprits(case) != needed.culprits


def test_every_tie_breaker_has_a_case_that_needs_it() -> None:
    files = {module.name for module in pkgutil.iter_modules(tie_breakers.__path__)}
    assert files == {needed.rule.partition(".")[0] for needed in NEEDED.values()}
