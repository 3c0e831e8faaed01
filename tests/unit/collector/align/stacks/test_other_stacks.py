"""Other threads and child processes of all ranks, merged by name."""

from collector.align.stacks.other_stacks import other_stacks
from shared.missing import Missing, Reason
from shared.rank_sets import fold
from shared.wire.snapshot import Child, Identity, NodeSnapshot, Process, RankSnapshot
from shared.wire.stacks import Frame, Stacks, StackTable, Thread

TRAIN = Frame("train", "/home/ada/train.py", 12)
FEED = Frame("feed", "/home/ada/data.py", 3)
LOAD = Frame("load", "/home/ada/data.py", 30)
NOTHING = Missing(source="x", reason=Reason.REFUSED, detail="one of many")


def stacks(pid: int, *threads: tuple[str, Frame]) -> Stacks:
    """One process, the main thread first."""
    table = StackTable()
    told = [
        Thread(tid=pid + at, name=name, frames=(table.add(TRAIN), table.add(frame)))
        for at, (name, frame) in enumerate(threads)
    ]
    return Stacks(pid=pid, frames=table.frames, threads=tuple(told))


def node(*ranks: tuple[Stacks, tuple[Child, ...]]) -> list[NodeSnapshot]:
    """A look at some ranks and their children."""
    seen = [_look(rank, stacks, children) for rank, (stacks, children) in enumerate(ranks)]
    return [NodeSnapshot(host="a", taken_at_ns=1, ranks=tuple(seen))]


def _look(rank: int, seen: Stacks, children: tuple[Child, ...]) -> RankSnapshot:
    return RankSnapshot(
        identity=Identity(job="j", rank=rank, host="a", pid=seen.pid, started_at=1.0),
        looked_at_ns=1,
        process=NOTHING,
        stacks=seen,
        children=children,
        fds=NOTHING,
        logs=NOTHING,
        recorder=NOTHING,
    )


def worker(pid: int, seen: Stacks | Missing) -> Child:
    return Child(process=Process(pid=pid, state="S", name="pt_data_worker"), stacks=seen)


def trainer(rank: int) -> tuple[Stacks, tuple[Child, ...]]:
    """A rank with one more thread, a worker, and a worker whose stacks were not read."""
    own = stacks(10 * rank + 10, ("MainThread", TRAIN), (f"feeder-{rank}", FEED))
    return own, (worker(100 + rank, stacks(100 + rank, ("MainThread", LOAD))), worker(200 + rank, NOTHING))


def test_threads_of_one_name_and_children_are_merged_over_ranks() -> None:
    """What stands for the rank is not repeated; a child whose stacks were not read is listed all the same."""
    feeder, workers = other_stacks(node(*map(trainer, range(3))))
    assert (feeder.what, feeder.name) == ("thread", "feeder-#")
    assert (workers.what, workers.name) == ("child", "pt_data_worker")
    assert [(node.place.function, node.ranks) for node in feeder.tree] == [("train", "0-2")]
    assert [(node.place.function, node.ranks) for node in feeder.tree[0].children] == [("feed", "0-2")]
    assert workers.tree[0].children[0].place.function == "load"
    assert {(each.rank, each.pid, each.missing) for each in workers.processes} == {
        (rank, base + rank, why) for rank in range(3) for base, why in ((100, ""), (200, "one of many"))
    }


def test_names_without_end_are_told_together() -> None:
    """A job may name its threads as it likes."""
    many = [(f"{chr(97 + number // 26)}{chr(97 + number % 26)}", FEED) for number in range(200)]
    found = other_stacks(node((stacks(1000, ("MainThread", TRAIN), *many), ())))
    assert len(found) == 33
    assert found[-1].name == "others"
    assert found[-1].tree[0].ranks == fold([0])


def test_stacks_without_end_are_counted() -> None:
    """A thread may be anywhere."""
    many = [("feeder", FEED._replace(line=number)) for number in range(100)]
    (feeders,) = other_stacks(node((stacks(1000, ("MainThread", TRAIN), *many), ())))
    assert len(feeders.tree[0].children) == 64
    assert feeders.left_out == 36


def test_a_rank_without_stacks_has_none() -> None:
    assert other_stacks(node((Stacks(pid=5), ()))) == ()
