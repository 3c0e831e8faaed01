"""Lines of Horovod, JAX, Ray, vLLM, HCCL and DDP, and of launchers about those: who is told, and who is not."""

import pytest

from shared.answer.words import Cause, Kind, Verdict
from tests.build.jobs.logged import caught, judged_logs
from tests.unit.collector.judge.test_by_logs import only

TABLE = """  time      : 2026-04-05_06:07:{first}
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 73)
  time      : 2026-04-05_06:07:{second}
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 70)"""

DIED = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit"
FAULT = (
    "[rank{0}]:[E117 11:40:54.259 ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Process group "
    "watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered"
)
LOST = (
    "The node 'gpu-7_4242_0' has failed to send a keep-alive heartbeat to the rendezvous '7' due to an error of type "
    "RendezvousConnectionError."
)

WAITING = (
    "Waiting in store based barrier to initialize process group for rank: {}, key: store_based_barrier_key:1 "
    "(world_size={}, worker_count={}, timeout=0:30:00)"
)
MODELS = (
    "RuntimeError: DDP expects same model across all ranks, but Rank 3 has {} params, while rank 0 has inconsistent {} "
    "params."
)


class TestWhoEnded:
    @pytest.mark.parametrize(
        ("line", "who"),
        [
            (
                "(raylet) Worker IP address: 10.4.0.9 Worker port: 10017 Worker PID: 6120 Worker exit type: "
                "SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2.",
                "process 6120 on 10.4.0.9 died",
            ),
            (
                "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit",
                "a process whose rank the lines do not tell died",
            ),
            ("Worker proc VllmWorker-5 died unexpectedly, shutting down executor.", "worker VllmWorker-5 died"),
            ("ProcessExitedException: process 2 terminated with signal SIGKILL", "process 2 of those spawned"),
            ("start.sh: line 8:  6120 Killed                  python main.py", "process 6120 ended"),
            ("RuntimeError: DataLoader worker (pid 6120) is killed by signal: Bus error.", "DataLoader worker 6120"),
            (
                "  Process name: [[77,1],6]\n  Exit code:    3",
                "rank 6 of mpirun's job was the first to end: with status 3",
            ),
            ("UNAVAILABLE: Task /job:jax_worker/replica:0/task:6 heartbeat timeout.", "task 6 of JAX's job no longer"),
            (
                "Process name: gpu-7[6]\nExit code: 137",
                "local rank 6 of horovodrun's job on gpu-7 was the first to end: with status 137",
            ),
            ("=   PID 6120 RUNNING AT gpu-7\n=   EXIT CODE: 139", "process 6120 on gpu-7 was killed by signal 11"),
            (
                "*** SIGBUS (@0x7) received by PID 6120 (TID 0x7f) from PID 7; stack trace: ***",
                "process 6120 was ended",
            ),
            ("[gpu-7:6120:0:6120] Caught signal 8 (Floating point exception: x)", "process 6120 on gpu-7 was ended"),
            ("failed (exitcode: -7)", "a process whose rank the lines do not tell was killed by signal 7"),
        ],
    )
    def test_is_told_as_a_process(self, line: str, who: str) -> None:
        finding = only(judged_logs({}, common=line.split("\n")))
        assert (finding.kind, finding.culprits) == (Kind.RANK_EXITED, ())
        assert who in finding.summary

    def test_is_told_by_the_line_that_names_it(self) -> None:
        """Ray tells a death twice, and Slurm's daemon does not know the task."""
        told = "Worker IP address: 10.4.0.9 Worker port: 10017 Worker PID: 6120 Worker exit type: SYSTEM_ERROR"
        assert "process 6120 on 10.4.0.9" in only(judged_logs({}, common=[DIED, told])).summary
        lines = ["Detected 1 oom_kill event in StepId=77.0.", "srun: error: gpu12: task 3: Out Of Memory"]
        finding = only(judged_logs({}, common=lines))
        assert (finding.cause, finding.culprits) == (Cause.OOM, ())
        assert "task 3 on gpu12" in finding.summary

    def test_another_reason_does_not_explain_it(self) -> None:
        """What a launcher ends afterwards is no account of what ran out of memory."""
        lines = ["Detected 1 oom_kill event in StepId=77.0.", "srun: error: gpu12: task 3: Killed"]
        assert "Slurm step 77.0" in only(judged_logs({}, common=lines)).summary

    @pytest.mark.parametrize(("above", "where"), [(1, " on 10.4.0.9"), (9, "")])
    def test_an_actor_died_where_ray_says_closest_above(self, above: int, where: str) -> None:
        lines = ["\tpid: 6120", "\tnamespace: 5d1c-88", "\tip: 10.4.0.9", *["step"] * (above - 1), DIED]
        assert f"do not tell{where} died" in only(judged_logs({}, common=lines)).summary

    @pytest.mark.parametrize("address", ["10.4.0.9", "[10.4.0.9](http://10.4.0.9/)"])
    def test_an_actor_that_died_is_told_by_its_process(self, address: str) -> None:
        lines = ["\tpid: 6120", "\tname: abWorkerDict_0:5", "\tnamespace: 5d1c-88", f"\tip: {address}", DIED]
        assert "process 6120 on 10.4.0.9 died" in only(judged_logs({}, common=lines)).summary

    def test_a_death_without_a_time_beside_a_wait_may_be_the_watchdogs(self) -> None:
        waited = caught(1, 7)
        assert any("its watchdog" in remark for remark in only(judged_logs({1: [waited]}, common=[DIED])).remarks)
        assert not only(judged_logs({}, common=[DIED])).remarks

    def test_a_worker_that_was_asked_to_end_did_not_die(self) -> None:
        asked = "Worker exits unexpectedly by a signal. SystemExit is raised (sys.exit is called). Exit code: 1."
        line = f"{DIED} detail: {asked} The process receives a SIGTERM."
        assert judged_logs({}, common=[line]).verdict is Verdict.CANNOT_TELL

    @pytest.mark.parametrize("end", ["Terminated", "Hangup", "Interrupt"])
    def test_a_loader_that_somebody_ended_is_not(self, end: str) -> None:
        line = f"RuntimeError: DataLoader worker (pid 6120) is killed by signal: {end}."
        assert judged_logs({}, common=[line]).verdict is Verdict.CANNOT_TELL

    def test_the_rank_whose_own_loader_died(self) -> None:
        line = "[rank2]: RuntimeError: DataLoader worker (pid 6120) is killed by signal: Killed."
        finding = only(judged_logs({rank: [] for rank in range(4)}, common=[line]))
        assert (finding.culprit_ranks, finding.cause) == ((2,), Cause.DATALOADER)

    def test_an_error_of_a_device_that_ended_one_rank(self) -> None:
        finding = only(judged_logs({rank: [] for rank in range(4)}, common=[FAULT.format(2)]))
        assert (finding.kind, finding.culprit_ranks, finding.cause) == (Kind.RANK_EXITED, (2,), Cause.USER_CODE)

    def test_an_error_of_a_device_that_ended_several_names_nobody(self) -> None:
        """It spreads, and who prints it first is not who caused it."""
        lines = [FAULT.format(2), FAULT.format(0)]
        assert only(judged_logs({rank: [] for rank in range(4)}, common=lines)).culprits == ()

    def test_a_death_goes_before_the_coordinator_that_misses_it(self) -> None:
        missed = "UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout. This indicates that the remote"
        finding = only(judged_logs({}, common=[missed, "srun: error: gpu12: task 3: Segmentation fault"]))
        assert "task 3 on gpu12 ended" in finding.summary

    def test_a_first_status_explains_nothing(self) -> None:
        lines = ["  Process name: [[77,1],6]", "  Exit code:    3", "DistStoreError: wait timeout after 90000ms"]
        assert "for a key in the store" in only(judged_logs({}, common=lines)).summary

    @pytest.mark.parametrize(
        "line",
        [
            "Worker VllmWorkerProcess pid 61 died, exit code: -6",
            "ProcessExitedException: process 2 terminated with signal SIGABRT",
            "Worker exit type: INTENDED_SYSTEM_EXIT Worker exit detail: Worker exits by request",
        ],
    )
    def test_an_abort_and_an_exit_on_request_are_not(self, line: str) -> None:
        assert judged_logs({}, common=[line]).verdict is Verdict.CANNOT_TELL

    def test_what_a_launcher_kills_long_after_the_first_is_not(self) -> None:
        ranks: dict[int, list[str]] = {rank: [] for rank in range(4)}
        lines = TABLE.format(first="05", second="36").split("\n")
        assert judged_logs(ranks, common=lines).verdict is Verdict.CANNOT_TELL

    def test_what_was_killed_at_the_same_time_is(self) -> None:
        """The kernel killed it; the other one failed of that, or of nothing that has to do with it."""
        ranks: dict[int, list[str]] = {rank: [] for rank in range(4)}
        lines = TABLE.format(first="05", second="05").split("\n")
        assert only(judged_logs(ranks, common=lines)).culprit_ranks == (0,)

    def test_the_status_of_a_launcher_under_srun_is_no_ranks(self) -> None:
        table = ["  rank      : 5 (local_rank: 1)", "  exitcode  : -6 (pid: 75)"]
        lines = [*table, "srun: error: gpu12: task 0: Exited with exit code 1"]
        assert judged_logs({5: []}, common=lines).verdict is Verdict.CANNOT_TELL

    def test_the_nodes_that_ray_lost(self) -> None:
        """It tells each on a line of its own, and none may be the first."""
        line = (
            "The node with node id: 5d1c and address: {} and node name: x has been marked dead because the detector has"
        )
        finding = only(judged_logs({}, common=[line.format("10.4.0.12"), line.format("10.4.0.9")]))
        assert (finding.kind, finding.culprits) == (Kind.RANK_UNREACHABLE, ())
        assert "nodes 10.4.0.12, 10.4.0.9 stopped answering, by Ray's account" in finding.summary

    def test_a_node_on_which_slurm_could_not_start(self) -> None:
        line = "srun: error: Task launch for 77.1 failed on node gpu12: Job credential expired"
        finding = only(judged_logs({}, common=[line]))
        assert (finding.kind, finding.culprits) == (Kind.RANK_UNREACHABLE, ())
        assert "node gpu12" in finding.summary


class TestWhoLeft:
    """Told where nothing else is, and blamed for nothing: the first to end is often a victim."""

    @pytest.mark.parametrize(
        ("line", "what"),
        [
            ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", "rank 3 of mpirun's job was the first"),
            ("application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3", "rank 3 of mpirun's job was the first"),
            (
                "mpiexec has exited due to process rank 3 with PID 61 on\nnode gpu7 exiting improperly.",
                "rank 3 of mpirun's job on gpu7 was the first to end: exiting improperly",
            ),
            ("api.py:719] Received 1 death signal, shutting down workers", "torchrun got SIGHUP"),
            ("api.py:900] Sending process 61 closing signal SIGHUP", "torchrun got SIGHUP"),
            ("multiprocessing.api.SignalException: Process 61 got signal: 1", "torchrun got SIGHUP"),
        ],
    )
    def test_alone(self, line: str, what: str) -> None:
        finding = only(judged_logs({}, common=line.split("\n")))
        assert (finding.kind, finding.culprits) == (Kind.RANK_EXITED, ())
        assert what in finding.summary

    @pytest.mark.parametrize(
        "lines",
        [
            ["application called MPI_Abort(MPI_COMM_WORLD, 0) - process 3", "called MPI_Abort(C, 0) - process 1"],
            ["api.py:719] Received 15 death signal, shutting down workers"],
            ["multiprocessing.api.SignalException: Process 61 got signal: 15"],
        ],
    )
    def test_several_or_a_termination_are_not(self, lines: list[str]) -> None:
        lines = [line.replace("called MPI_Abort(C", "application called MPI_Abort(C") for line in lines]
        assert judged_logs({}, common=lines).verdict is Verdict.CANNOT_TELL

    def test_deepspeed_tells_a_signal_by_the_local_rank(self) -> None:
        line = "[launch.py:434:sigkill_handler] ['python', 'a.py', '--local_rank=3', '--lr'] exits with return code = "
        finding = only(judged_logs({}, common=[f"{line}-7"]))
        assert (finding.cause, finding.culprits) == (Cause.SIGNAL, ())
        assert "(local rank 3) was killed by signal 7" in finding.summary
        assert judged_logs({}, common=[f"{line}-15"]).verdict is Verdict.CANNOT_TELL


class TestWhoDidNotCome:
    @pytest.mark.parametrize(
        ("lines", "reporter"),
        [
            (["HorovodAllreduce_a_0 [missing ranks: 2]", "HorovodAllreduce_b_0 [missing ranks: 2]"], "Horovod"),
            (["Missing ranks:", "2: [HorovodAllreduce_a_0, HorovodAllreduce_b_0]"], "Horovod"),
            (["Stalled ranks:", "2: [HorovodAllreduce_a_0, HorovodAllreduce_b_0]"], "Horovod"),
            (["Stalled ops: a_0 [ready ranks: 2], b_0 [ready ranks: 3, 0, 1]"], "Horovod"),
            (["Barrier timed out. Timed out task names:", "/job:jax_worker/replica:0/task:2"], "JAX"),
        ],
    )
    def test_one_is_named_by_the_report(self, lines: list[str], reporter: str) -> None:
        finding = only(judged_logs({rank: [] for rank in range(4)}, common=lines))
        assert (finding.kind, finding.culprit_ranks) == (Kind.RANK_NOT_JOINED, (2,))
        assert reporter in finding.summary

    def test_of_most_of_a_job_nobody_is_named(self) -> None:
        """The one who waits may be the odd one."""
        lines = [f"/job:jax_worker/replica:0/task:{task}" for task in range(1, 4)]
        finding = only(judged_logs({}, common=lines))
        assert finding.culprits == ()
        assert "group ranks 1-3" in finding.summary

    def test_of_several_lists_nobody_is_named(self) -> None:
        lines = ["Missing ranks:", "1: [HorovodAllreduce_a_0]", "2: [HorovodAllreduce_a_0]"]
        assert not any(finding.culprits for finding in judged_logs({}, common=lines).findings)

    def test_a_start_that_still_waits_names_the_one_who_lacks(self) -> None:
        told = [WAITING.format(rank, 4, 3) for rank in (0, 1, 3, 0)]
        assert only(judged_logs({rank: [] for rank in range(4)}, common=told)).culprit_ranks == (2,)
        assert judged_logs({}, common=told[:3]).verdict is Verdict.CANNOT_TELL, "each waits for the first time"

    @pytest.mark.parametrize("ready", ["0, 1", "0, 1, 2, 3", "3"])
    def test_of_those_who_are_ready_less_than_most_accuse_nobody(self, ready: str) -> None:
        """Of 0 and 1 nobody lacks as far as one knows, and rank 3 alone may be the odd one."""
        line = f"Stalled ops: HorovodAllreduce_a_0 [ready ranks: {ready}]"
        found = judged_logs({rank: [] for rank in range(4)}, common=[line])
        assert not any(finding.culprits for finding in found.findings)
        assert (found.verdict is Verdict.HUNG) is (ready == "3")

    def test_most_who_are_ready_name_the_others(self) -> None:
        told = ["Stalled ops:", "allreduce.fc.weight [ready ranks: 4, 0, 3, 1],", "allreduce.fc.bias [ready ranks: 0]"]
        finding = only(judged_logs({rank: [] for rank in range(5)}, common=told))
        assert (finding.culprit_ranks, finding.victims) == ((2,), "0-1,3-4")

    def test_who_lack_each_others_operations_are_not_named(self) -> None:
        """Rank 1 is named first, and lacks one operation; then rank 0 is seen to lack others."""
        first = ["[1]<stderr>:Missing ranks:", "[1]<stderr>:1: [broadcast.epoch]"]
        later = [*first, "[1]<stderr>:0: [allreduce.fc.weight, allreduce.fc.bias ...]"]
        told = [*first, "[1]<stderr>:[2026-04-05 06:07:08: W stalled]", *later]
        finding = only(judged_logs({0: [], 1: []}, common=told))
        assert (finding.kind, finding.culprits, finding.victims) == (Kind.COLLECTIVE_MISMATCH, (), "0-1")

    def test_who_lack_the_same_operation_are_missing(self) -> None:
        told = ["Stalled ranks:", "6: [a, b]", "7: [b, c]"]
        finding = only(judged_logs({}, common=told))
        assert (finding.kind, finding.culprits) == (Kind.RANK_NOT_JOINED, ())
        assert "6-7" in finding.summary

    @pytest.mark.parametrize(("times", "verdict"), [(1, Verdict.CANNOT_TELL), (3, Verdict.HUNG)])
    def test_an_agent_that_lost_the_rendezvous_for_good(self, times: int, verdict: Verdict) -> None:
        """One heartbeat fails at the end of many a job that has finished well."""
        answer = judged_logs({}, common=[LOST] * times)
        assert answer.verdict is verdict
        assert [(finding.kind, finding.culprits) for finding in answer.findings] == [(Kind.RANK_UNREACHABLE, ())] * (
            times > 1
        )

    def test_more_than_belong_to_it(self) -> None:
        finding = only(judged_logs({}, common=[WAITING.format(0, 2, 4)]))
        assert (finding.kind, finding.cause, finding.culprits) == (Kind.STARTUP_INCOMPLETE, Cause.RENDEZVOUS, ())

    @pytest.mark.parametrize(
        ("line", "kind"),
        [
            (
                "EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time.",
                Kind.RANK_NOT_JOINED,
            ),
            ("DistStoreError: wait timeout after 90000ms", Kind.RANK_NOT_JOINED),
            (
                "DistStoreError: Timed out after 61 seconds waiting for workers. 2/5 workers joined.",
                Kind.STARTUP_INCOMPLETE,
            ),
            ("Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] no error", Kind.STARTUP_INCOMPLETE),
            ("socket.h:344 WARN Socket creation failed : Address family not supported", Kind.STARTUP_INCOMPLETE),
            ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", Kind.STARTUP_INCOMPLETE),
            ("torch.distributed.elastic.rendezvous.api.RendezvousClosedError", Kind.STARTUP_INCOMPLETE),
            ("listen on ip[10.1.2.3] and specific port[16671] fail. Please check the port", Kind.STARTUP_INCOMPLETE),
            ("Termination timeout for `all gather; run_id=7` of 40 seconds exceeded. Exiting", Kind.RANK_NOT_JOINED),
            ("Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0.", Kind.STARTUP_INCOMPLETE),
            ("DeepEP dispatch NVL receiver timeout, channel: 4, RDMA: 1, nvl: 6, src RDMA: 0", Kind.RANK_NOT_JOINED),
            (
                "TP rank 6 could finish the model loading, but there are other ranks that didn't finish loading.",
                Kind.STARTUP_INCOMPLETE,
            ),
        ],
    )
    def test_a_wait_without_a_name_names_nobody(self, line: str, kind: Kind) -> None:
        finding = only(judged_logs({}, common=[line]))
        assert (finding.kind, finding.culprits) == (kind, ())


class TestWhatALibraryNeeds:
    @pytest.mark.parametrize(
        ("line", "cause", "advice"),
        [
            ("Duplicate GPU detected : rank 5 and rank 1 both on CUDA device 1000", Cause.USER_CODE, "set_device"),
            ("NCCL WARN Call to posix_fallocate failed : No space left on device", Cause.FILESYSTEM, "--shm-size"),
            (
                "NCCL WARN Error: failed to extend /dev/shm/q, error: No space left on device",
                Cause.FILESYSTEM,
                "--shm-size",
            ),
            ("NCCL WARN Error while attaching to shared memory segment /dev/shm/q", Cause.FILESYSTEM, "--shm-size"),
            ("ValueError: host not found: Name or service not known", Cause.RENDEZVOUS, "master"),
            ("NCCL WARN Bootstrap Root : rank 3 of 8 ranks has already checked in", Cause.USER_CODE, "WORLD_SIZE"),
            ("NCCL WARN Bootstrap Root : mismatch in rank count from procs 8 : 4", Cause.USER_CODE, "WORLD_SIZE"),
            ("NCCL WARN Bootstrap : no socket interface found", Cause.NETWORK, "NCCL_SOCKET_IFNAME"),
            ("NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory", Cause.NETWORK, "ulimit -l"),
            ("/opt/nvshmem/src/host/init/init.cu:1047: non-zero status: 7 nvshmem x", Cause.NETWORK, "/dev/infiniband"),
            ("|CCL_ERROR| atl_ofi.cpp:243 init: can't find suitable provider", Cause.NETWORK, "FI_PROVIDER"),
            ("oneCCL: exec.cpp:134 start_workers: EXCEPTION: failed to start worker", Cause.USER_CODE, "taskset"),
            ("oneCCL: atl_ofi_comm.cpp:79 a: EXCEPTION: init transport failed", Cause.NETWORK, "CCL_ATL_TRANSPORT"),
            ("HcclCommInitRootInfo failed.", Cause.COMMUNICATION, "WORLD_SIZE"),
            ("Failed to initialize the HCCP process. Reason: Maybe the last", Cause.UNKNOWN, "/dev/davinci"),
            ("while calling /tensorflow.CoordinationService/RegisterTask:", Cause.RENDEZVOUS, "jax.distributed"),
            ("TPU initialization failed: open(/dev/accel3): Operation not permitted", Cause.UNKNOWN, "/dev/accel"),
        ],
    )
    def test_and_does_not_get_is_told_with_what_to_do(self, line: str, cause: Cause, advice: str) -> None:
        finding = only(judged_logs({}, common=[f"node2:42:43 [0] {line}"]))
        assert (finding.kind, finding.cause, finding.culprits) == (Kind.STARTUP_INCOMPLETE, cause, ())
        assert any(advice in remark for remark in finding.remarks)


class TestHorovodrunsTags:
    def test_the_rank_that_its_shell_says_was_killed(self) -> None:
        lost = "[1]<stderr>:  what():  [/a/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:54168"
        finding = only(judged_logs({1: [lost, "[1]<stderr>:Aborted (core dumped)"], 2: ["[2]<stderr>:Killed"]}))
        assert (finding.kind, [culprit.rank for culprit in finding.culprits]) == (Kind.RANK_EXITED, [2])

    def test_a_program_that_prints_the_word_is_none_of_its_shell(self) -> None:
        assert not judged_logs({}, common=["[2]<stdout>:Killed 7 monsters", "[1]<stderr>:Killed 7 monsters"]).findings


class TestSizesThatDiffer:
    def test_nothing_gathered_accuses_nobody(self) -> None:
        """Rank 0 is the first in the list, not the one that failed."""
        finding = only(judged_logs({}, common=[MODELS.format(77, 0)]))
        assert (finding.kind, finding.culprits) == (Kind.STUCK_TOGETHER, ())

    def test_models_that_differ(self) -> None:
        finding = only(judged_logs({}, common=[MODELS.format(77, 75)]))
        assert (finding.kind, finding.cause, finding.culprits) == (Kind.COLLECTIVE_MISMATCH, Cause.USER_CODE, ())

    def test_an_adapter_that_is_sent_more_than_it_expects(self) -> None:
        line = "NET/IB : req 0/1 tag 1f peer 10.1.2.3<40123> collective mismatch error, local size 32 remote size 64"
        finding = only(judged_logs({}, common=[line]))
        assert (finding.kind, finding.culprits) == (Kind.COLLECTIVE_MISMATCH, ())
        assert "32 against 64 bytes" in finding.summary

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("Mismatched collective detected, please check your collective calls at and around rank 3.", "has seen"),
            ("Your program may be hanging, this may be caused by a collective mismatch around rank 3.", "guesses at"),
        ],
    )
    def test_calls_that_nccl_says_do_not_match(self, line: str, said: str) -> None:
        finding = only(judged_logs({}, common=[f"node1:12:13 [0] a.cc:7 NCCL WARN {line}"]))
        assert (finding.kind, finding.culprits) == (Kind.COLLECTIVE_MISMATCH, ())
        assert f"{said} calls that do not match, at or around rank 3" in finding.summary

    def test_records_that_differ_name_nobody(self) -> None:
        """The rank that all are compared with may be the odd one."""
        text = "does not match found input sizes: '[[8]]'"
        lines = [
            "Collective 7 at entry 6 errors",
            "collective: nccl:all_reduce",
            "error msg: "
            + ", ".join(
                f"Culprit rank {rank}; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[9]]' {text}"
                for rank in (1, 2, 3)
            ),
        ]
        finding = only(judged_logs({}, common=lines))
        assert (finding.kind, finding.culprits) == (Kind.COLLECTIVE_MISMATCH, ())
        assert "differ in size, according to torchfrtrace" in finding.summary

    @pytest.mark.parametrize("word", ["inconsistent ", ""])
    def test_one_side_of_a_mismatch(self, word: str) -> None:
        line = f"Detected mismatch between collectives on ranks. Rank 2 is running {word}collective: "
        finding = only(judged_logs({}, common=[f"{line}CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[7])"]))
        assert (finding.kind, finding.op, finding.culprits) == (Kind.COLLECTIVE_MISMATCH, "broadcast", ())
