"""Hand-made verdicts, one or more of each kind, that the golden files show."""

from shared.answer.diagnosis import (
    AbsenceEvidence,
    Conflict,
    Coverage,
    Culprit,
    Diagnosis,
    FdEvidence,
    Finding,
    Gap,
    GroupRef,
    LagEvidence,
    Link,
    LinkEnd,
    LogEvidence,
    MotionEvidence,
    NextStep,
    Place,
    ProcessEvidence,
    SequenceEvidence,
    Side,
    SignatureEvidence,
    StackClass,
    StackEvidence,
    Wait,
    WaitEvidence,
    Where,
)
from shared.answer.words import Cause, Certainty, Kind, Verdict
from shared.missing import Missing, Reason

WORLD = GroupRef(name="0", description="default_pg", ranks="0-3")
PAIR = GroupRef(name="2", description="tp1", ranks="2-3")
PACKAGES = "/opt/venv/lib/python3.11/site-packages"

MAIN = Place(function="main", file="/home/ann/train.py", line=88)
STEP = Place(function="train_step", file="/home/ann/train.py", line=41)
LOAD = Place(function="load_batch", file="/home/ann/data/shards.py", line=17)
NEXT = Place(function="__next__", file=f"{PACKAGES}/torch/utils/data/dataloader.py", line=733)
POLL = Place(function="poll", file="/usr/lib/python3.11/selectors.py", line=415)
REDUCE = Place(function="all_reduce", file=f"{PACKAGES}/torch/distributed/distributed_c10d.py", line=3252)
RECV = Place(function="recv", file=f"{PACKAGES}/torch/distributed/distributed_c10d.py", line=2651)
NATIVE = Place(function="gloo::transport::uv::Pair::recv", file="libtorch_cpu.so")

FULL = Coverage(expected=4, seen=4, answered=4, with_stacks=4, with_trace=4)
SIGNED = {"id": "0195a1c8-7b31-7b3f-a2d6-a3933daff891", "made_at": "2026-01-02T03:04:05.678Z", "took_seconds": 3.4}

IN_REDUCE = StackClass(ranks="0-1,3", frames=(MAIN, STEP, REDUCE), label="in a collective")
IN_LOADER = StackClass(ranks="2", frames=(MAIN, LOAD, NEXT, POLL), label="waiting for its DataLoader")
DEEP = IN_LOADER.model_copy(update={"frames": (MAIN, LOAD, *(NEXT,) * 12, POLL)})


def hung(headline: str, *findings: Finding, **more: object) -> Diagnosis:
    """Return a verdict `hung` with what all samples share."""
    values = {"job": "slurm-4242", "coverage": FULL, **SIGNED, **more}
    return Diagnosis.model_validate(
        {"verdict": Verdict.HUNG, "headline": headline, "findings": findings, **values}, strict=False
    )


def rank_not_joined() -> Diagnosis:
    """The usual one: everything known, a DataLoader's child at the bottom of it."""
    finding = Finding(
        kind=Kind.RANK_NOT_JOINED,
        cause=Cause.DATALOADER,
        certainty=Certainty.PROVEN,
        culprits=(Culprit(rank=2, local_rank=0, host="node07", pid=4711, gpu="0"),),
        victims="0-1,3",
        group=WORLD,
        op="all_reduce",
        sequence=4,
        where=Where(
            user=LOAD,
            library=POLL,
            thread="MainThread",
            process="sleeping in poll() on pipe:[81234]",
            child="DataLoader worker, pid 4790, blocked in read() of /mnt/nfs/shard-0031.tar (nfs4)",
        ),
        summary="rank 2 has not joined all_reduce #4 of default_pg",
        evidence=(
            SequenceEvidence(
                ranks="0-3",
                text="ranks 0-1,3 have issued #4 of default_pg, rank 2 has stopped at #3",
                group=WORLD,
                sequence=4,
                issued={"3": "2", "4": "0-1,3"},
                waiting="0-1,3",
                absent="2",
                waited_seconds=312.4,
            ),
            WaitEvidence(
                ranks="0-3",
                text="0-1,3 wait for 2",
                waits=tuple(Wait(rank=r, waits_for="2", group=WORLD, op="all_reduce", sequence=4) for r in (0, 1, 3)),
            ),
            StackEvidence(ranks="2", text="rank 2 is in its data loader", frames=IN_LOADER.frames),
            StackEvidence(ranks="2", text="its worker 4790 reads a file", frames=(LOAD, NATIVE)),
            FdEvidence(ranks="2", text="the worker's fd 9 is on NFS", pid=4790, fd=9, target="/mnt/nfs/shard-0031.tar"),
            LogEvidence(
                ranks="2", text="its log complains of NFS", path="/logs/rank2.err", line="nfs: server not responding"
            ),
            MotionEvidence(ranks="0-3", text="between looks 3.0 s apart all stood still", seconds=3.0, frozen="0-3"),
        ),
        next_steps=(
            NextStep(text="check the NFS server behind /mnt/nfs"),
            NextStep(text="show all threads of rank 2 on node07", command="py-spy dump --native --pid 4711"),
        ),
    )
    return hung(
        "Hung: rank 2 has not joined all_reduce #4 of default_pg: its DataLoader worker is blocked in a read from NFS",
        finding,
        stack_classes=(IN_REDUCE, IN_LOADER),
    )


def chain_of_victims() -> Diagnosis:
    """Two groups: 0 and 1 wait for 2 and 3, 2 waits for 3."""
    waits = (
        *(Wait(rank=r, waits_for="2-3", group=WORLD, op="all_reduce", sequence=9) for r in (0, 1)),
        Wait(rank=2, waits_for="3", group=PAIR, op="all_gather", sequence=4),
    )
    finding = Finding(
        kind=Kind.RANK_NOT_JOINED,
        certainty=Certainty.SUPPORTED,
        culprits=(Culprit(rank=3),),
        victims="0-2",
        group=PAIR,
        op="all_gather",
        sequence=4,
        evidence=(WaitEvidence(ranks="0-3", text="0-1 wait for 2-3; 2 waits for 3", waits=waits),),
    )
    coverage = Coverage(
        expected=4,
        seen=4,
        answered=4,
        with_trace=4,
        missing=tuple(
            Gap(ranks="0-3", missing=Missing(source=source, reason=Reason.NOT_FOUND, detail="no file contains it"))
            for source in ("process", "stacks", "fds", "logs")
        ),
    )
    return hung("Hung: rank 3 has not joined all_gather #4 of group tp1", finding, job=None, coverage=coverage)


def rank_exited() -> Diagnosis:
    """A traceback in the log, and a source that contradicts."""
    finding = Finding(
        kind=Kind.RANK_EXITED,
        cause=Cause.EXCEPTION,
        certainty=Certainty.PROVEN,
        culprits=(Culprit(rank=1, host="node07", pid=4712),),
        victims="0,2-3",
        evidence=(
            ProcessEvidence(ranks="1", text="rank 1 (pid 4712) has exited with status 1", pid=4712, exit_code=1),
            LogEvidence(ranks="1", text="its last words", line="ValueError: loss is NaN"),
        ),
        next_steps=(NextStep(text="read the last lines of its log", command="unhang logs slurm-4242 --rank 1"),),
    )
    conflict = Conflict(sources=("torchrun", "logs"), text="torchrun calls rank 0 the first failure; it failed later")
    return hung("Hung: rank 1 has ended with an exception and will never join", finding, conflicts=(conflict,))


def rank_unreachable() -> Diagnosis:
    """A node is silent: its ranks are the culprits, and what is missing is told."""
    missing = Missing(source="http://node03:8471", reason=Reason.TIMED_OUT, detail="no answer within 5.0 s")
    finding = Finding(
        kind=Kind.RANK_UNREACHABLE,
        certainty=Certainty.SUPPORTED,
        culprits=tuple(Culprit(rank=rank, host="node03") for rank in range(16, 24)),
        victims="0-15,24-31",
        group=GroupRef(name="0", description="undefined", ranks="0-31"),
        op="broadcast",
        sequence=120,
        evidence=(AbsenceEvidence(ranks="16-23", text="node03 does not answer", reason=Reason.TIMED_OUT),),
        next_steps=(NextStep(text="check the node", command="ssh node03 dmesg -T"),),
    )
    coverage = Coverage(
        expected=32,
        seen=24,
        answered=24,
        with_stacks=24,
        missing=(
            Gap(ranks="16-23", host="node03", missing=missing),
            *(
                Gap(ranks=str(rank), host="node01", missing=Missing(source="recorder", reason=Reason.NOT_ENABLED))
                for rank in range(8)
            ),
        ),
    )
    return hung("Hung: node03 with ranks 16-23 does not answer", finding, coverage=coverage)


def rank_stopped() -> Diagnosis:
    """A signal stopped it."""
    finding = Finding(
        kind=Kind.RANK_STOPPED,
        cause=Cause.SIGNAL,
        certainty=Certainty.PROVEN,
        culprits=(Culprit(rank=0, host="node07", pid=4710),),
        victims="1-3",
        group=WORLD,
        evidence=(ProcessEvidence(ranks="0", text="rank 0 (pid 4710) is stopped by a signal", pid=4710, state="T"),),
        next_steps=(NextStep(text="let rank 0 go on on node07", command="kill -CONT 4710"),),
    )
    return hung("Hung: rank 0 is stopped by a signal and has not joined", finding)


def rank_missing() -> Diagnosis:
    """Silence alone."""
    finding = Finding(
        kind=Kind.RANK_MISSING,
        certainty=Certainty.SUSPECTED,
        culprits=(Culprit(rank=2),),
        victims="0-1,3",
        evidence=(AbsenceEvidence(ranks="2", text="no file is of rank 2", reason=Reason.NOT_FOUND),),
    )
    coverage = FULL.model_copy(update={"seen": 3, "answered": 3, "with_stacks": 3, "with_trace": 0})
    return hung("Hung: rank 2 is nowhere to be found and has not joined", finding, coverage=coverage)


def _mismatch(*sides: Side, culprits: tuple[Culprit, ...], victims: str, text: str) -> Finding:
    return Finding(
        kind=Kind.COLLECTIVE_MISMATCH,
        cause=Cause.USER_CODE,
        certainty=Certainty.PROVEN,
        culprits=culprits,
        victims=victims,
        group=WORLD,
        op="all_reduce",
        sequence=4,
        evidence=(SignatureEvidence(ranks="0-3", text=text, group=WORLD, sequence=4, sides=sides),),
        next_steps=(NextStep(text="compare the code paths that lead to the differing operations"),),
    )


def mismatch_with_majority() -> Diagnosis:
    """One against three."""
    most = Side(ranks="1-3", op="all_reduce", sizes="[[16]]", dtypes="Float", call_site=STEP)
    one = Side(ranks="0", op="all_gather", sizes="[[16], [64]]", dtypes="Float", call_site=LOAD)
    text = "at #4 of default_pg rank 0 calls all_gather, ranks 1-3 call all_reduce"
    finding = _mismatch(most, one, culprits=(Culprit(rank=0, host="node07", pid=4710),), victims="1-3", text=text)
    return hung("Hung: rank 0 issued all_gather where ranks 1-3 issued all_reduce #4 of default_pg", finding)


def mismatch_of_halves() -> Diagnosis:
    """Two against two: nobody is convicted."""
    low = Side(ranks="0-1", op="all_reduce", sizes="[[16]]", dtypes="Float", call_site=STEP)
    high = Side(ranks="2-3", op="all_reduce", sizes="[[17]]", dtypes="Float", call_site=STEP)
    finding = _mismatch(low, high, culprits=(), victims="", text="at #4 of default_pg the sizes differ")
    return hung("Hung: the ranks disagree on all_reduce #4 of default_pg, and no side has a majority", finding)


def order_inversion() -> Diagnosis:
    """Two groups taken in different orders."""
    world = Wait(rank=0, waits_for="1", group=WORLD, op="all_reduce", sequence=7, call_site=STEP)
    pair = Wait(
        rank=1,
        waits_for="0",
        group=GroupRef(name="1", description="tp0", ranks="0-1"),
        op="reduce_scatter_tensor_coalesced",
        sequence=31,
        call_site=LOAD,
    )
    finding = Finding(
        kind=Kind.ORDER_INVERSION,
        cause=Cause.USER_CODE,
        certainty=Certainty.PROVEN,
        culprits=(Culprit(rank=0), Culprit(rank=1)),
        victims="2-3",
        cycle=(world, pair),
    )
    return hung("Hung: ranks 0-1 wait for each other across groups", finding)


def p2p_deadlock() -> Diagnosis:
    """A ring of receives."""
    cycle = tuple(
        Wait(rank=rank, waits_for=str((rank - 1) % 4), group=WORLD, op="recv", call_site=STEP) for rank in (0, 3, 2, 1)
    )
    finding = Finding(
        kind=Kind.P2P_DEADLOCK,
        cause=Cause.USER_CODE,
        certainty=Certainty.PROVEN,
        culprits=tuple(Culprit(rank=rank, host="node07", pid=4710 + rank) for rank in range(4)),
        group=WORLD,
        op="recv",
        cycle=cycle,
        next_steps=(NextStep(text="let half of the ranks send first, or use batch_isend_irecv"),),
    )
    everyone = StackClass(ranks="0-3", frames=(MAIN, STEP, RECV, NATIVE), label="in a receive")
    return hung("Hung: ranks 0-3 wait for each other in receives", finding, stack_classes=(everyone,))


def p2p_unmatched() -> Diagnosis:
    """A receive whose send never comes."""
    wait = Wait(rank=3, waits_for="1", group=WORLD, op="recv", call_site=STEP)
    finding = Finding(
        kind=Kind.P2P_UNMATCHED,
        certainty=Certainty.SUSPECTED,
        culprits=(Culprit(rank=1),),
        victims="3",
        group=WORLD,
        op="recv",
        where=Where(user=STEP, library=STEP, thread="pipeline-3"),
        evidence=(WaitEvidence(ranks="1,3", text="3 waits for a send of 1", waits=(wait,)),),
    )
    return hung("Hung: rank 1 never posts the counterpart of a receive of rank 3", finding, stack_classes=(DEEP,))


def stuck_together() -> Diagnosis:
    """All have joined; a link is under suspicion, no rank is."""
    links = (
        Link(from_=LinkEnd(rank=7, host="node01"), to=LinkEnd(rank=8, host="node02"), interface="mlx5_3"),
        Link(from_=LinkEnd(host="node02"), to=LinkEnd()),
    )
    group = GroupRef(name="0", description="default_pg", ranks="0-15")
    finding = Finding(
        kind=Kind.STUCK_TOGETHER,
        cause=Cause.NETWORK,
        certainty=Certainty.SUPPORTED,
        victims="0-15",
        group=group,
        op="all_reduce",
        sequence=1880,
        links=links,
        evidence=(
            SequenceEvidence(
                ranks="0-15",
                text="all 16 ranks have issued #1880 of default_pg and none has completed it",
                group=group,
                sequence=1880,
                issued={"1880": "0-15"},
                waiting="0-15",
            ),
            LogEvidence(ranks="7", text="NCCL reports the port", line="NET/IB : Got completion with error 12"),
        ),
        next_steps=(NextStep(text="look at the port's counters", command="ssh node01 ibstat mlx5_3"),),
    )
    coverage = Coverage(expected=16, seen=16, answered=16, with_stacks=16, with_trace=16)
    return hung("Hung: all 16 ranks have joined all_reduce #1880 and none gets out of it", finding, coverage=coverage)


def startup_incomplete() -> Diagnosis:
    """Not all came."""
    finding = Finding(
        kind=Kind.STARTUP_INCOMPLETE,
        cause=Cause.RENDEZVOUS,
        certainty=Certainty.SUPPORTED,
        victims="0-2",
        evidence=(AbsenceEvidence(ranks="3", text="rank 3 never started", reason=Reason.NOT_FOUND),),
    )
    coverage = Coverage(expected=4, seen=3, answered=3, with_stacks=3)
    return hung("Hung: the job does not start: rank 3 never came", finding, coverage=coverage)


def slow() -> Diagnosis:
    """A straggler."""
    finding = Finding(
        kind=Kind.STRAGGLER,
        cause=Cause.USER_CODE,
        certainty=Certainty.SUPPORTED,
        culprits=(Culprit(rank=3, host="node07", pid=4713),),
        victims="0-2",
        group=WORLD,
        evidence=(
            LagEvidence(
                ranks="3",
                text="rank 3 came last at 61 of 64 collectives, by 0.41 s of a 0.52 s step",
                group=WORLD,
                lag_seconds=0.41,
                period_seconds=0.52,
                last_in=61,
                of=64,
            ),
        ),
    )
    return hung("Slow: rank 3 keeps the others waiting in every step", finding, verdict=Verdict.SLOW)


def not_hung() -> Diagnosis:
    """It moves."""
    return hung("Not hung: all ranks move on.", verdict=Verdict.NOT_HUNG, state="running")


def cannot_tell() -> Diagnosis:
    """Nothing to go by, and what to switch on."""
    missing = Missing(source="stacks", reason=Reason.NOT_PERMITTED, detail="the agent lacks CAP_SYS_PTRACE")
    return hung(
        "Cannot tell: no stacks and no flight record.",
        verdict=Verdict.CANNOT_TELL,
        coverage=Coverage(seen=2, answered=2, missing=(Gap(ranks="0-1", host="node07", missing=missing),)),
        next_steps=(
            NextStep(text="look again with the right to trace", command="sudo unhang diagnose slurm-4242"),
            NextStep(text="next time start it under the probe", command="unhang run -- torchrun …"),
        ),
    )


def empty() -> Diagnosis:
    """As little as a verdict can hold."""
    return Diagnosis(verdict=Verdict.CANNOT_TELL, headline="")


def thousand_ranks() -> Diagnosis:
    """Large sets are cut, classes are counted, the culprit's class is shown though it is the smallest."""
    odd = ",".join(str(rank) for rank in range(1, 129, 2))
    finding = Finding(
        kind=Kind.RANK_NOT_JOINED,
        certainty=Certainty.PROVEN,
        culprits=tuple(Culprit(rank=rank, host=f"node{rank // 8:03}") for rank in range(1, 129, 2)),
        victims="0," + ",".join(str(rank) for rank in range(2, 129, 2)) + ",129-1023",
        group=GroupRef(name="0", description="default_pg", ranks="0-1023"),
        op="all_reduce",
        sequence=77,
    )
    second = finding.model_copy(update={"culprits": (Culprit(rank=1000),), "certainty": Certainty.SUSPECTED})
    classes = tuple(
        StackClass(ranks=f"{at * 100}-{at * 100 + 98 - at}", frames=(MAIN,) * (at + 5) + (REDUCE,)) for at in range(10)
    )
    last = StackClass(ranks="1000", frames=(MAIN, LOAD))
    coverage = Coverage(expected=1024, seen=1024, answered=1023, with_stacks=1023, with_trace=512)
    headline = f"Hung: ranks {odd} have not joined all_reduce #77"
    return hung(headline, finding, second, stack_classes=(*classes, last), coverage=coverage)


EVIL = (
    "\x1b[2J\r\nrm -rf\u202e\x07\ud800 ```</script><img src=x onerror=1> @everyone **b** [l](http://e.vil) <!channel>"
)
"""Tries a terminal, a text direction, a fence, HTML, a mention, markup and a link."""


def hostile() -> Diagnosis:
    """Names and lines that want to break out."""
    place = Place(function=EVIL, file=f"/{EVIL}.py", line=3)
    group = GroupRef(name=EVIL, description=EVIL, ranks="0-1")
    wait = Wait(rank=1, waits_for="0", group=group, op=EVIL, sequence=1, call_site=place)
    finding = Finding(
        kind=Kind.RANK_NOT_JOINED,
        certainty=Certainty.SUSPECTED,
        culprits=(Culprit(rank=0, host=EVIL, pid=1, gpu=EVIL),),
        victims="1",
        group=group,
        op=EVIL,
        sequence=1,
        cycle=(wait, wait),
        links=(Link(from_=LinkEnd(host=EVIL), to=LinkEnd(host=EVIL), interface=EVIL),),
        where=Where(user=place, library=place, thread=EVIL, process=EVIL, child=EVIL),
        summary=EVIL,
        evidence=(
            LogEvidence(ranks="0", text=EVIL, path=EVIL, line="x" * 5000),
            FdEvidence(ranks="0", text="fd", fd=1, target=EVIL),
            StackEvidence(ranks="0", text=EVIL, frames=(place,)),
            SignatureEvidence(ranks="0", text=EVIL, group=group, sequence=1, sides=(_evil_side(place),)),
        ),
        next_steps=(NextStep(text=EVIL, command=EVIL),),
    )
    missing = Missing(source=EVIL, reason=Reason.UNREADABLE, detail=EVIL)
    return hung(
        EVIL,
        finding,
        job=EVIL,
        made_at=EVIL,
        stack_classes=(StackClass(ranks="0", frames=(place,), label=EVIL),),
        coverage=Coverage(missing=(Gap(host=EVIL, missing=missing),)),
        conflicts=(Conflict(sources=(EVIL, EVIL), text=EVIL),),
        next_steps=(NextStep(text=EVIL, command=EVIL),),
    )


def _evil_side(place: Place) -> Side:
    return Side(ranks="0", op=EVIL, sizes=EVIL, dtypes=EVIL, call_site=place)


SAMPLES = {
    made.__name__: made
    for made in (
        rank_not_joined,
        chain_of_victims,
        rank_exited,
        rank_unreachable,
        rank_stopped,
        rank_missing,
        mismatch_with_majority,
        mismatch_of_halves,
        order_inversion,
        p2p_deadlock,
        p2p_unmatched,
        stuck_together,
        startup_incomplete,
        slow,
        not_hung,
        cannot_tell,
        empty,
        thousand_ranks,
        hostile,
    )
}
"""All samples by name."""
