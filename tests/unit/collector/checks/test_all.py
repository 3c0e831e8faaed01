"""What is wrong in how a job was started, by `jobs.toml`: the spoilt job, what is said of whom, and the near misses."""

import random
import tomllib
from array import array
from pathlib import Path
from typing import Any

import pytest

from collector.align.expected import Expected, Neighbour, Unanswered
from collector.checks.all import check_job
from collector.checks.nodes import matches
from collector.judge.verdict import diagnose
from shared.answer.checks import Check, CheckId, Severity
from shared.missing import Missing, Reason
from shared.wire.devices import Gpu, GpuProcess, Gpus
from shared.wire.setup import Listener, Versions
from shared.wire.snapshot import NodeSnapshot, RankSnapshot
from shared.wire.trace import COLUMNS, Group, Signature, Trace
from tests.build.jobs.checked_jobs import NOTHING, STARTED, job, nodes, rank

USUAL = Versions(torch="2.12.1+cu130", cuda="12.8", nccl="2.27.5", python="3.12", driver="570.86.10")
JOBS: dict[str, list[dict[str, Any]]] = tomllib.loads(Path(__file__).with_name("jobs.toml").read_text("utf-8"))


def checks(snapshots: list[NodeSnapshot], expected: Expected | None = None) -> tuple[Check, ...]:
    """Check a job."""
    return check_job(snapshots, expected or Expected(job="night"))


def made(row: dict[str, Any]) -> list[NodeSnapshot]:
    """The job of a row."""
    if "all" in row:
        return nodes(*(one for number in range(4) for one in ranks_of({"ranks": [number], **row["all"]})))
    ranks = [one for told in row.get("changed", row.get("only", ())) for one in ranks_of(told)]
    return job(*ranks) if "changed" in row else nodes(*ranks)


def ranks_of(told: dict[str, Any]) -> list[RankSnapshot]:
    """The ranks that one line tells of."""
    settings = {name: value for name, value in told.items() if name.isupper()}
    more = {name: value for name, value in told.items() if not name.isupper() and name not in READ}
    more |= {name: read(told[name]) for name, read in READ.items() if name in told and read is not None}
    more |= dict.fromkeys(told.get("unknown", ()))
    if "after" in told:
        more["started_at"] = STARTED + told["after"]
    if "recorded" in told or "groups" in told:
        more["recorder"] = recorded(told)
    return [rank(number, settings=settings, **more) for number in told["ranks"]]


def recorded(told: dict[str, Any]) -> Trace:
    """The record of one operation, or of groups that have issued none."""
    if "groups" in told:
        return Trace(groups=tuple(map(Group.model_validate, told["groups"])))
    columns = dict.fromkeys(COLUMNS, array("q", [0]))
    columns["created_ns"] = array("q", [int((STARTED + told["recorded"]) * 1e9)])
    return Trace(groups=(Group(name="0"),), signatures=(Signature(op="all_reduce", backend="nccl"),), **columns)


READ: dict[str, Any] = {
    **dict.fromkeys(("ranks", "unknown", "after", "recorded", "groups")),
    "listener": Listener.model_validate,
    "versions": lambda told: USUAL.model_copy(update=told) if told else Versions(),
}
"""What `rank` takes otherwise than it is written."""

SPOILT = {row["name"]: (made(row), *row["said"].split(), row["seen"]) for row in JOBS["spoilt"]}
HEALTHY = {row["name"]: made(row) for row in JOBS["healthy"]} | {
    "settings that nobody could read": [
        each.model_copy(update={"ranks": tuple(r.model_copy(update={"setup": NOTHING}) for r in each.ranks)})
        for each in job()
    ],
    "nobody": [],
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_told(name: str) -> None:
    """The id, how grave it is, on whom, and what was seen; and each says why, and what to change."""
    snapshots, wanted, severity, ranks, seen = SPOILT[name]
    found = [check for check in checks(snapshots) if check.id == wanted]
    assert [(check.severity, check.ranks) for check in found][:1] == [(severity, ranks)], checks(snapshots)
    assert seen in found[0].seen
    assert found[0].why
    assert found[0].change


@pytest.mark.parametrize("name", SPOILT)
def test_nothing_else_is_told(name: str) -> None:
    """One fault is one check: its consequences are not told as further faults."""
    snapshots, wanted, *_ = SPOILT[name]
    assert {check.id for check in checks(snapshots)} <= {wanted} | _GO_TOGETHER.get(wanted, set())


_GO_TOGETHER = {
    CheckId.RANK_BEYOND_WORLD: {CheckId.DEVICES_SHARED},
    CheckId.GPUS_IDLE: {CheckId.RANK_BEYOND_WORLD},
    CheckId.INTERFACE_MISSING: {CheckId.INTERFACES_DIFFER},
    CheckId.TWO_RENDEZVOUS: {CheckId.DEVICES_SHARED},
    CheckId.DUPLICATE_RANKS: {CheckId.DEVICES_SHARED},
}


@pytest.mark.parametrize("name", HEALTHY)
def test_innocent_settings_are_passed_over(name: str) -> None:
    """Near misses, each of them found in jobs that run well."""
    assert checks(HEALTHY[name]) == ()


def with_gpus(snapshots: list[NodeSnapshot], *pids: int) -> list[NodeSnapshot]:
    """Let the driver of each node tell which processes compute on its GPUs, one each."""
    gpus = Gpus(gpus=tuple(Gpu(index=n, processes=(GpuProcess(pid=pid),)) for n, pid in enumerate(pids)))
    return [each.model_copy(update={"gpus": gpus}) for each in snapshots]


def test_drivers_know_better_than_variables() -> None:
    """Ranks that choose their device otherwise, and one process that drives all of them."""
    alike = nodes(*(rank(n, host="node1", settings={"LOCAL_RANK": "0", "WORLD_SIZE": "2"}) for n in (0, 1)))
    assert [check.id for check in checks(alike)] == [CheckId.DEVICES_SHARED]
    assert checks(with_gpus(alike, 1000, 1001)) == ()
    lone = nodes(rank(0, settings={"WORLD_SIZE": "1"}, gpus=2))
    assert [check.id for check in checks(with_gpus(lone, 1000))] == [CheckId.GPUS_IDLE]
    assert checks(with_gpus(lone, 1000, 1000)) == ()


def test_other_half_of_a_job() -> None:
    """Two jobs that began together and make up one world; not one that began later, or has other ranks."""
    mine = nodes(rank(0), rank(1))
    other = Neighbour(job="10.0.0.9:29501", world_size=4, ranks="2-3", hosts=("node2",), started_at=STARTED + 5)
    (found,) = checks(mine, Expected(job="night", neighbours=(other,)))
    assert (found.id, found.severity) == (CheckId.TWO_RENDEZVOUS, Severity.WRONG)
    assert "10.0.0.9:29501 on node2" in found.seen
    for harmless in ({"ranks": "1-3"}, {"ranks": "3"}, {"started_at": STARTED + 4000}, {"world_size": 8}):
        near = other.model_copy(update=harmless)
        assert checks(mine, Expected(job="night", neighbours=(near,))) == ()


def test_one_process_of_many_is_not_told_where_nodes_are_silent() -> None:
    """The other ranks may be where nobody could look."""
    snapshots = SPOILT["one process of many"][0]
    silent = Unanswered(host="node2", missing=Missing(source="agent", reason=Reason.UNREACHABLE))
    assert checks(snapshots, Expected(job="night", unanswered=(silent,))) == ()


@pytest.mark.parametrize("name", SPOILT)
def test_order_changes_nothing(name: str) -> None:
    """Snapshots and ranks in any order, and in one snapshot or many."""
    snapshots = SPOILT[name][0]
    split = [each.model_copy(update={"ranks": (rank,)}) for each in snapshots for rank in each.ranks]
    for seed in range(3):
        random.Random(seed).shuffle(split)
        assert checks(split) == checks(snapshots)


def test_part_of_the_diagnosis() -> None:
    """A verdict carries them, the worst first."""
    found = diagnose(SPOILT["world sizes"][0], Expected(job="night")).checks
    assert [check.id for check in found] == [CheckId.WORLD_SIZES_DIFFER]


def test_hostile_values_are_cut() -> None:
    """A variable of kilobytes becomes a short quotation, and many different ones a few."""
    long = nodes(*(rank(n % 4, pid=n, settings={"NCCL_ALGO": f"{n}" * 5000}) for n in range(200)))
    assert all(len(check.seen) < 2000 for check in checks(long))


@pytest.mark.parametrize(
    ("wanted", "whole", "fits"),
    [
        ("eth", False, True),
        ("=eth", False, False),
        ("=eth0", False, True),
        ("ib,eth0", True, True),
        ("eth", True, False),
        ("^eth0", False, True),
        ("", False, True),
        ("mlx5_0:1", False, False),
    ],
)
def test_interface_lists(wanted: str, whole: bool, fits: bool) -> None:
    """Prefixes, whole names, exclusions."""
    assert matches(wanted, ("eth0", "lo"), whole=whole) is fits
