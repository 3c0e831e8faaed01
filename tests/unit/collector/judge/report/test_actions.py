"""The act of a verdict: right by kind, cause and certainty, and never a node left out because of what programs do."""

from collections.abc import Callable

import pytest

from collector.align.expected import Expected, Unanswered
from collector.judge.report.actions import ACTS
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis
from shared.answer.words import HARDWARE_CAUSES, Act
from shared.missing import Missing, Reason
from tests.build.jobs import verdicts
from tests.build.jobs.four_ranks import AWAY, TWO_NODES, looks_without
from tests.build.jobs.simulated import USER, Seen

ACT_OF = {
    verdicts.rank_not_joined: Act.FREE,
    verdicts.rank_stopped: Act.FREE,
    verdicts.gpu_fault: Act.RESTART_WITHOUT_NODES,
    verdicts.stuck_on_a_link: Act.RESTART,
    verdicts.stuck_together: Act.RESTART,
    verdicts.rank_exited: Act.RESTART,
    verdicts.died: Act.RESTART,
    verdicts.rank_missing: Act.COLLECT,
    verdicts.rank_unreachable: Act.COLLECT,
    verdicts.mismatch_with_majority: Act.FIX_CODE,
    verdicts.order_inversion: Act.FIX_CODE,
    verdicts.p2p_deadlock: Act.FIX_CODE,
    verdicts.exception_in_logs: Act.FIX_CODE,
    verdicts.straggler: Act.FIX_CODE,
    verdicts.straggler_by_stacks: Act.COLLECT,
    verdicts.held_up: Act.WAIT,
    verdicts.cannot_tell: Act.COLLECT,
    verdicts.not_hung: Act.NOTHING,
}


@pytest.mark.parametrize(("verdict", "act"), ACT_OF.items(), ids=lambda each: getattr(each, "__name__", each))
def test_each_verdict_has_its_act(verdict: Callable[[], Diagnosis], act: Act) -> None:
    """With a reason, and with what a program needs to do it."""
    answer = verdict()
    action = answer.action
    assert action is not None and action.do is act and action.text and action.reason
    assert bool(action.exclude) is (act is Act.RESTART_WITHOUT_NODES)
    assert (action.until is not None) is (act is Act.WAIT)
    ends_ranks = act in (Act.RESTART, Act.RESTART_WITHOUT_NODES, Act.FIX_CODE)
    assert not action.lost or (ends_ranks and "live rank" in action.lost)


def test_command_lets_the_rank_go_on_where_it_is() -> None:
    action = verdicts.rank_stopped().action
    assert action is not None
    assert (action.command, action.host, action.again) == ("kill -CONT 1000", "node-a", "unlikely")


def test_only_the_node_whose_kernel_tells_of_it_is_left_out() -> None:
    action = verdicts.gpu_fault().action
    assert action is not None and action.exclude == ("b",)


def test_node_is_never_left_out_for_user_code_however_often_it_was_at_fault() -> None:
    """The line is told instead."""
    looks = looks_without({2: Seen((USER,))}, hosts=TWO_NODES)
    action = diagnose(looks, Expected(job="sim", faulty_hosts=("a", "b"))).action
    assert action is not None and action.do is Act.FIX_CODE and not action.exclude
    assert action.places == (f"{USER.file}:{USER.line}",)


def test_rows_that_leave_nodes_out_are_about_hardware() -> None:
    """Or about a node that does not answer."""
    for row in ACTS:
        if row.do is Act.RESTART_WITHOUT_NODES:
            assert row.row.causes <= HARDWARE_CAUSES
            assert row.row.causes or row.row.kinds == {"rank_unreachable"}
            assert {name for name, _ in row.row.facts} & {"broken", "came_before"}


@pytest.mark.parametrize("faulty", [(), ("b",)])
def test_node_that_does_not_answer_is_left_out_where_it_was_at_fault_before(faulty: tuple[str, ...]) -> None:
    missing = Missing(source="http://b:8471", reason=Reason.TIMED_OUT, detail="no answer within 5.0 s")
    silent = Unanswered(host="b", missing=missing, ranks="2-3")
    looks = [look for look in looks_without({3: AWAY}, hosts=TWO_NODES) if look.host != "b"]
    asked = Expected(job="sim", world_size=4, unanswered=(silent,), faulty_hosts=faulty)
    action = diagnose(looks, asked).action
    assert action is not None and action.exclude == faulty
