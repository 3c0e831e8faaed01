"""Asks a worker server for all that it holds of a flight record, and reads the answers.

On NCCL the first of its handlers tells everything and the second only what is not finished; Gloo has the second alone.
Since 2.15, which has `fr_dump_file`, `nccl` is a class that the second tells of where it is named: what is not
finished. How far its groups are is counted together with sends and receives, and believed beside operations alone.
"""

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.sources.recorder.merge import merge
from agent.sources.recorder.record_bounds import bounded
from agent.sources.recorder.worker_server import RankServer, ask
from agent.tools.memory_budget import PARSED_BYTES, Memory, Receipt
from shared.errors import UnreadableDump
from shared.formats.recorder.dump import parse_dump
from shared.json_bounds import TooCostly
from shared.missing import Reason
from shared.wire.trace import Trace

_OF_NCCL2 = "fr_trace_json?backend=nccl2"
_QUESTIONS = {
    "dump_nccl_trace_json": "dump_nccl_trace_json",
    "fr_trace_json": "fr_trace_json",
    _OF_NCCL2: "fr_dump_file",
}
"""What is asked, and the handler that a server has which knows that."""
_MOST_RECORDS = 131_072


def ask_record(server: RankServer, memory: Memory, deadline: Deadline) -> Trace:
    """Ask every handler that the server has and put the answers together. Raises Unavailable, Gone or NotPermitted."""
    with memory.receiving() as receipt:
        names = _handlers(server, deadline, receipt)
    known = [question for question, name in _QUESTIONS.items() if name in names]
    if not known:
        raise Unavailable(Reason.NOT_ENABLED, "this version of torch has no flight recorder that answers")
    return merge([_ask_one(server, question, memory, deadline) for question in known])


def _handlers(server: RankServer, deadline: Deadline, receipt: Receipt) -> str:
    status, body = ask(server, "GET /handler/", deadline=deadline, receipt=receipt)
    return body[:65_536].decode(errors="replace") if status == 200 else "fr_trace_json"


def _ask_one(server: RankServer, question: str, memory: Memory, deadline: Deadline) -> Trace:
    with memory.receiving() as receipt:
        status, body = ask(server, f"POST /handler/{question}", deadline=deadline, receipt=receipt)
        if status != 200:
            raise Unavailable(Reason.UNREADABLE, f"the recorder answered {question} with HTTP status {status}")
        with memory.parsing(deadline):
            trace = _parse(body)
    counted = trace.marks if len(trace) or question != _OF_NCCL2 else ()
    return bounded(trace.model_copy(update={"origin": (server.origin,), "marks": counted}))


def _parse(body: bytes) -> Trace:
    try:
        return parse_dump(body, most_bytes=PARSED_BYTES, most_records=_MOST_RECORDS)
    except UnreadableDump as error:
        reason = Reason.REFUSED if isinstance(error.__cause__, TooCostly) else Reason.UNREADABLE
        raise Unavailable(reason, str(error)) from error
