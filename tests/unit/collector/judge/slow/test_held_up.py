"""Who demonstrably works while others wait holds them up; it is called hung late, and then suspected at most."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from collector.align.expected import Expected
from collector.judge.verdict import diagnose, set_scene
from shared.answer.diagnosis import Diagnosis, MotionEvidence, WorkEvidence
from shared.answer.words import Certainty, Kind, Verdict, WorkMeans
from shared.missing import Missing, Reason
from shared.wire.snapshot import Child, Fds, Holder, NodeSnapshot, OtherEnd, Process, RankSnapshot, Socket, Syscall
from shared.wire.stacks import Frame, Stacks, Thread
from tests.build.jobs.placed import with_rank
from tests.build.jobs.simulated import PAIRS, USER, WORLD, Collective, Job, Seen, Stay, Step, live_looks, training
from tests.build.jobs.thinned import Case, Thinning, thinned

WITHOUT_GRADIENTS = Frame("decorate_context", "/env/lib/python3.11/site-packages/torch/utils/_contextlib.py", 124)
MODULE = Frame("Module._call_impl", "/env/lib/python3.11/site-packages/torch/nn/modules/module.py", 1790)
DATA_SET = "/env/lib/python3.11/site-packages/datasets/arrow_dataset.py"
JOIN = Frame("wait", "/usr/lib/python3.11/threading.py", 331)
AT_WORK = Seen(frames=(USER,), state="R", cpu_share=1.0)
ASLEEP = Seen(frames=(USER,))
NO_STACKS = Missing(source="stacks", reason=Reason.NOT_FOUND)
PEER = "10.0.0.9:443"


def looks_at(seen: Seen, *, after: float = 60.0, recorder: bool = True) -> list[NodeSnapshot]:
    """Two looks, three seconds apart, at a job in which all others wait for rank 2, for `after` seconds by then."""
    steps: dict[int, list[Step]] = {rank: training(rank) for rank in range(4)}
    steps[2] = [*training(2, 2), Collective("tp1"), Stay()]
    others = {rank: Seen() for rank in (0, 1, 3)}
    return live_looks(Job(steps, PAIRS), others | {2: seen}, after_seconds=after - 3.0, recorder=recorder)


def judged(looks: Sequence[NodeSnapshot], expected: Expected | None = None) -> Diagnosis:
    """The verdict, which names nobody but rank 2."""
    diagnosis = diagnose(looks, expected or Expected())
    assert all(finding.culprit_ranks == (2,) for finding in diagnosis.findings)
    return diagnosis


def means_of(diagnosis: Diagnosis) -> list[WorkMeans]:
    """With what the rank is told to be at work."""
    return [each.means for each in diagnosis.findings[0].evidence if isinstance(each, WorkEvidence)]


@pytest.mark.parametrize(
    ("after", "verdict", "certainty"),
    [
        (4.0, Verdict.CANNOT_TELL, None),
        (6.0, Verdict.SLOW, Certainty.PROVEN),
        (599.0, Verdict.SLOW, Certainty.PROVEN),
        (601.0, Verdict.HUNG, Certainty.SUSPECTED),
    ],
)
def test_who_works_is_called_hung_after_ten_minutes_and_suspected_at_most(
    after: float, verdict: Verdict, certainty: Certainty | None
) -> None:
    """That the others wait is on record from the beginning; that the rank hangs never is."""
    diagnosis = judged(looks_at(AT_WORK, after=after))
    assert diagnosis.verdict is verdict
    assert [finding.certainty for finding in diagnosis.findings] == ([] if certainty is None else [certainty])


def test_the_answer_says_since_when_with_what_and_until_when() -> None:
    """The headline is enough to decide whether to wait."""
    diagnosis = judged(looks_at(AT_WORK, after=30.0))
    (finding,) = diagnosis.findings
    assert diagnosis.headline == (
        "Held up: ranks 0-1,3 have waited for rank 2 in all_reduce #3 for 30 s, and rank 2 uses 100% of a CPU at "
        "train_step (/home/ada/train.py:40)"
    )
    assert finding.kind is Kind.HELD_UP and finding.lasted_seconds == 30.0
    assert finding.since is not None and finding.hung_from is not None and finding.hung_from > finding.since
    assert "once the others have waited for 10 minutes" in finding.remarks[0]


def test_what_counters_alone_show_is_not_proven() -> None:
    """Of ranks without a flight record, what is pending in their process groups tells that they wait."""
    all_ranks = Thinning("all records but counters", frozenset(range(4)))
    diagnosis = judged(thinned(Case(tuple(looks_at(AT_WORK, after=30.0)), Expected()), all_ranks).snapshots)
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.certainty) == (Kind.HELD_UP, Certainty.SUPPORTED)
    assert "no flight record was kept" in finding.certainty_reason


def _between(looks: list[NodeSnapshot], first: Mapping[str, object], last: Mapping[str, object]) -> list[NodeSnapshot]:
    """Change what the first look shows of rank 2, and what the last one does."""
    return [*with_rank(looks[:1], 2, **first), *with_rank(looks[1:], 2, **last)]


def _process(looks: list[NodeSnapshot], at: int, rank: int = 2, **update: object) -> Process:
    process = next(each.process for each in looks[at].ranks if each.identity.rank == rank)
    assert isinstance(process, Process)
    return process.model_copy(update=update)


def _sleeping(seconds: float | None) -> list[NodeSnapshot]:
    looks = looks_at(ASLEEP)
    call = Syscall(name="clock_nanosleep", ends_in_seconds=seconds)
    return _between(looks, {}, {"process": _process(looks, 1, syscall=call)})


def _child(pid: int, state: str, cpu_share: float, looks: list[NodeSnapshot], at: int, rank: int = 2) -> Child:
    beat = _process(looks, at, rank).before
    assert beat is not None
    beat = beat.model_copy(update={"cpu_seconds": cpu_share * 3.0 * at})
    told = {"pid": pid, "state": state, "name": "gzip", "before": beat, "after": beat}
    return Child(process=Process.model_validate(told), stacks=NO_STACKS)


def _waiting_for_child(state: str, cpu_share: float) -> list[NodeSnapshot]:
    wait = Frame("Popen._wait", "/usr/lib/python3.11/subprocess.py", 2047)
    looks = looks_at(Seen(frames=(USER, wait)))
    call = Syscall(name="wait4")
    both = [
        {"children": (_child(77, state, cpu_share, looks, at),), "process": _process(looks, at, syscall=call)}
        for at in (0, 1)
    ]
    return _between(looks, both[0], both[1])


def _writing(bytes_: int, fd: int = 9) -> list[NodeSnapshot]:
    fds = [
        Fds(total=3, files={fd: "/data/shard.bin"}, positions={fd: at}, writable=frozenset({fd})) for at in (0, bytes_)
    ]
    return _between(looks_at(ASLEEP), {"fds": fds[0]}, {"fds": fds[1]})


def _receiving(
    bytes_: int, *, remote: str = PEER, to_store: bool = False, reads: bool = True, anew: bool = False
) -> list[NodeSnapshot]:
    """`anew`: over another connection in the second look."""
    looks = looks_at(Seen(frames=(USER, Frame("readinto", "/usr/lib/python3.11/socket.py", 706))))
    call = Syscall(name="recvfrom", fd=8 if reads else 30, target="socket:[5]")
    sockets = [
        Socket(fd=8, kind="tcp", local=local, remote=remote, received_bytes=received, to_store=to_store)
        for local, received in (("10.0.0.1:5", 0), ("10.0.0.1:6" if anew else "10.0.0.1:5", bytes_))
    ]
    both = [
        {"process": _process(looks, at, syscall=call), "fds": Fds(total=3, sockets=(socket,))}
        for at, socket in enumerate(sockets)
    ]
    return _between(looks, both[0], both[1])


@pytest.mark.parametrize(
    ("looks", "means", "told"),
    [
        pytest.param(_sleeping(24.0), WorkMeans.SLEEP, "sleeps for 24 s more at train_step", id="a back-off"),
        pytest.param(
            _waiting_for_child("R", 0.9), WorkMeans.CHILD, "its child 77 (gzip), which uses 90%", id="a child"
        ),
        pytest.param(
            _writing(24_000_000), WorkMeans.FILE, "writes /data/shard.bin at 8.0 MB/s", id="a file that grows"
        ),
        pytest.param(_receiving(9_000), WorkMeans.CONNECTION, f"receives 3.0 kB/s from {PEER}", id="a slow download"),
        pytest.param(
            _receiving(0, anew=True), WorkMeans.CONNECTION, f"asks {PEER} again", id="one answer after another"
        ),
    ],
)
def test_work_is_named(looks: list[NodeSnapshot], means: WorkMeans, told: str) -> None:
    """What a rank is at work with is said with its amount, and is no hang."""
    diagnosis = judged(looks)
    assert diagnosis.verdict is Verdict.SLOW and means_of(diagnosis)[0] is means
    assert told in diagnosis.headline


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(_sleeping(86_400.0), id="a day's sleep"),
        pytest.param(_sleeping(None), id="a sleep of unknown length"),
        pytest.param(_waiting_for_child("T", 0.0), id="a stopped child"),
        pytest.param(_writing(24_000_000, fd=1), id="its own log"),
        pytest.param(_receiving(0), id="a peer that sends nothing"),
        pytest.param(_receiving(9_000, to_store=True), id="the store"),
        pytest.param(_receiving(0, to_store=True, anew=True), id="the store, asked again"),
        pytest.param(_receiving(3_000, reads=False), id="a keep-alive on another connection"),
    ],
)
def test_what_is_no_work_hangs_as_before(looks: list[NodeSnapshot]) -> None:
    """A wait for what cannot come is hung."""
    diagnosis = judged(looks)
    assert diagnosis.verdict is Verdict.HUNG and diagnosis.findings[0].kind is not Kind.HELD_UP


@pytest.mark.parametrize(("recorder", "told"), [(False, []), (True, ["ranks 0-2 used the CPU to wait"])])
def test_waiters_that_burn_a_cpu_do_no_work(recorder: bool, told: list[str]) -> None:
    """Of a rank that stands in communication, whatever it burns."""
    spinning = Seen(state="R", cpu_share=1.0)
    steps: dict[int, list[Step]] = {rank: [Collective(WORLD) if rank < 3 else Stay()] for rank in range(4)}
    looks = live_looks(Job(steps), dict.fromkeys(range(3), spinning) | {3: ASLEEP}, recorder=recorder)
    findings = diagnose(looks, Expected()).findings
    motions = [each.text for finding in findings for each in finding.evidence if isinstance(each, MotionEvidence)]
    assert Kind.HELD_UP not in {finding.kind for finding in findings}
    assert [text.split(", ")[2].split(";")[0] for text in motions] == told


@pytest.mark.parametrize(("step", "means"), [(Collective(WORLD), []), (Stay(), [WorkMeans.CPU])])
def test_who_may_wait_for_its_device_in_c_is_not_at_work_by_what_it_burns(step: Step, means: list[WorkMeans]) -> None:
    """Its own operation is pending, and no native stack shows where it spins."""
    looks = live_looks(Job({0: [Stay()], 1: [step]}), {0: ASLEEP, 1: AT_WORK})
    assert [work.means for work in set_scene(looks, Expected()).works(1)] == means


def test_a_last_look_right_after_another_does_not_shorten_what_was_seen() -> None:
    """A native stack is read at once after the second look: what a rank uses is told of all the time between."""
    looks = looks_at(AT_WORK)
    second = _process(looks, 1)
    last = second.after or second.before
    assert last is not None
    update = {"at_ns": last.at_ns + 30_000_000, "cpu_seconds": last.cpu_seconds + 0.023}
    beat = last.model_copy(update=update | {"main_cpu_seconds": (last.main_cpu_seconds or 0.0) + 0.023})
    third = with_rank(looks[1:], 2, process=second.model_copy(update={"before": beat, "after": beat}))[0]
    later = third.model_copy(update={"taken_at_ns": (third.taken_at_ns or 0) + 1})
    (work,) = [e for e in judged([*looks, later]).findings[0].evidence if isinstance(e, WorkEvidence)]
    assert work.text == "rank 2 uses 100% of a CPU at train_step (/home/ada/train.py:40), over 3.0 s"


def test_work_in_any_thread_is_work() -> None:
    """Where the main thread waits for one of its own process."""
    hashing = Seen(frames=(USER,), cpu_share=0.9, main_cpu_share=0.0)
    assert judged(looks_at(hashing, after=20.0)).verdict is Verdict.SLOW


@pytest.mark.parametrize(
    ("stack", "minutes"),
    [
        ((USER, WITHOUT_GRADIENTS, Frame("estimate", "/srv/a.py", 80), MODULE, Frame("forward", "/srv/b.py", 5)), 15),
        ((USER, Frame("Trainer.evaluation_loop", "transformers/trainer.py", 4000), Frame("f", "/srv/data.py", 9)), 15),
        ((USER, Frame("save_checkpoint", "deepspeed/runtime/engine.py", 3000)), 15),
        ((USER, Frame("Dataset.map", DATA_SET, 3079), Frame("tokenize", "/srv/data.py", 9)), 30),
        ((USER, Frame("Dataset.__getitem__", DATA_SET, 3079), Frame("tokenize", "/srv/data.py", 9)), 10),
        ((USER, WITHOUT_GRADIENTS, Frame("step", "/srv/optimizer.py", 12)), 10),
    ],
)
def test_what_takes_long_in_a_healthy_job_is_given_its_time(stack: tuple[Frame, ...], minutes: int) -> None:
    """While it is at work; one that stands still in it hangs as any other."""
    early, late = (judged(looks_at(replace(AT_WORK, frames=stack), after=60.0 * minutes + at)) for at in (-1.0, 1.0))
    asleep = judged(looks_at(Seen(frames=stack), after=120.0))
    assert (early.verdict, late.verdict, asleep.verdict) == (Verdict.SLOW, Verdict.HUNG, Verdict.HUNG)
    assert f"{minutes} minutes" in early.findings[0].remarks[0]


def test_thirty_usual_pauses_and_the_timeout_decide_when_it_is_called_hung() -> None:
    """Earlier runs of the name that paused for a minute give it half an hour; a timeout that is near ends that."""
    usual = Expected(usual_pause_seconds=60.0)
    assert judged(looks_at(AT_WORK, after=1700.0), usual).verdict is Verdict.SLOW
    assert judged(looks_at(AT_WORK, after=1900.0), usual).verdict is Verdict.HUNG
    timed = [
        look.model_copy(update={"ranks": tuple(map(_with_timeout, look.ranks))})
        for look in looks_at(AT_WORK, after=280.0)
    ]
    assert judged(timed).verdict is Verdict.HUNG
    assert judged(looks_at(AT_WORK, after=280.0)).verdict is Verdict.SLOW


def _with_timeout(rank: RankSnapshot) -> RankSnapshot:
    trace = rank.recorder
    assert not isinstance(trace, Missing)
    groups = tuple(group.model_copy(update={"timeout_ms": 300_000}) for group in trace.groups)
    return rank.model_copy(update={"recorder": trace.model_copy(update={"groups": groups})})


@pytest.mark.parametrize(
    ("peer", "after", "verdict"),
    [
        (999, 60.0, Verdict.CANNOT_TELL),
        (999, 601.0, Verdict.HUNG),
        (None, 60.0, Verdict.CANNOT_TELL),
    ],
)
@pytest.mark.parametrize("call", [Syscall(name="recvfrom", fd=8, target="socket:[5]"), Syscall(name="poll")])
def test_who_waits_for_a_process_outside_the_job_is_not_to_blame(
    call: Syscall, peer: int | None, after: float, verdict: Verdict
) -> None:
    """That one may work for as long as a rank may, also on another machine."""
    looks = looks_at(ASLEEP, after=after)
    ends = () if peer is None else (Holder(pid=peer, name="rollout"),)
    at_peer = OtherEnd(kind="socket", fd=8, local="10.0.0.1:5", name=PEER, holders=ends)
    both = [{"process": _process(looks, at, syscall=call, awaits=(at_peer,))} for at in (0, 1)]
    diagnosis = diagnose(_between(looks, both[0], both[1]), Expected())
    assert diagnosis.verdict is verdict
    assert all(not each.culprits and each.certainty is not Certainty.PROVEN for each in diagnosis.findings)
    told = diagnosis.headline, *(step.text for step in diagnosis.next_steps[:1])
    assert all((PEER if peer is None else "pid 999 (rollout)") in text for text in told)


@pytest.mark.parametrize(("after", "verdict"), [(70.0, Verdict.CANNOT_TELL), (601.0, Verdict.HUNG)])
def test_who_was_read_in_one_look_only_may_have_moved(after: float, verdict: Verdict) -> None:
    """On a busy machine the first look at it came too late."""
    late = Missing(source="process", reason=Reason.TIMED_OUT)
    assert judged(_between(looks_at(ASLEEP, after=after), {"process": late, "stacks": late}, {})).verdict is verdict


@pytest.mark.parametrize(
    ("state", "left", "verdict"),
    [("S", 0.2, Verdict.SLOW), ("S", 86_000.0, Verdict.HUNG), ("T", 0.2, Verdict.HUNG), ("S", None, Verdict.HUNG)],
)
@pytest.mark.parametrize("generations", [1, 2])
def test_a_child_that_sleeps_for_moments_is_at_work(
    generations: int, state: str, left: float | None, verdict: Verdict
) -> None:
    """So is one whose own child does, as of a shell script; not one that is stopped, or sleeps for a day."""
    looks = _waiting_for_child("S", 0.0)
    call, wait = Syscall(name="clock_nanosleep", ends_in_seconds=left), Syscall(name="wait4")
    for at in (0, 1):
        child = _child(77, "S", 0.0, looks, at)
        pids = [_process(looks, at).pid, 77, 78][: 1 + generations]
        line = [
            child.process.model_copy(update={"pid": pid, "parent_pid": parent, "state": "S", "syscall": wait})
            for parent, pid in pairwise(pids)
        ]
        line[-1] = line[-1].model_copy(update={"state": state, "syscall": call})
        children = tuple(Child(process=process, stacks=NO_STACKS) for process in line)
        looks[at : at + 1] = with_rank(looks[at : at + 1], 2, children=children)
    assert judged(looks).verdict is verdict


def test_a_loop_on_one_line_is_told_as_such() -> None:
    """A native stack shows that nothing is called from there."""
    looks = looks_at(AT_WORK)
    plain = next(rank.stacks for rank in looks[0].ranks if rank.identity.rank == 2)
    assert isinstance(plain, Stacks)
    main = Frame("main", "", 0, native=True)
    native = plain.model_copy(update={"native": True, "frames": (main, *plain.frames)})
    native = native.model_copy(update={"threads": (plain.threads[0].model_copy(update={"frames": (0, 1)}),)})
    third = with_rank(looks[1:], 2, stacks=native)[0]
    later = third.model_copy(update={"taken_at_ns": (third.taken_at_ns or 0) + 1})
    assert "on one line that calls nothing, at train_step" in judged([*looks, later]).headline


STARTS = Frame("init_process_group", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 1892)
IMPORTS = Frame("<module>", "/env/lib/python3.11/site-packages/torch/__init__.py", 2868)
AGES = (8.0, Verdict.CANNOT_TELL), (70.0, Verdict.SLOW)


def starting(age: float, where: str, others: Sequence[tuple[float, Frame]], world_size: int) -> Diagnosis:
    """Rank 0 waits in rendezvous; others, by CPU share and frame, are its children, or beside it, and no ranks yet."""
    looks = live_looks(Job({0: [Stay()]}), {0: Seen(frames=(USER, STARTS))}, world_size=world_size, recorder=False)
    begun = (looks[1].taken_at_ns or 0) / 1e9 - age
    for at in (0, 1):
        found = []
        for pid, (share, frame) in enumerate(others, start=77):
            process = _child(pid, "R" if share else "S", share, looks, at, rank=0).process
            process = process.model_copy(update={"started_at": begun})
            threads = (Thread(tid=pid, name="MainThread", frames=(0,)),)
            found.append(Child(process=process, stacks=Stacks(pid=pid, frames=(frame,), threads=threads)))
        (rank,) = looks[at].ranks
        identity = rank.identity.model_copy(update={"started_at": begun})
        looks[at : at + 1] = with_rank(looks[at : at + 1], 0, identity=identity, **{where: tuple(found)})
    return diagnose(looks, Expected())


@pytest.mark.parametrize("where", ["children", "beside"])
@pytest.mark.parametrize(("seconds", "verdict"), AGES)
def test_a_start_is_no_hang_whoever_launches(seconds: float, verdict: Verdict, where: str) -> None:
    """Rank 0 waits in rendezvous for one that it has started, or that was started beside it, and that still imports."""
    diagnosis = starting(seconds, where, [(0.9, IMPORTS)], 2)
    assert diagnosis.verdict is verdict
    assert all(finding.kind is Kind.HELD_UP and not finding.culprits for finding in diagnosis.findings)


@pytest.mark.parametrize(
    ("others", "world_size", "headline"),
    [
        (
            [(0.9, IMPORTS), (0.0, USER)],
            3,
            "Hung: the job does not start: process 78 (gzip), started together with rank 0, has not joined: it is "
            "in user code at train_step (/home/ada/train.py:40); rank 0 waits in rendezvous",
        ),
        # One that waits as rank 0 does has come, and is not known yet.
        ([(0.9, IMPORTS), (0.0, STARTS)], 3, "Held up: the job is starting: rank 0 waits in rendezvous"),
        # A pool of the launcher's looks like ranks: of more than are lacking, so many must work.
        ([(0.9, IMPORTS), (0.0, USER)], 2, "Held up: the job is starting: rank 0 waits in rendezvous"),
    ],
)
def test_who_is_beside_a_rank_is_waited_for_while_it_works(
    others: Sequence[tuple[float, Frame]], world_size: int, headline: str
) -> None:
    """`mp.spawn` has started the rank and those that have not come yet."""
    assert starting(70.0, "beside", others, world_size).headline.startswith(headline)


@pytest.mark.parametrize(("wakes", "verdict"), [(20.0, Verdict.CANNOT_TELL), (0.0, Verdict.HUNG)])
def test_who_moves_while_it_waits_for_a_peer_has_its_minute_while_it_is_watched(wakes: float, verdict: Verdict) -> None:
    """It may have had an answer a moment ago, however long the others have waited by then."""
    seen = Seen(frames=(USER, Frame("readinto", "/usr/lib/python3.11/socket.py", 706)), switches_per_second=wakes)
    assert judged(looks_at(seen, after=74.0)).verdict is verdict


EVENT = Frame("wait", "/usr/lib/python3.11/threading.py", 629)
FUTURE = Frame("result", "/usr/lib/python3.11/concurrent/futures/_base.py", 451)
PINNED = (
    Frame("_try_get_data", "/env/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 1293),
    Frame("get", "/usr/lib/python3.11/queue.py", 180),
)


@pytest.mark.parametrize(
    ("callers", "left", "verdict"),
    [
        ((EVENT,), 30.0, Verdict.SLOW),
        ((EVENT,), 86_000.0, Verdict.HUNG),
        ((EVENT,), None, Verdict.HUNG),
        ((FUTURE,), 30.0, Verdict.HUNG),
        (PINNED, 3.0, Verdict.HUNG),
    ],
)
def test_who_waits_for_an_event_for_as_long_as_it_says_is_asleep(
    callers: tuple[Frame, ...], left: float | None, verdict: Verdict
) -> None:
    """`stop.wait(backoff)` is how a sleep is written that may be cut short; a result, or a batch, is waited for."""
    call = Syscall(name="futex", ends_in_seconds=left)
    looks = looks_at(Seen(frames=(USER, *callers, JOIN)), after=74.0)
    slept = [{"process": _process(looks, at, syscall=call)} for at in (0, 1)]
    assert judged(_between(looks, *slept)).verdict is verdict
