"""One agent's look as the collector holds it: read, and packed as it will be kept."""

import zlib

from collector.failures import NoAnswer
from collector.fanout import read_answer
from shared.errors import InvalidRankSet
from shared.missing import Reason
from shared.snapshot import Identity, NodeSnapshot
from shared.survey import Survey, SurveyReader
from shared.value import Value

_SURVEY = b'{"kind":"survey"'

_LEVEL = 1
"""Of compression: looks at a large job are tens of megabytes, and somebody waits for them to be kept."""


class Look(Value):
    """A node at one moment."""

    snapshot: NodeSnapshot
    others: tuple[Identity, ...] = ()
    """Ranks on the node that are not of the job, where a survey named them."""
    packed: bytes
    """The answer that it was read from, compressed: the JSON of a snapshot or of a survey."""


def read_look(body: bytes, surveys: SurveyReader) -> Look:
    """Read an agent's answer. Raises NoAnswer."""
    snapshot, others = _read(body, surveys)
    return Look.model_construct(snapshot=snapshot, others=others, packed=zlib.compress(body, level=_LEVEL))


def read_kept(body: bytes) -> NodeSnapshot:
    """Read what was kept, inflated. Raises NoAnswer."""
    return _read(body, SurveyReader())[0]


def _read(body: bytes, surveys: SurveyReader) -> tuple[NodeSnapshot, tuple[Identity, ...]]:
    if not body.startswith(_SURVEY):
        return read_answer(body, NodeSnapshot), ()
    survey = read_answer(body, Survey)
    try:
        return surveys.snapshot_of(survey), survey.others
    except InvalidRankSet as error:
        raise NoAnswer(Reason.UNREADABLE, f"the answer is not a Survey: {error}") from error
