"""Failures that launchers, Slurm and the kernel report, and those of processes whose rank nothing tells.

1. What a process or a node does not survive speaks for itself: a signal, memory run out, a node that Slurm or Ray lost.
   Neither an abort counts, with which a watchdog ends a victim, nor a termination, with which a launcher ends the rest.
2. Whatever else fails is a fault only where others waited or lost it. Who was the first to end, by mpirun's account, or
   to answer JAX's coordinator no more, is told where nothing else is, and not blamed for it.
3. A launcher that ends the rest kills who does not end in time: in torchelastic's table such a death is told some
   while after the first one.
   Where there is such a table, what srun or mpirun starts are launchers: how they end says nothing of a rank.
4. What stands behind a wait that lasted until its timeout is a consequence. The first failure that is left counts, a
   lost node before all.

The rank is named where mpirun, or torchelastic's table, tells it for a signal; else the process or the node is told.
"""

import re
from collections.abc import Iterable

from collector.align.logs.aftermath import Aftermath
from collector.align.logs.attributed_lines import Statements
from collector.align.observations import Observations
from collector.judge.logs.own_failures import cause_of_failure, has_lost_peers, is_own_failure, remarks_on
from collector.judge.logs.vote import Opinion, Said, line_of, opinion_by
from shared.answer.words import Cause, Kind
from shared.formats.logs.timestamps import seconds_between
from shared.isolation import costs_itself
from shared.packs import read_pack, said_by
from shared.plural import either
from shared.rank_sets import ranks_in_words
from shared.wire.log_events import EventKind, LogEvent

_CONSEQUENCES = {"-6", "-15", "6", "15", "134", "143"}
"""SIGABRT and SIGTERM, as exit statuses of a process and of a shell."""
_NAMES = frozenset({"pid", "ended_rank", "host", "worker", "executor", "spawned", "loader"})
_TABLE_LINES = 5
_SHELLS_OFFSET = 128
"""What a shell, and MPICH, adds to a signal in an exit status."""
_DIGITS = 4
_MOST_HOSTS = 6
_LEAVING = frozenset({"first_to_end", "jax_task", "hangup"})
# CUDA error: uncorrectable ECC error encountered        the device itself fails, and nobody else's
# Device[1] lost heartbeat        /dev/accel0 tpu1:pe1:0] !!!! FATAL ERROR
_DEVICE_FAILS = re.compile(
    r"uncorrectable ECC|GPU is lost|fallen off the bus|hardware stack error|HW Exception"
    r"|Device\[\d{1,4}\] lost heartbeat|/dev/accel\d{1,4} [^\]]{1,80}\] !!!! FATAL ERROR"
)
# Queue 0x7f00 aborting with error : HSA_STATUS_ERROR_EXCEPTION        the runtime ends the process, whoever is at fault
_RUNTIME_ENDS = re.compile(r"watchdog thread terminated with exception|aborting with error : HSA_STATUS")
_NO_TIME = "the line does not say when: a process that has waited in vain is ended by its watchdog, and dies so, too"
_LAUNCHER_WAITS_SECONDS = 10.0
"""A death so much later than the first is a launcher's doing: torchelastic kills 30 s after it has asked."""
ENDS = read_pack(__file__, "ends.toml")


@costs_itself(lambda *_: [])
def opinions_by_failures(statements: Statements, observations: Observations, aftermath: Aftermath) -> list[Opinion]:
    """Return the first failure of a process that no rank's own log tells; of a live job, processes are looked at."""
    if observations.roster.live:
        return []
    told = [said for said in statements.all() if not aftermath.holds(said[1])]  # 4
    killed = _killed_by_launcher([event for _, event in told])  # 3
    killed |= _aborted([event for _, event in told])
    launched = {event.path for _, event in told if "failed_rank" in event.fields}
    ended = [
        said
        for said in told
        if _is_end(said[1]) and id(said[1]) not in killed and not (said[1].path in launched and _is_status(said[1]))
    ]
    lost = [said for said in ended if _is_lost_node(said[1])]
    missed = is_missed(statements)
    failed = [said for said in told if said[0] is None and is_own_failure(said[1])] if missed else []
    rest_ended = any("Terminated" in event.fields.get("what", "") for _, event in told)
    left = [said for said in told if not missed and not launched and _is_leaving(said[1], rest_ended)]
    left = left if len({event.fields.get("first_to_end", event.fields.get("tasks")) for _, event in left}) == 1 else []
    first = next(iter(lost or ended or failed or left), None)
    return [] if first is None else [_opinion(*_telling(first, ended), told, statements)]


def _telling(first: Said, ended: list[Said]) -> Said:
    """Return the line that names whose end it is, where another gives the same reason and does not."""
    of_mpirun = (said for said in ended if _tells_rank_of(first[1], said[1]))
    if _NAMES & first[1].fields.keys():
        return next(of_mpirun, first)
    if first[0] is None and _device_fails(first[1]):
        return next((said for said in ended if said[0] is not None and _device_fails(said[1])), first)
    why = cause_of_failure(first[1])
    alike = (said for said in ended if _NAMES & said[1].fields.keys() and cause_of_failure(said[1]) is why)
    return next(alike, first)


def _tells_rank_of(event: LogEvent, other: LogEvent) -> bool:
    """Does mpirun name the rank of the process of which another line tells?"""
    name, told = event.fields, other.fields
    return "pid" in name and (name["pid"], name.get("died_on")) == (told.get("ended_pid"), told.get("died_on"))


def is_missed(statements: Statements) -> bool:
    """Did anybody wait in vain, or lose a connection?"""
    return (
        bool(statements.waited)
        or any(True for _ in statements.of_kind(EventKind.WATCHDOG_TIMEOUT))
        or has_lost_peers(statements)
    )


def _is_lost_node(event: LogEvent) -> bool:
    return event.kind is EventKind.SIGNAL and "host" in event.fields and "tasks" not in event.fields


def _is_leaving(event: LogEvent, rest_ended: bool = True) -> bool:
    """2. Does a launcher say who was first to end, as many a victim is? Or did a terminal end the launcher itself?

    Of srun's tasks it is the one that aborted, where `rest_ended`: srun has terminated the others.
    """
    fields = event.fields
    hung_up = fields.get("signal") == "1" and "death signal" in event.text
    aborted = rest_ended and "Aborted" in fields.get("what", "") and fields.get("tasks", "").isdecimal()
    return event.kind is EventKind.SIGNAL and (hung_up or aborted or bool(fields.keys() & _LEAVING))


def _device_fails(event: LogEvent) -> bool:
    return event.kind is EventKind.DEVICE_ERROR and _DEVICE_FAILS.search(event.text) is not None


def _is_end(event: LogEvent) -> bool:
    """1. Does it say that a process or a node has ended, of itself?"""
    fields = event.fields
    if event.kind is EventKind.OUT_OF_MEMORY:
        return "step" in fields or "pid" in fields
    if event.kind is EventKind.DEVICE_ERROR:
        return _RUNTIME_ENDS.search(event.text) is not None or _device_fails(event)
    if event.kind is not EventKind.SIGNAL:
        return False
    if "exit_code" in fields:
        return fields["exit_code"].startswith("-") and fields["exit_code"] not in _CONSEQUENCES
    if fields.keys() & {"died", "spawned", "shell", "loader", "handled"}:
        return True
    if "signal" in fields:
        return bool(fields.keys() & {"pid", "ended_rank"}) and fields["signal"] not in _CONSEQUENCES
    if "tasks" in fields:
        return not any(word in fields.get("what", "") for word in ("Aborted", "Terminated", "Cancelled"))
    return _is_lost_node(event) or "terminated" in fields or "Segmentation fault" in fields.get("what", "")


def _is_status(event: LogEvent) -> bool:
    """Is it srun's or mpirun's word on one of its tasks, which is a launcher?"""
    fields = event.fields
    return "ended_rank" in fields or ("tasks" in fields and "Exited with exit code" in fields.get("what", ""))


def _killed_by_launcher(events: Iterable[LogEvent]) -> set[int]:
    """Ends in torchelastic's tables that came long after the first, by identity."""
    by_file: dict[str, list[LogEvent]] = {}
    for event in events:
        by_file.setdefault(event.path, []).append(event)
    killed: set[int] = set()
    for told in by_file.values():
        told.sort(key=lambda event: event.number)
        seen: dict[int, str] = {}
        stamp, at = "", -_TABLE_LINES
        for event in told:
            if "seen_ended" in event.fields:
                stamp, at = event.fields["seen_ended"].replace("_", " "), event.number
            elif event.number - at <= _TABLE_LINES and event.fields.keys() & {"exit_code", "signal"}:
                seen[id(event)] = stamp
        first = min(seen.values(), default="")
        killed |= {one for one, when in seen.items() if (seconds_between(first, when) or 0.0) > _LAUNCHER_WAITS_SECONDS}
    return killed


def _aborted(events: Iterable[LogEvent]) -> set[int]:
    """Open MPI's headings above a signal that is a consequence, by identity."""
    events = list(events)
    pids = {event.fields.get("pid") for event in events if event.fields.get("signal") in _CONSEQUENCES}
    return {id(event) for event in events if "handled" in event.fields and event.fields.get("pid") in pids}


def _opinion(rank: int | None, event: LogEvent, told: list[Said], statements: Statements) -> Opinion:
    named = _named(rank, event, told)
    waited = tuple(sorted(statements.waited - set(named)))
    same = [
        each for each in told if each[1].kind in (EventKind.OUT_OF_MEMORY, EventKind.DEVICE_ERROR) and each[0] is None
    ]
    causes = [cause_of_failure(each) for _, each in same if _is_vague(event)] or [cause_of_failure(event)]
    unsure = (_NO_TIME,) if waited and "died" in event.fields and not event.stamp else ()
    remarks = dict.fromkeys((*unsure, *(remark for _, each in [(rank, event), *same] for remark in remarks_on(each))))
    shown = [(rank, event), *(said for said in same if said[1] is not event)][:4]
    return opinion_by(
        "ended",
        named,
        waited,
        {"who": _who(event, named, told), "what": _what(event), **({"waited": ""} if waited else {})},
        *remarks,
        kind=Kind.RANK_UNREACHABLE if _is_lost_node(event) else Kind.RANK_EXITED,
        evidence=tuple(line_of(each, who, named) for who, each in shown),
        cause=Cause.UNKNOWN if _is_lost_node(event) else causes[0],
        vague=_is_leaving(event) or _is_status(event),
    )


def _named(rank: int | None, event: LogEvent, told: list[Said]) -> tuple[int, ...]:
    """Who is told by its number; of those whose own process says so, the only one, for such errors spread."""
    if _is_leaving(event):
        return ()
    told_rank = event.fields.get("speaker", event.fields.get("ended_rank"))
    if told_rank is not None:
        return (int(told_rank),)
    if event.kind is EventKind.DEVICE_ERROR or "loader" in event.fields:
        alike = {who for who, each in told if each.kind is event.kind and _is_end(each)}
        alike -= {None} if _device_fails(event) else set()  # two devices seldom break at once
        return (rank,) if rank is not None and alike == {rank} else ()
    return _in_table(event, told)


def _is_vague(event: LogEvent) -> bool:
    """Does it only say that a process ended, which another line may explain?"""
    return event.kind is EventKind.SIGNAL


def _in_table(event: LogEvent, told: list[Said]) -> tuple[int, ...]:
    """The rank that torchelastic's table tells closest above an exit status, there or elsewhere of the same process."""
    if not event.fields.keys() & {"exit_code", "signal"}:
        return ()
    name = (event.path, event.fields.get("pid"))
    again = [other for _, other in told if name[1] is not None and (other.path, other.fields.get("pid")) == name]
    ranks = {_closest_above(each, told, "failed_rank") for each in (event, *again)} - {None}
    return tuple(int(rank) for rank in ranks if rank is not None) if len(ranks) == 1 else ()


def _closest_above(event: LogEvent, told: list[Said], name: str) -> str | None:
    """What the closest of the few lines above an event tells, or its own."""
    near = [
        (event.number - other.number, other.fields[name])
        for _, other in told
        if name in other.fields and other.path == event.path and 0 <= event.number - other.number <= _TABLE_LINES
    ]
    return min(near)[1] if near else None


def _who(event: LogEvent, named: tuple[int, ...], told: list[Said]) -> str:
    fields = event.fields
    host = fields.get("died_on") or fields.get("writer_host") or _of_actor("actor_on", event, told)
    on = f" on {host}" if host else ""
    if named:
        return ranks_in_words(named) + on
    if _is_lost_node(event) and not _is_leaving(event):
        hosts = sorted({each.fields["host"] for _, each in told if _is_lost_node(each)})
        return f"{either(hosts, 'node', 'nodes')} {', '.join(hosts[:_MOST_HOSTS])}"
    pid = fields.get("pid") or fields.get("writer_pid") or _of_actor("actor_pid", event, told)
    words = {"on": on, "several": "" if fields.get("tasks", "").isdecimal() else "s"} | ({"id": pid} if pid else {})
    return said_by(ENDS["who_left" if _is_leaving(event) else "who_ended"], fields | words)


def _of_actor(name: str, event: LogEvent, told: list[Said]) -> str | None:
    """What Ray tells of an actor closest above its death: its address, or its process."""
    return _closest_above(event, told, name) if "died" in event.fields else None


def _what(event: LogEvent) -> str:
    fields = event.fields
    if _is_lost_node(event):
        return said_by(ENDS["how_lost"], fields)
    if _is_leaving(event):
        return said_by(ENDS["how_left"], fields)
    if event.kind is EventKind.OUT_OF_MEMORY:
        return said_by(ENDS["how_full"], fields)
    signal = fields.get("signal") or fields.get("exit_code", "").lstrip("-")
    words = {"why": fields.get("what") or fields.get("message") or fields.get("type") or "CUDA error"}
    return said_by(ENDS["how_ended"], fields | words | ({"number": _less_offset(signal)} if signal else {}))


def _less_offset(signal: str) -> str:
    number = int(signal) if signal.isdecimal() and len(signal) < _DIGITS else 0
    return str(number - _SHELLS_OFFSET) if number > _SHELLS_OFFSET else signal
