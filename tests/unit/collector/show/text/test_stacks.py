"""Merged stacks: as a tree, folded, for speedscope, as classes."""

from typing import NamedTuple

from collector.align.stacks.other_stacks import ChildProcess
from collector.show.text.stacks import render_classes, render_folded, render_others, render_tree, speedscope
from shared.answer.diagnosis import Place, StackClass
from tests.build.jobs.hostile import EVIL

PACKAGES = "/opt/venv/lib/python3.11/site-packages"
MAIN = Place(function="main", file="/home/ann/train.py", line=88)
STEP = Place(function="train_step", file="/home/ann/train.py", line=41)
LOAD = Place(function="load_batch", file="/home/ann/data/shards.py", line=17)
POLL = Place(function="poll", file="/usr/lib/python3.11/selectors.py", line=415)
REDUCE = Place(function="all_reduce", file=f"{PACKAGES}/torch/distributed/distributed_c10d.py", line=3252)
IN_REDUCE = StackClass(ranks="0-1,3", frames=(MAIN, STEP, REDUCE), label="in a collective")
IN_LOADER = StackClass(ranks="2", frames=(MAIN, LOAD, POLL), label="waiting for its DataLoader")


class Node(NamedTuple):
    """A node as the verdict's side makes them."""

    place: Place
    ranks: str
    children: tuple["Node", ...] = ()


TREE = (
    Node(MAIN, "0-3,5", (Node(STEP, "0-1,3,5", (Node(REDUCE, "0-1,3"),)), Node(LOAD, "2"))),
    Node(LOAD, "4"),
)


class Kind(NamedTuple):
    """Threads or children of one name."""

    what: str
    name: str
    tree: tuple[Node, ...]
    processes: tuple[ChildProcess, ...] = ()
    left_out: int = 0


def test_other_threads_and_children() -> None:
    """Each kind under its name, children with their process ids; names are the job's to choose."""
    children = tuple(ChildProcess(rank=0, pid=100 + number) for number in range(9))
    others = (Kind("thread", "Thread-#" + EVIL, (Node(POLL, "0-1"),)), Kind("child", "python", (), children))
    shown = render_others(others)
    assert shown.splitlines()[1].startswith("thread Thread-#")
    assert shown.splitlines()[2:4] == ["[0-1] 2 ranks", "poll (selectors.py:415)"]
    assert shown.splitlines()[-1] == "child python (pid 100, 101, 102, 103, 104, 105, 106, 107, …)"
    assert all(line.isprintable() for line in shown.splitlines())
    assert render_others(()) == ""
    assert render_others((Kind("thread", "feeder", (Node(POLL, "0"),), (), 3),)).splitlines()[-1] == "… 3 more stacks"


def test_tree() -> None:
    """Indented where ranks part, ranks told where they change, early ends told."""
    assert render_tree(TREE).splitlines() == [
        "[0-5] 6 ranks",
        "├─ [0-3,5] main (/home/ann/train.py:88)",
        "│  ├─ [0-1,3,5] train_step (/home/ann/train.py:41)",
        "│  │  [5] ends here",
        "│  │  [0-1,3] all_reduce (torch/distributed/distributed_c10d.py:3252)",
        "│  └─ [2] load_batch (/home/ann/data/shards.py:17)",
        "└─ [4] load_batch (/home/ann/data/shards.py:17)",
    ]


def test_empty_tree() -> None:
    """No ranks, no text."""
    assert render_tree(()) == ""
    assert render_folded(()) == ""


def test_folded() -> None:
    """One line per stack with the number of its ranks; a semicolon in a name separates nothing."""
    odd = (Node(Place(function="a;b", file="f;g", line=1), "0-9"),)
    assert render_folded(odd) == "a:b (f:g:1) 10\n"
    counts = [line.rpartition(" ")[2] for line in render_folded(TREE).splitlines()]
    assert sum(map(int, counts)) == 6


def test_speedscope() -> None:
    """Samples point into the frames, outermost first, and weigh as many as there are ranks."""
    file = speedscope(TREE, name="slurm-4242")
    (profile,) = file["profiles"]
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    stacks = [[frames[index] for index in sample] for sample in profile["samples"]]
    assert ["main", "train_step", "all_reduce", "[ranks 0-1,3]"] in stacks
    assert profile["endValue"] == sum(profile["weights"]) == 6
    assert len(profile["samples"]) == len(profile["weights"])


def test_classes() -> None:
    """All classes, with more frames than a verdict shows."""
    lines = render_classes([IN_REDUCE, IN_LOADER]).splitlines()
    assert lines[0] == "ranks 0-1,3 (3)  in a collective"
    assert lines[-1].split() == ["→", "poll", "selectors.py:415"]


def test_deep_stacks_do_not_recurse() -> None:
    """A stack of ten thousand frames is drawn as any other."""
    node = Node(REDUCE, "0")
    for _ in range(10_000):
        node = Node(MAIN, "0", (node,))
    assert len(render_tree((node,)).splitlines()) == 10_002
    assert render_folded((node,)).count(";") == 10_000
    assert len(speedscope((node,), name="")["profiles"][0]["samples"][0]) == 10_002


def test_hostile_names() -> None:
    """What a job calls its functions steers nothing."""
    tree = (Node(Place(function=EVIL, file=EVIL, line=1), "0"),)
    assert all(line.isprintable() for line in render_tree(tree).splitlines())
    assert len(render_folded(tree).splitlines()) == 1
    assert "\x1b" not in str(speedscope(tree, name=EVIL))
