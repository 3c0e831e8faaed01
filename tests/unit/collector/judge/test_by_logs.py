"""Votes over the lines of all ranks: who is named, who never is, and what is told where nobody can be."""

from collections.abc import Sequence

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose
from shared.answer.diagnosis import Diagnosis, Finding
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.rank_sets import unfold
from tests.build.jobs.logged import (
    call,
    caught,
    fingerprint,
    init,
    judged_logs,
    signal,
    snapshot,
    status,
)

TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/srv/train.py", line 9, in <module>',
    "ValueError: no shard",
)


def only(diagnosis: Diagnosis) -> Finding:
    assert diagnosis.verdict is Verdict.HUNG, diagnosis.headline
    (finding,) = diagnosis.findings
    assert set(finding.culprit_ranks) <= {rank for evidence in finding.evidence for rank in unfold(evidence.ranks)}
    return finding


def reading(diagnosis: Diagnosis) -> tuple[Kind, Sequence[int], str, Certainty]:
    finding = only(diagnosis)
    return finding.kind, finding.culprit_ranks, finding.victims, finding.certainty


class TestCounters:
    def test_the_minority_at_one_sequence_is_odd(self) -> None:
        lines = {rank: [caught(rank, 12), status(rank, 12, 13)] for rank in (0, 1, 3)}
        lines[2] = [caught(2, 12, "_ALLGATHER_BASE", (64, 256)), status(2, 12, 12)]
        found = judged_logs(lines, world_size=4)
        assert reading(found) == (Kind.COLLECTIVE_MISMATCH, (2,), "0-1,3", Certainty.SUPPORTED)
        assert found.findings[0].sequence == 12
        assert found.findings[0].group is not None
        assert found.findings[0].group.ranks == "0-3"

    def test_another_size_is_another_operation(self) -> None:
        lines = {rank: [caught(rank, 12, sizes=(64 + rank // 3,) * 2), status(rank, 12, 13)] for rank in range(4)}
        assert reading(judged_logs(lines))[:2] == (Kind.COLLECTIVE_MISMATCH, (3,))

    @pytest.mark.parametrize(("first", "world_size"), [(0, 64), (0, 4), (1, 4), (1, None)])
    def test_a_few_voices_of_a_group_convict_nobody(self, first: int, world_size: int | None) -> None:
        """Whose logs are not here may have done as the one did: where a rank 3 is, a rank 0 is as well."""
        sizes = {first: 64, first + 1: 64, first + 2: 65}
        lines = {rank: [caught(rank, 12, sizes=(size,) * 2), status(rank, 12, 13)] for rank, size in sizes.items()}
        waiting = f"{first}-{first + 2}"
        found = reading(judged_logs(lines, world_size=world_size))
        assert found == (Kind.COLLECTIVE_MISMATCH, (), waiting, Certainty.SUSPECTED)

    def test_one_reporter_is_enough_to_say_what_it_waited_for(self) -> None:
        finding = only(judged_logs({3: [caught(3, 12), status(3, 12, 13)]}, world_size=4))
        assert (finding.culprits, finding.victims, finding.sequence) == ((), "3", 12)
        assert "rank 3 timed out in all_reduce" in finding.summary
        assert "the logs of the other 3 do not say where they were" in finding.summary

    @pytest.mark.parametrize(("silent", "kind"), [(0, Kind.STUCK_TOGETHER), (1, Kind.RANK_NOT_JOINED)])
    def test_all_who_speak_wait_in_one_group_of_unknown_size(self, silent: int, kind: Kind) -> None:
        lines = {rank: [caught(rank, 1), signal(rank, 7, 547)] for rank in range(2)}
        lines |= {2 + at: ["RuntimeError: CUDA error: out of luck"] for at in range(silent)}
        assert only(judged_logs(lines)).kind is kind

    def test_a_tie_names_nobody_and_tells_both_sides(self) -> None:
        lines = {
            rank: [caught(rank, 12, "ALLREDUCE" if rank < 2 else "BROADCAST"), status(rank, 12, 12)]
            for rank in range(4)
        }
        finding = only(judged_logs(lines))
        assert (finding.culprits, finding.victims) == ((), "0-3")
        assert "no side has a majority" in finding.summary

    def test_one_sequence_in_two_groups_is_no_mismatch(self) -> None:
        """Siblings of one description, each with its own name."""
        lines = {
            rank: [
                caught(rank, 12, "ALLREDUCE" if rank < 2 else "BROADCAST", group_rank=rank % 2),
                status(rank, 12, 12, f"{7 + rank // 2}(tp)", 2, rank % 2),
            ]
            for rank in range(4)
        }
        assert all(not finding.culprits for finding in judged_logs(lines).findings)

    def test_groups_that_share_an_index_are_not_compared(self) -> None:
        """torch 2.3 numbers the groups of each process: rank 0's second group is not rank 2's."""

        def old(rank: int, sequence: int, enqueued: int) -> str:
            return (
                f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1537] [PG 1 Rank {rank % 2}] Timeout at NCCL work: {sequence}, "
                f"last enqueued NCCL work: {enqueued}, last completed NCCL work: 76280750235782912."
            )

        found = judged_logs({0: [old(0, 9, 9)], 1: [old(1, 9, 9)], 2: [old(2, 9, 9)], 3: [old(3, 4, 4)]})
        assert all(not finding.culprits for finding in found.findings)

    def test_old_lines_without_a_group_are_compared_where_places_are_ranks(self) -> None:
        def old(rank: int, sequence: int, op: str = "ALLREDUCE", place: int | None = None) -> str:
            return (
                f"[E ProcessGroupNCCL.cpp:828] [Rank {rank if place is None else place}] Watchdog caught collective "
                f"operation timeout: WorkNCCL(SeqNum={sequence}, OpType={op}, Timeout(ms)=9) ran for 10 milliseconds"
            )

        lines = {rank: [old(rank, 12)] for rank in (0, 1, 3)} | {2: [old(2, 12, "BROADCAST")]}
        assert reading(judged_logs(lines))[:2] == (Kind.COLLECTIVE_MISMATCH, (2,))
        assert judged_logs({0: [old(0, 96120)], 7: [old(7, 64088)]}).verdict is Verdict.CANNOT_TELL
        lines = {rank: [old(rank, 12, "BROADCAST" if rank == 2 else "ALLREDUCE", rank % 2)] for rank in range(4)}
        assert all(not finding.culprits for finding in judged_logs(lines).findings)

    def test_who_is_not_past_what_the_others_wait_for(self) -> None:
        lines = {rank: [caught(rank, 12), status(rank, 12, 14)] for rank in (0, 1, 3)} | {2: [signal(2, 0, 11)]}
        finding = only(judged_logs(lines, world_size=4))
        assert reading(judged_logs(lines)) == (Kind.RANK_NOT_JOINED, (2,), "0-1,3", Certainty.SUPPORTED)
        assert any("inside the call" in remark for remark in finding.remarks)
        assert [e.absent for e in finding.evidence if e.kind == "sequence"] == ["2"]

    def test_one_against_one_is_a_suspicion(self) -> None:
        found = judged_logs({0: [caught(0, 12), status(0, 12, 14)], 1: [signal(1, 0, 11)]})
        assert reading(found) == (Kind.RANK_NOT_JOINED, (1,), "0", Certainty.SUSPECTED)

    def test_where_most_are_behind_the_one_who_waits_may_be_odd(self) -> None:
        lines = {0: [caught(0, 12), status(0, 12, 12)]} | {rank: [signal(rank, 0, 11)] for rank in (1, 2, 3)}
        assert only(judged_logs(lines)).culprits == ()

    def test_who_is_behind_in_one_group_and_waits_in_another_is_a_victim(self) -> None:
        """Ranks 0 and 1 wait for 2 in the world; 2 waits for 3 in their pair."""
        lines = {rank: [caught(rank, 12), status(rank, 12, 12)] for rank in (0, 1)}
        lines[2] = [caught(2, 40, group_rank=0), status(2, 40, 40, "9(tp)", 3, 0), signal(2, 0, 11)]
        lines[3] = [signal(3, 0, 39, "9(tp)", 1), signal(3, 0, 11)]
        assert reading(judged_logs(lines))[:2] == (Kind.RANK_NOT_JOINED, (3,))

    def test_counters_alone_are_a_timeout(self) -> None:
        """Who is notified tells its counters: called and not completed is a wait, all completed is not come."""

        def told(rank: int, enqueued: int, completed: int) -> str:
            return signal(rank, 0, enqueued).replace(
                f"completed NCCL work: {enqueued}", f"completed NCCL work: {completed}"
            )

        lines = {rank: [told(rank, 15, 11)] for rank in (0, 1, 3)} | {2: [told(2, 11, 11)]}
        assert reading(judged_logs(lines, world_size=4))[:2] == (Kind.RANK_NOT_JOINED, (2,))
        lines = {rank: [told(rank, 11, 11)] for rank in range(4)}
        assert judged_logs(lines, world_size=4).verdict is Verdict.CANNOT_TELL

    def test_equal_operations_are_of_one_group_without_a_tag(self) -> None:
        lines = {rank: [caught(rank, 12, group_rank=rank % 2)] for rank in (0, 2)}
        finding = only(judged_logs(lines))
        assert (finding.culprits, finding.victims) == ((), "0,2")
        assert "a group that the lines do not name" in finding.summary
        lines[1] = [caught(1, 12, group_rank=0), status(1, 12, 13, "9(tp)", 3, 0)]
        assert "0-2 timed out in all_reduce of 64 elements #12 of group 9 (tp)" in only(judged_logs(lines)).summary

    def test_a_watchdog_that_is_held_itself_is_told(self) -> None:
        stuck = "[rank1]:[E1121] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 "
        stuck += "seconds without making progress in monitoring enqueued collectives."
        finding = only(judged_logs({0: ["step 4"], 1: [stuck]}, world_size=2))
        assert (finding.kind, finding.culprits, finding.victims) == (Kind.STUCK_TOGETHER, (), "1")
        assert "the watchdog of rank 1 made no progress for 480 s" in finding.summary
        lines = {rank: [caught(rank, 12), status(rank, 12, 14), stuck] for rank in (0, 1)} | {2: [signal(2, 0, 11)]}
        assert only(judged_logs(lines, world_size=3)).culprit_ranks == (2,)

    def test_in_a_group_of_two_one_waits_for_the_other_if_that_speaks(self) -> None:
        waits = [caught(0, 12, "ALLGATHER", (1, 2)), status(0, 12, 12)]
        other = "[rank1]: [E1121] First PG on this rank to signal dumping."
        assert reading(judged_logs({0: waits, 1: [other]}))[:2] == (Kind.RANK_NOT_JOINED, (1,))
        for lines in ({0: waits}, {0: waits, 1: []}, {0: waits, 1: [other], 2: [other.replace("rank1", "rank2")]}):
            assert only(judged_logs(lines)).culprits == ()

    @pytest.mark.parametrize(("sequence", "kind"), [(412, Kind.COLLECTIVE_MISMATCH), (7, Kind.RANK_NOT_JOINED)])
    def test_a_line_without_a_tag_is_of_the_default_group_that_others_name_there(
        self, sequence: int, kind: Kind
    ) -> None:
        """A high number is no coincidence."""
        lines = {0: [caught(0, sequence, sizes=(7, 7))], 1: [caught(1, sequence), status(1, sequence, sequence)]}
        assert (only(judged_logs(lines)).kind, only(judged_logs(lines)).culprits) == (kind, ())

    def test_other_operations_without_a_tag_are_not_compared(self) -> None:
        lines = {rank: [caught(rank, 12, "BROADCAST" if rank == 2 else "ALLREDUCE", group_rank=1)] for rank in range(4)}
        assert all(not finding.culprits for finding in judged_logs(lines).findings)

    def test_all_in_one_operation_is_no_divergence(self) -> None:
        lines = {rank: [caught(rank, 1, "BROADCAST"), status(rank, 1, 547)] for rank in range(2)}
        finding = only(judged_logs(lines, world_size=2))
        assert (finding.kind, finding.culprits, finding.certainty) == (Kind.STUCK_TOGETHER, (), Certainty.SUSPECTED)

    def test_silent_members_are_told_and_not_named(self) -> None:
        """A rank's absence from logs means nothing: lines are dropped, files are lost."""
        lines = {rank: [caught(rank, 7, "_ALLGATHER_BASE", (4, 64)), status(rank, 7, 8)] for rank in (0, 4)}
        finding = only(judged_logs(lines, world_size=16))
        assert finding.culprits == ()
        assert "the other 14" in finding.summary

    def test_lines_of_an_earlier_attempt_in_the_same_log_are_passed_over(self) -> None:
        """Rank 3 did not come in the morning; now it is rank 2."""
        early = {rank: [caught(rank, 500), status(rank, 500, 900)] for rank in (0, 1, 2)} | {3: [signal(3, 0, 499)]}
        late = {rank: [caught(rank, 12), status(rank, 12, 12)] for rank in (0, 1, 3)} | {2: [signal(2, 0, 11)]}
        lines = {rank: [*(line.replace(" 09:", " 06:") for line in early[rank]), *late[rank]] for rank in range(4)}
        assert reading(judged_logs(lines))[:2] == (Kind.RANK_NOT_JOINED, (2,))

    def test_receives_are_not_compared(self) -> None:
        lines = {rank: [caught(rank, 12 + rank, "RECV"), status(rank, 12 + rank, 12 + rank)] for rank in range(3)}
        assert judged_logs(lines | {3: [signal(3, 0, 5)]}).verdict is Verdict.CANNOT_TELL

    def test_the_sender_of_the_dump_signal_is_no_culprit(self) -> None:
        lines = {rank: [signal(rank, 3, 56)] for rank in range(3)}
        assert judged_logs(lines, world_size=4).verdict is Verdict.CANNOT_TELL


class TestReports:
    REPORT = (
        "  - [0] Timeout at collective: ALLREDUCE, #7",
        "  - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
        "    - [0, 2, 3] joined but didn't finish collective #7 (count from 1)",
        "    - [1] finished collective #6, but didn't join collective #7 (count from 1)",
    )

    def test_a_desync_report(self) -> None:
        found = judged_logs({0: self.REPORT}, world_size=4)
        assert reading(found) == (Kind.RANK_NOT_JOINED, (1,), "0,2-3", Certainty.SUSPECTED)

    def test_a_desync_report_that_names_nobody_who_has_not_joined(self) -> None:
        found = judged_logs({0: self.REPORT[:3]}, world_size=4)
        assert reading(found) == (Kind.STUCK_TOGETHER, (), "0,2-3", Certainty.SUSPECTED)
        assert found.findings[0].sequence == 7

    def test_what_torchfrtrace_has_found(self) -> None:
        lines = ["Not all ranks joining collective 9 at entry 8", "missing ranks: {1}", "expected ranks: 4"]
        found = judged_logs({0: [], 1: [], 2: [], 3: []}, common=lines)
        assert found.findings[0].culprit_ranks == (1,)
        assert "according to the desync report of torchfrtrace" in found.headline
        many = judged_logs({0: [], 1: [], 2: [], 3: []}, common=["missing ranks: {1, 2, 3}"])
        assert not any(finding.culprits for finding in many.findings)

    def test_watchdog_lines_are_the_same_witness(self) -> None:
        lines = {0: [*self.REPORT, caught(0, 7), status(0, 7, 7)], 1: [signal(1, 0, 6)]}
        assert reading(judged_logs(lines, world_size=4)) == (Kind.RANK_NOT_JOINED, (1,), "0,2-3", Certainty.SUSPECTED)

    def test_a_monitored_barrier(self) -> None:
        lines = {
            0: ["RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 30000 ms"],
            1: [reached(1)],
            3: [reached(3)],
        }
        found = judged_logs(lines, world_size=4)
        assert reading(found) == (Kind.RANK_NOT_JOINED, (2,), "0-1,3", Certainty.SUSPECTED)

    def test_rank_0_of_the_barrier_never_names_itself(self) -> None:
        """Where it names all others, it may be the one that stands alone."""
        lines = {0: ["RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 120000 ms"]}
        assert all(not finding.culprits for finding in judged_logs(lines, world_size=3).findings)

    @pytest.mark.parametrize(("named", "world_size", "culprits"), [(1, 4, ()), (2, 4, (2,)), (1, 2, (1,)), (3, 9, ())])
    def test_where_only_the_first_is_named_the_later_ones_may_be_missing_too(
        self, named: int, world_size: int, culprits: tuple[int, ...]
    ) -> None:
        lines = {0: [f"RuntimeError: [Rank 0]: Rank {named} failed to pass monitoredBarrier in 30000 ms"]}
        assert only(judged_logs(lines, world_size=world_size)).culprit_ranks == culprits

    def test_a_rank_that_waits_elsewhere_is_not_the_one(self) -> None:
        lines = {
            0: ["RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 30000 ms"],
            1: [reached(1)],
            2: [caught(2, 9, group_rank=0), status(2, 9, 9, "5(tp)", 2, 0)],
        }
        assert all(not finding.culprits for finding in judged_logs(lines, world_size=4).findings)

    def test_places_in_an_unknown_group_are_no_ranks(self) -> None:
        """Rank 4 speaks as rank 0 of its group: whom it means by 1 is not known."""
        lines = {4: ["RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 30000 ms"], 1: [], 5: []}
        assert all(not finding.culprits for finding in judged_logs(lines, world_size=8).findings)


def reached(rank: int) -> str:
    return (
        f"[rank{rank}]: RuntimeError: Rank {rank} successfully reached monitoredBarrier, but received errors while "
        "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."
    )


class TestFingerprints:
    def test_all_accuse_somebody_and_the_majority_is_right(self) -> None:
        lines = {
            0: [fingerprint(0, "20", 1, "21")],
            1: [fingerprint(1, "21", 0, "20")],
            2: [fingerprint(2, "21", 0, "20")],
        }
        found = judged_logs(lines)
        assert reading(found) == (Kind.COLLECTIVE_MISMATCH, (0,), "1-2", Certainty.SUPPORTED)
        assert found.findings[0].cause is Cause.USER_CODE

    def test_in_one_file_without_marks(self) -> None:
        common = [fingerprint(0, "20", 1, "21"), fingerprint(1, "21", 0, "20"), fingerprint(2, "21", 0, "20")]
        found = judged_logs({0: [], 1: [], 2: []}, common=common)
        assert reading(found)[:2] == (Kind.COLLECTIVE_MISMATCH, (0,))

    def test_hearsay_alone_is_a_suspicion(self) -> None:
        lines = {1: [fingerprint(1, "21", 0, "20")], 2: [fingerprint(2, "21", 0, "20")], 0: []}
        assert reading(judged_logs(lines)) == (Kind.COLLECTIVE_MISMATCH, (0,), "1-2", Certainty.SUSPECTED)

    def test_two_ranks_are_a_tie(self) -> None:
        lines = {
            0: [fingerprint(0, "4", 1, "", "BARRIER", "GATHER")],
            1: [fingerprint(1, "", 0, "4", "GATHER", "BARRIER")],
        }
        finding = only(judged_logs(lines))
        assert (finding.kind, finding.culprits) == (Kind.COLLECTIVE_MISMATCH, ())
        assert "barrier" in finding.summary
        assert "gather" in finding.summary

    def test_two_groups_at_once_are_not_mixed(self) -> None:
        lines = {rank: [fingerprint(rank % 2, str(rank), 1 - rank % 2, "9")] for rank in range(4)}
        assert all(not finding.culprits for finding in judged_logs(lines).findings)


class TestOwnWords:
    WAITS = ("RuntimeError: [/src/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete",)

    def test_who_failed_while_the_others_waited(self) -> None:
        found = judged_logs({0: self.WAITS, 1: self.WAITS, 2: TRACEBACK})
        assert reading(found) == (Kind.RANK_NOT_JOINED, (2,), "0-1", Certainty.SUSPECTED)
        assert found.findings[0].cause is Cause.EXCEPTION

    def test_counters_agree(self) -> None:
        lines = {rank: [caught(rank, 12), status(rank, 12, 12)] for rank in (0, 1)} | {
            2: [*TRACEBACK, signal(2, 0, 11)]
        }
        assert reading(judged_logs(lines)) == (Kind.RANK_NOT_JOINED, (2,), "0-1", Certainty.SUPPORTED)

    @pytest.mark.parametrize(
        "echo",
        [
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1",
            "RuntimeError: [/src/pair.cc:553] Connection closed by peer [10.1.2.3]:40123",
            "RuntimeError: DDP expects same model across all ranks, but Rank 2 has 5 params, while rank 0 has 0 params",
        ],
    )
    def test_an_echo_of_communication_is_no_failure_of_its_own(self, echo: str) -> None:
        found = judged_logs({0: self.WAITS, 1: self.WAITS, 2: [*TRACEBACK[:2], echo]})
        assert all(not finding.culprits for finding in found.findings)

    def test_what_fails_after_waiting_is_a_consequence(self) -> None:
        found = judged_logs({0: self.WAITS, 1: self.WAITS, 2: [*self.WAITS, *TRACEBACK]})
        assert all(not finding.culprits for finding in found.findings)

    def test_a_caught_exception_is_an_old_story(self) -> None:
        lines = [*TRACEBACK, *(f"step {step}" for step in range(40))]
        assert all(not finding.culprits for finding in judged_logs({0: self.WAITS, 1: self.WAITS, 2: lines}).findings)
        lines = [*TRACEBACK, caught(2, 12), status(2, 12, 12)]
        assert all(not finding.culprits for finding in judged_logs({0: self.WAITS, 1: self.WAITS, 2: lines}).findings)

    def test_nobody_waited_in_vain_at_a_start_that_went_well(self) -> None:
        line = "Waiting for rank: {}, key: store_based_barrier_key:1 (world_size=3, worker_count=2, timeout=0:30:00)"
        found = judged_logs({rank: [line.format(rank), *(TRACEBACK if rank == 2 else ())] for rank in range(3)})
        assert found.verdict is Verdict.CANNOT_TELL

    def test_what_most_fail_of_is_nobodys(self) -> None:
        found = judged_logs({0: self.WAITS, 1: TRACEBACK, 2: TRACEBACK})
        assert all(not finding.culprits for finding in found.findings)


class TestCalls:
    def test_another_call_at_one_number(self) -> None:
        lines = {
            rank: [
                init(4000 + rank, rank),
                *(call(4000 + rank, n) for n in range(5)),
                call(4000 + rank, 5, count=64 + rank // 3),
            ]
            for rank in range(4)
        }
        found = judged_logs(lines)
        assert reading(found) == (Kind.COLLECTIVE_MISMATCH, (3,), "0-2", Certainty.SUPPORTED)
        assert found.findings[0].group is not None
        assert found.findings[0].group.name == "0x9f2c"

    def test_the_earliest_difference_counts_and_another_root_is_one(self) -> None:
        lines = {
            rank: [
                init(4000 + rank, rank),
                call(4000 + rank, 0),
                call(4000 + rank, 1, "Broadcast", root=rank // 3),
                call(4000 + rank, 2),
            ]
            for rank in range(4)
        }
        assert reading(judged_logs(lines))[:2] == (Kind.COLLECTIVE_MISMATCH, (3,))

    def test_who_has_not_called_what_all_others_have(self) -> None:
        lines = {
            rank: [init(4000 + rank, rank), *(call(4000 + rank, n) for n in range(16 if rank != 1 else 15))]
            for rank in range(4)
        }
        assert reading(judged_logs(lines)) == (Kind.RANK_NOT_JOINED, (1,), "0,2-3", Certainty.SUSPECTED)
        lines[1].append(caught(1, 9))
        assert all(not finding.culprits for finding in judged_logs(lines).findings)

    @pytest.mark.parametrize("last", [(16, 15, 14, 16), (16, 16, 15, 15), (16, 15, 15, 15)])
    def test_marks_that_lie_scattered_name_nobody(self, last: tuple[int, ...]) -> None:
        lines = {
            rank: [init(4000 + rank, rank), *(call(4000 + rank, n) for n in range(end))]
            for rank, end in enumerate(last)
        }
        assert all(not finding.culprits for finding in judged_logs(lines).findings)

    def test_sends_and_receives_number_differently_on_every_rank(self) -> None:
        lines = {
            rank: [
                init(4000 + rank, rank),
                *(call(4000 + rank, n, "Send" if n else "AllReduce") for n in range(9 - rank // 3)),
            ]
            for rank in range(4)
        }
        assert judged_logs(lines).verdict is Verdict.CANNOT_TELL

    def test_a_mangled_log_lacks_calls(self) -> None:
        lines = {rank: [init(4000 + rank, rank), *(call(4000 + rank, n) for n in range(9))] for rank in range(3)}
        lines[3] = [
            init(4003, 3),
            *(call(4003, n) for n in range(8)),
            "node1:4003:1 [0] NCCL INFO AllReduce: opCount 8 sen",
        ]
        assert judged_logs(lines).verdict is Verdict.CANNOT_TELL


class TestConnections:
    def error(self, peer: str, host: str = "node1", status: int = 12) -> str:
        return (
            f"{host}:42:51 [0] NCCL WARN NET/IB: Got completion from peer {peer}<40123> with status={status} opcode=0 "
            "len=0 vendor err 129 (Recv) hca mlx5_1"
        )

    def test_a_link_has_two_ends_and_neither_is_convicted(self) -> None:
        using = "node2:43:52 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>"
        found = judged_logs({0: [self.error("10.1.2.3")], 1: [using]}, hosts={0: "node1", 1: "node2"})
        finding = only(found)
        assert (finding.kind, finding.cause, finding.culprits) == (Kind.STUCK_TOGETHER, Cause.NETWORK, ())
        (link,) = finding.links
        assert (link.from_.rank, link.from_.host, link.to.host, link.interface) == (0, "node1", "node2", "mlx5_1")

    def test_a_flushed_queue_is_told_only_where_nothing_else_is(self) -> None:
        found = only(judged_logs({0: [self.error("10.1.2.3"), self.error("10.9.9.9", status=5)]}))
        assert [link.to.host for link in found.links] == ["10.1.2.3"]

    def test_connections_that_only_close_are_how_jobs_end(self) -> None:
        closed = "node1:42:51 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node2<4>"
        assert judged_logs({0: ["Training complete", closed]}).verdict is Verdict.CANNOT_TELL
        lost = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
        assert only(judged_logs({0: [closed, lost]})).links != ()

    def test_the_odd_interface_is_a_conflict_and_no_verdict(self) -> None:
        lines = {
            rank: [f"node{rank}:42:51 [0] NCCL INFO NET/Socket : Using [0]eth{int(rank == 2)}:10.0.0.{rank}<0>"]
            for rank in range(4)
        }
        found = judged_logs(lines)
        assert found.verdict is Verdict.CANNOT_TELL
        (conflict,) = found.conflicts
        assert "node2: eth1" in conflict.text
        del lines[0], lines[1]
        assert judged_logs(lines).conflicts == ()

    def test_a_device_that_one_node_could_not_open_is_a_conflict_where_others_took_it(self) -> None:
        refused = "node1:42:51 [0] transport/net_ib.cc:214 NCCL WARN NET/IB : Unable to open device mlx5_3"
        taken = "node0:42:51 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/RoCE [1]mlx5_3:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"
        found = judged_logs({0: [taken], 1: [refused]})
        assert found.verdict is Verdict.CANNOT_TELL
        assert [each.text for each in found.conflicts] == ["NCCL could not open mlx5_3 on node1; node0 took it"]
        assert judged_logs({0: [taken.replace("mlx5_3", "mlx5_4")], 1: [refused]}).conflicts == ()
        assert judged_logs({0: [refused], 1: [refused]}).conflicts == ()


class TestRendezvous:
    def test_too_few_came(self) -> None:
        line = "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined."
        finding = only(judged_logs({0: [line]}, world_size=4))
        assert (finding.kind, finding.culprits) == (Kind.STARTUP_INCOMPLETE, ())

    def test_the_count_is_no_fault_while_it_goes_on(self) -> None:
        line = "Waiting for rank: 0, key: store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)"
        assert judged_logs({0: [line]}, world_size=4).verdict is Verdict.CANNOT_TELL

    def test_who_never_published_the_id(self) -> None:
        lines = {
            rank: [
                f"[{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
                "key-value store by key '0', but store->get('0') got error: Socket Timeout"
            ]
            for rank in (1, 2, 3)
        }
        assert reading(judged_logs(lines | {0: []}, world_size=4))[:3] == (Kind.RANK_NOT_JOINED, (0,), "1-3")
        ring = {rank: [line.replace("key '0'", f"key '{rank - 1}:{rank}'")] for rank, (line,) in lines.items()}
        assert not any(each.culprits for each in judged_logs(ring | {0: []}, world_size=4).findings)


def test_voices_for_different_ranks_name_nobody() -> None:
    lines = {
        0: [caught(0, 12), status(0, 12, 12)],
        1: [signal(1, 0, 11)],
        2: TRACEBACK,
        3: ["RuntimeError: [/src/unbound_buffer.cc:78] Timed out waiting 30000ms for recv operation to complete"],
    }
    finding = only(judged_logs(lines))
    assert finding.culprits == ()
    assert "blame different ranks" in finding.summary


@pytest.mark.parametrize(
    "line",
    [
        "[rank1]:[E] First PG on this rank to signal dumping.",
        "  rank      : 1 (local_rank: 1)",
        "E1121 09:10:11.1 42 api.py:988] failed (exitcode: 1) local_rank: 1 (pid: 4245) of binary: /usr/bin/python",
        "Could not acquire GIL within 300 ms on exit, possible GIL induced hang",
        "node1:42:51 [0] NCCL INFO [Service thread] Connection closed by localRank 1",
        '[rank1]:[W1121] Failed to check the "should dump" flag on TCPStore, with error: Broken pipe',
        "step 1",
    ],
)
def test_hints_and_noise_convict_nobody(line: str) -> None:
    found = judged_logs({0: [line], 1: [line], 2: ["step 4"]}, common=[line], world_size=3)
    assert found.verdict is Verdict.CANNOT_TELL
    assert found.findings == ()


def test_no_log_no_word() -> None:
    assert diagnose([snapshot({})], Expected()).verdict is Verdict.CANNOT_TELL
