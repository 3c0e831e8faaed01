"""Reads RAS reports in JSON, which NCCL writes from 2.28.7 on.

2.28.7 and 2.28.9 leave a comma out in `missing_ranks[]`; it is put back. What the answer claims may be hostile: its
size, its nesting and its numbers are bounded before anything is built of it.
"""

import re
from typing import Any

from shared.errors import InvalidInput, quoted
from shared.formats.ras.build import MOST_RANK, CommunicatorBuilder, NetworkBuilder
from shared.json_bounds import load_json
from shared.wire.ras import RasNetwork, RasStatus

_MOST_BYTES = 256 * 1024 * 1024
"""Of memory that a report may take while it is read: seventy thousand members of communicators."""
_MOST_NUMBER = 1 << 62
_LONGEST_HOST = 255

#           "nvml_dev": 1
#           "status": {
_NO_COMMA = re.compile(rb'([\d"el])([ \t\r]*+\n\s*+)("[^"\n]{1,100}+"\s{0,8}+:)')

_ERRORS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process error",
}
"""ncclResult_t in nccl.h. 0 is success, 7 in progress."""
_FINE = (0, 7)


def parse_ras_json(data: bytes) -> RasNetwork:
    """Read one report. Raises InvalidInput."""
    report = _loaded(data)
    builder = NetworkBuilder()
    if "communicators" not in report and "event" in report:
        return _read_event(report, builder)
    try:
        for place, communicator in enumerate(_list(report["communicators"])):
            _read_communicator(communicator, builder, place)
        ras = report.get("ras", {})
        return builder.build(
            version=_text(report.get("nccl_version", ""), 40),
            told_at=_text(report.get("timestamp", ""), 40),
            known=_number(report.get("communicators_count", 0)),
            timeouts=_number(ras.get("timeouts_count", 0)),
            whole=True,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"a RAS report lacks {error} or has another kind of value there") from error


def _read_event(event: dict[str, Any], builder: NetworkBuilder) -> RasNetwork:
    """One event as the monitor mode writes it: what has become of one process."""
    status = {"PEER_DEAD": RasStatus.DEAD, "PEER_UNRESPONSIVE": RasStatus.SILENT}.get(_text(event["event"], 40))
    try:
        peer = _object(event["peer"])
        host, pid = _text(peer["host"], _LONGEST_HOST), _number(peer["pid"])
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"an event of RAS lacks {error} or has another kind of value there") from error
    builder.peer(host, pid, "", RasStatus.RUNNING if status is None else status)
    return builder.build(version="", told_at=_text(event.get("timestamp", ""), 40))


def _loaded(data: bytes) -> dict[str, Any]:
    if not data.isascii():
        data = data.decode("utf-8", "replace").encode()
    for attempt in (bytes, _mended):
        try:
            report = load_json(attempt(data), most_bytes=_MOST_BYTES)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict):
            return report
        break
    raise InvalidInput(f"not a whole RAS report in JSON: {quoted(data)}")


def _mended(data: bytes) -> bytes:
    return _NO_COMMA.sub(rb"\1,\2\3", data)


def _read_communicator(raw: dict[str, Any], builder: NetworkBuilder, place: int) -> None:
    one = builder.communicator(
        str(place),
        hash_=_text(raw["hash"], 40),
        secondary=_text(raw.get("secondary_hash", ""), 80),
        size=_number(raw["size"]),
    )
    for rank in _list(raw["ranks"]):
        _read_rank(rank, one, builder)
    for rank in _list(raw.get("missing_ranks", [])):
        _read_missing(rank, one, builder)


def _read_rank(raw: dict[str, Any], one: CommunicatorBuilder, builder: NetworkBuilder) -> None:
    rank = _number(raw["rank"], MOST_RANK)
    one.processes[rank] = _peer(raw, builder, RasStatus.RUNNING)
    status = _object(raw.get("status", {"init_state": 0}))
    one.standing(_status(status)).add(rank)
    for state in (status.get("init_state", 0), status.get("async_error", 0)):
        if _number(state) not in _FINE:
            one.reporting(_ERRORS.get(state, f"error {state}")).add(rank)
    for op, count in _object(raw.get("collective_counts", {})).items():
        one.launched(_text(op, 40), _number(count)).add(rank)


def _read_missing(raw: dict[str, Any], one: CommunicatorBuilder, builder: NetworkBuilder) -> None:
    rank = _number(raw["rank"], MOST_RANK)
    answer = _object(raw.get("status", raw))  # older and shorter forms have no object of its own for it
    dead, silent = answer.get("considered_dead") is True, answer.get("unresponsive") is True
    status = RasStatus.DEAD if dead else RasStatus.SILENT if silent else RasStatus.NOCOMM
    one.standing(status).add(rank)
    if "pid" in raw:
        one.processes[rank] = _peer(raw, builder, RasStatus.RUNNING if status is RasStatus.NOCOMM else status)


def _peer(raw: dict[str, Any], builder: NetworkBuilder, status: RasStatus) -> int:
    pid = raw["pid"]  # -1 with the host "unknown" where RAS has forgotten the process
    gpu = raw.get("nvml_dev", raw.get("cuda_dev", ""))
    return builder.peer(_text(raw["host"], _LONGEST_HOST), -1 if pid == -1 else _number(pid), str(gpu)[:8], status)


def _status(raw: dict[str, Any]) -> RasStatus:
    if raw.get("abort_flag") is True:
        return RasStatus.ABORT
    if raw.get("finalize_called") is True or raw.get("destroy_flag") is True:
        return RasStatus.FINALIZE
    return RasStatus.RUNNING if raw["init_state"] == 0 else RasStatus.INIT


def _number(raw: Any, most: int = _MOST_NUMBER) -> int:
    if type(raw) is not int or not 0 <= raw <= most:
        raise InvalidInput(f"{quoted(str(raw)[:200])} in a RAS report is no count")
    return raw


def _text(raw: Any, most: int) -> str:
    if not isinstance(raw, str):
        raise TypeError("a text")
    return "".join(character for character in raw[:most] if character.isprintable())


def _list(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise TypeError("a list")
    return raw


def _object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise TypeError("an object")
    return raw
