"""What ended by itself, and what only followed: votes by launchers, Slurm, networks and stores."""

import pytest

from shared.answer.words import Cause, Kind, Verdict
from tests.build.jobs.logged import call, caught, judged_logs, status
from tests.unit.collector.judge.test_by_logs import TRACEBACK, only

CLOSED = "[rank{}]: RuntimeError: [/src/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.2.3]:40123"
WAITED = (
    "[rank{}]: RuntimeError: [/src/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete"
)


class TestWhatEnded:
    @pytest.mark.parametrize(
        ("lines", "kind", "cause", "said"),
        [
            (["srun: error: Node failure on node7"], Kind.RANK_UNREACHABLE, Cause.UNKNOWN, "node node7 failed"),
            (
                [
                    "ORTE has lost communication with a remote daemon.",
                    "",
                    "  HNP daemon   : [[4242,0],0] on node node1",
                    "  Remote daemon: [[4242,0],1] on node node7",
                ],
                Kind.RANK_UNREACHABLE,
                Cause.UNKNOWN,
                "node node7 was lost, by mpirun's account",
            ),
            (["srun: error: node7: task 13: Killed"], Kind.RANK_EXITED, Cause.SIGNAL, "task 13 on node7 ended"),
            (
                ["slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks"],
                Kind.RANK_EXITED,
                Cause.OOM,
                "OOM-killed",
            ),
            (["  exitcode  : -11 (pid: 42)"], Kind.RANK_EXITED, Cause.SIGNAL, "process 42 was killed by signal 11"),
            (
                ["RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /src/THC/a.cpp:7"],
                Kind.RANK_EXITED,
                Cause.GPU_FAULT,
                "failed: uncorrectable ECC error encountered",
            ),
            (
                ["Queue 0x7f00 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in x"],
                Kind.RANK_EXITED,
                Cause.USER_CODE,
                "failed: aborting with error : HSA_STATUS_ERROR_EXCEPTION",
            ),
            (
                ["        Device[3] lost heartbeat.[FUNC:SyncTask]"],
                Kind.RANK_EXITED,
                Cause.GPU_FAULT,
                "failed: Device[3] lost heartbeat",
            ),
            (
                ["E1121 driver.cc:820] [/dev/accel3 tpu7:pe1:3] !!!! FATAL ERROR !!!! for [/dev/accel3 tpu7:pe1:3]"],
                Kind.RANK_EXITED,
                Cause.GPU_FAULT,
                "failed: /dev/accel3 tpu7:pe1:3",
            ),
            (
                ["[node7:42] *** Process received signal ***", "[node7:42] Signal: Bus error (7)"],
                Kind.RANK_EXITED,
                Cause.SIGNAL,
                "process 42 on node7",
            ),
            (
                ["[node7:42] *** Process received signal ***"],
                Kind.RANK_EXITED,
                Cause.SIGNAL,
                "process 42 on node7 was ended by a signal",
            ),
            (
                [
                    "terminate called after throwing an instance of 'c10::CUDAError'",
                    "  what():  CUDA error: unknown error",
                ],
                Kind.RANK_EXITED,
                Cause.GPU_FAULT,
                "",
            ),
        ],
    )
    def test_speaks_for_itself(self, lines: list[str], kind: Kind, cause: Cause, said: str) -> None:
        finding = only(judged_logs({}, common=lines))
        assert (finding.kind, finding.cause, finding.culprits) == (kind, cause, ())
        assert said in finding.summary

    @pytest.mark.parametrize("pid", ["0", "4242"])
    def test_of_whom_mpirun_names_the_rank(self, pid: str) -> None:
        line = f"mpirun noticed that process rank 3 with PID {pid} on node node7 exited on signal 9 (Killed)."
        finding = only(judged_logs({0: ["step 1"], 3: ["step 1"]}, common=[line]))
        assert (finding.kind, finding.culprit_ranks, finding.cause) == (Kind.RANK_EXITED, (3,), Cause.SIGNAL)

    @pytest.mark.parametrize(("pid", "culprits"), [("42", (3,)), ("43", ())])
    def test_whose_own_handler_spoke_before_mpirun_is_named_if_it_is_the_same(
        self, pid: str, culprits: tuple[int, ...]
    ) -> None:
        own = ["[node7:42] *** Process received signal ***", "[node7:42] Signal: Segmentation fault (11)"]
        line = (
            f"mpirun noticed that process rank 3 with PID {pid} on node node7 exited on signal 11 (Segmentation fault)."
        )
        assert only(judged_logs({0: ["step 1"], 3: ["step 1"]}, common=[*own, line])).culprit_ranks == culprits

    def test_what_mpirun_starts_is_a_launcher_where_torchelastic_has_a_table(self) -> None:
        table = ["  rank      : 9 (local_rank: 1)", "  exitcode  : -11 (pid: 42)"]
        line = "mpirun noticed that process rank 1 with PID 0 on node node7 exited on signal 9 (Killed)."
        assert only(judged_logs({1: ["step 1"], 9: ["step 1"]}, common=[*table, line])).culprit_ranks == (9,)

    @pytest.mark.parametrize(
        "line",
        [
            "mpirun noticed that process rank 3 with PID 0 on node node7 exited on signal 6 (Aborted).",
            "mpirun noticed that process rank 3 with PID 0 on node node7 exited on signal 15 (Terminated).",
            "  HNP daemon   : [[4242,0],0] on node node1",
            "  exitcode  : -6 (pid: 42)",
            "  exitcode  : -15 (pid: 42)",
            "  exitcode  : 1 (pid: 42)",
            "  traceback : Signal 6 (SIGABRT) received by PID 42",
            "srun: error: node7: task 13: Aborted (core dumped)",
            "srun: error: node7: task 13: Terminated",
            "[node7:42] *** Process received signal ***\n[node7:42] Signal: Aborted (6)",
            "RuntimeError: CUDA error: unknown error",
        ],
    )
    def test_what_a_watchdog_or_a_launcher_ends_does_not(self, line: str) -> None:
        assert judged_logs({}, common=line.split("\n")).verdict is Verdict.CANNOT_TELL

    def test_a_process_that_failed_before_others_lost_it(self) -> None:
        lines = [
            "node2:42:43 [0] p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
            "node2:44:45 [1] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer node2<40123>",
        ]
        finding = only(judged_logs({}, common=lines))
        assert (finding.kind, finding.cause) == (Kind.RANK_EXITED, Cause.USER_CODE)
        assert "process 42 on node2 failed: invalid device ordinal" in finding.summary

    @pytest.mark.parametrize("before", [[], ["failed (exitcode: -9) local_rank: 2 (pid: 42) of binary: python"]])
    def test_torchelastic_tells_the_rank_of_a_signal(self, before: list[str]) -> None:
        table = [*before, "step 8", "  rank      : 2 (local_rank: 2)", "  exitcode  : -9 (pid: 42)"]
        finding = only(judged_logs({rank: [] for rank in range(4)}, common=table, world_size=4))
        assert (finding.kind, finding.cause, finding.culprit_ranks) == (Kind.RANK_EXITED, Cause.SIGNAL, (2,))

    def test_the_rank_that_found_nan(self) -> None:
        line = "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel"
        lines = {rank: [caught(rank, 12), status(rank, 12, 13)] for rank in (0, 1)}
        finding = only(judged_logs(lines | {3: []}, common=[line]))
        assert (finding.kind, finding.cause, finding.culprit_ranks) == (Kind.RANK_EXITED, Cause.EXCEPTION, (3,))

    def test_the_rank_whose_device_failed_where_another_line_tells_it(self) -> None:
        what = "CUDA error: uncorrectable ECC error encountered"
        ended = f"[rank6]:[E1 ProcessGroupNCCL.cpp:9] [Rank 6] watchdog thread terminated with exception: {what}"
        assert only(judged_logs({6: [ended]}, common=[f"RuntimeError: {what}"])).culprit_ranks == (6,)

    def test_an_error_of_a_program_alone_is_a_crash(self) -> None:
        line = "RuntimeError: CUDA error: an illegal memory access was encountered"
        assert judged_logs({}, common=[line]).verdict is Verdict.CANNOT_TELL

    def test_after_a_wait_it_is_a_consequence(self) -> None:
        waits = {rank: [caught(rank, 12), status(rank, 12, 12)] for rank in range(2)}
        kill = "[2026-11-21T09:{}] error: Detected 1 oom_kill event in StepId=4242.0."
        assert only(judged_logs(waits, common=[kill.format("12:00.1")])).cause is Cause.UNKNOWN
        assert only(judged_logs(waits, common=[kill.format("08:00.1")])).cause is Cause.OOM


class TestWhatTheProgramAsked:
    @pytest.mark.parametrize(
        ("what", "cause", "later"),
        [
            ("an illegal memory access was encountered", Cause.USER_CODE, True),
            ("device-side assert triggered", Cause.USER_CODE, True),
            ("invalid device ordinal", Cause.USER_CODE, False),
            ("uncorrectable ECC error encountered", Cause.GPU_FAULT, False),
        ],
    )
    def test_is_not_the_fault_of_its_device(self, what: str, cause: Cause, later: bool) -> None:
        lines = {rank: [caught(rank, 12), status(rank, 12, 13)] for rank in (0, 1)}
        finding = only(judged_logs(lines | {2: [*TRACEBACK[:2], f"RuntimeError: CUDA error: {what}"]}))
        assert (finding.culprit_ranks, finding.cause) == ((2,), cause)
        assert any("CUDA_LAUNCH_BLOCKING=1" in remark for remark in finding.remarks) is later

    @pytest.mark.parametrize("number", [5, 28, 95])
    def test_what_storage_refuses_is_the_file_systems(self, number: int) -> None:
        lines = {0: [caught(0, 12), status(0, 12, 13)], 2: [f"[rank2]: OSError: [Errno {number}] No: '/scratch'"]}
        assert only(judged_logs(lines)).cause is Cause.FILESYSTEM

    def test_whose_peers_lost_it_has_ended(self) -> None:
        lines = {0: [CLOSED.format(0)], 2: ["[rank2]: KeyError: 'a'"]}
        assert only(judged_logs(lines)).kind is Kind.RANK_EXITED
        lines = {0: [WAITED.format(0)], 2: ["[rank2]: KeyError: 'a'"]}
        assert only(judged_logs(lines)).kind is Kind.RANK_NOT_JOINED


class TestNetwork:
    def test_what_closes_after_a_wait_is_a_consequence(self) -> None:
        closed = CLOSED.format(1)
        waits = {0: [caught(0, 12), status(0, 12, 13)]}
        later = closed.replace("[rank1]: ", "[rank1]:[E1121 09:10:14.2 x] ")
        finding = only(judged_logs(waits | {1: [later]}, world_size=4))
        assert (finding.cause, finding.links) == (Cause.UNKNOWN, ())
        earlier = closed.replace("[rank1]: ", "[rank1]:[E1121 09:10:02.2 x] ")
        assert any(finding.links for finding in judged_logs({1: [earlier, *TRACEBACK]}).findings)

    def test_a_fabric_that_does_not_name_the_peer(self) -> None:
        line = "node1:42:51 [0] nccl_net_ofi.c:120 NCCL WARN NET/OFI Request completed with error: Input/output error"
        finding = only(judged_logs({}, common=[line]))
        assert (finding.kind, finding.cause) == (Kind.STUCK_TOGETHER, Cause.NETWORK)
        assert "the network failed on node1" in finding.summary

    def test_what_closes_behind_an_error_of_the_fabric_hides_nothing(self) -> None:
        """Alone it is what every job that ends looks like."""
        closed = "node1:42:51 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node7<4>"
        failed = "node1:42:51 [0] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error No such device"
        assert judged_logs({}, common=[closed]).verdict is Verdict.CANNOT_TELL
        finding = only(judged_logs({}, common=[failed, closed]))
        assert (finding.cause, finding.culprits) == (Cause.NETWORK, ())
        assert "ibv_modify_qp: No such device" in finding.summary

    def test_a_wait_over_gloo_tells_the_call(self) -> None:
        frame = '  File "/venv/torch/distributed/distributed_c10d.py", line 4627, in barrier'
        lines = [f"[rank3]: {TRACEBACK[0]}", f"[rank3]: {frame}", WAITED.format(3)]
        finding = only(judged_logs({3: lines}))
        assert (finding.culprits, finding.op) == ((), "barrier")
        assert "rank 3 waited 1800 s for another rank in barrier over Gloo" in finding.summary

    def test_who_left_its_node(self) -> None:
        left = "node1:42:51 [3] NCCL INFO [Service thread] Connection closed by localRank 0"
        lines = {
            rank: [*(f"[rank{rank}]: {line}" for line in TRACEBACK[:2]), CLOSED.format(rank)] for rank in (1, 2, 3)
        }
        finding = only(judged_logs({0: []} | lines, common=[left]))
        assert (finding.kind, finding.culprit_ranks, finding.victims) == (Kind.RANK_EXITED, (0,), "1-3")
        two = left.replace("node1", "node2")
        assert not only(judged_logs({0: []} | lines, common=[left, two])).culprits


class TestBarrier:
    def test_who_came_lost_rank_0_there(self) -> None:
        line = (
            "[rank{0}]: RuntimeError: Rank {0} successfully reached monitoredBarrier, but received errors while "
            "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."
        )
        finding = only(judged_logs({rank: [line.format(rank)] for rank in (1, 2)}, world_size=4))
        assert (finding.kind, finding.culprits, finding.victims) == (Kind.RANK_NOT_JOINED, (), "1-2")
        assert any("its own log names who did not come" in remark for remark in finding.remarks)


class TestCallsWithoutIdentity:
    def test_are_of_one_communicator_where_every_rank_has_one(self) -> None:
        lines = {rank: [call(rank, 2), call(rank, 3, count=64 + rank // 3)] for rank in range(4)}
        finding = only(judged_logs(lines))
        assert (finding.kind, finding.culprit_ranks) == (Kind.COLLECTIVE_MISMATCH, (3,))

    def test_a_tie_is_told(self) -> None:
        finding = only(
            judged_logs({rank: [call(rank, 2, size=2), call(rank, 3, count=64 + rank, size=2)] for rank in range(2)})
        )
        assert (finding.kind, finding.culprits) == (Kind.COLLECTIVE_MISMATCH, ())

    def test_two_pairs_are_not_compared(self) -> None:
        lines = {rank: [call(rank, 2, size=2), call(rank, 3, count=64 + rank // 3, size=2)] for rank in range(4)}
        assert judged_logs(lines).verdict is Verdict.CANNOT_TELL


class TestStart:
    def test_the_others_did_not_come_where_all_who_came_say_so(self) -> None:
        line = (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: {}, for key: "
            "store_based_barrier_key:1 (world_size=4, worker_count={}, timeout=0:30:00)"
        )
        finding = only(judged_logs({rank: [] for rank in range(4)}, common=[line.format(0, 2), line.format(2, 2)]))
        assert (finding.kind, finding.culprit_ranks) == (Kind.STARTUP_INCOMPLETE, (1, 3))
        assert only(judged_logs({rank: [] for rank in range(4)}, common=[line.format(0, 2)])).culprits == ()

    @pytest.mark.parametrize(
        ("line", "cause", "said"),
        [
            (
                "The client socket has timed out after 60000ms while trying to connect to (node1.example, 29500).",
                Cause.RENDEZVOUS,
                "could not connect to node1.example:29500",
            ),
            (
                "\n".join(["torchft::lighthouse: INFO start: No quorum, only have 3 participants, need 4"] * 3),
                Cause.RENDEZVOUS,
                "3 of 4",
            ),
            ("bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found", Cause.NETWORK, "no network interface"),
            (
                "ssh: connect to host gpu-7 port 22: No route to host",
                Cause.RENDEZVOUS,
                "ssh could not connect to gpu-7",
            ),
            (
                "to another process:\n  Local host:    gpu-1\n  Remote host:   gpu-7",
                Cause.RENDEZVOUS,
                "gpu-1 could not connect to gpu-7",
            ),
            (
                "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
                Cause.RENDEZVOUS,
                "port 29500 was already in use",
            ),
        ],
    )
    def test_that_came_to_nothing(self, line: str, cause: Cause, said: str) -> None:
        finding = only(judged_logs({}, common=line.split("\n")))
        assert (finding.kind, finding.cause, finding.culprits) == (Kind.STARTUP_INCOMPLETE, cause, ())
        assert said in finding.summary

    def test_a_launcher_that_tried_again_explains_nothing_else(self) -> None:
        """A pod's name may be unknown until it has started: what fails afterwards is told."""
        lines = ["ssh: Could not resolve hostname gpu-7: Name or service not known"]
        lines += ["[gpu-7:42:0:51]  ud_iface.c:780  Fatal: transport error: Endpoint timeout"]
        assert "ud_iface" in only(judged_logs({}, common=lines)).summary

    def test_a_quorum_that_is_waited_for_once_may_come(self) -> None:
        line = "torchft::lighthouse: INFO start: No quorum, only have 3 participants, need 4"
        assert judged_logs({}, common=[line]).verdict is Verdict.CANNOT_TELL
