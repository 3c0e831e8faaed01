"""One agent's look as the collector holds it: read, and packed as it will be kept."""

import re
import zlib

from pydantic import ValidationError

from collector.gather.bounded_body import Body
from collector.gather.failures import NoAnswer
from collector.gather.fanout.fanout import read_answer
from shared.errors import InvalidRankSet, quoted
from shared.missing import Reason
from shared.mistakes import first_mistake
from shared.value import Value
from shared.wire.snapshot import Identity, NodeSnapshot
from shared.wire.survey_form import Survey
from shared.wire.survey_read import SurveyReader

# {"kind":"survey","node":{…}
_SURVEY = re.compile(rb'\s{0,8}\{\s{0,8}"kind"\s{0,8}:\s{0,8}"survey"')

_LEVEL = 1
"""Of compression, where the agent sent it plain: a client waits until it is stored."""


class NodeLook(Value):
    """A node at one moment."""

    snapshot: NodeSnapshot
    others: tuple[Identity, ...] = ()
    """Ranks on the node that belong to other jobs, as listed by a survey."""
    packed: bytes
    """The answer that it was read from, compressed: the JSON of a snapshot or of a survey."""


def read_look(body: bytes, surveys: SurveyReader) -> NodeLook:
    """Read an agent's answer. Raises NoAnswer."""
    snapshot, others = _read(body, surveys)
    return NodeLook.model_construct(snapshot=snapshot, others=others, packed=_packed(body))


def _packed(body: bytes) -> bytes:
    gzipped = body.gzipped if isinstance(body, Body) else None
    return zlib.compress(body, level=_LEVEL) if gzipped is None else gzipped


def read_kept(body: bytes) -> NodeSnapshot:
    """Read what was kept, inflated. Raises NoAnswer."""
    return _read(body, SurveyReader())[0]


def _read(body: bytes, surveys: SurveyReader) -> tuple[NodeSnapshot, tuple[Identity, ...]]:
    if not _SURVEY.match(body):
        return read_answer(body, NodeSnapshot), ()
    survey = read_answer(body, Survey)
    try:
        return surveys.snapshot_of(survey), survey.others
    except ValidationError as error:
        raise NoAnswer(Reason.UNREADABLE, f"a table of the survey cannot be read: {first_mistake(error)}") from error
    except (InvalidRankSet, ValueError) as error:
        raise NoAnswer(Reason.UNREADABLE, f"the survey contradicts itself: {quoted(str(error))}") from error
