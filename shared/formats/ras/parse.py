"""A RAS report of either format."""

from shared.errors import InvalidInput
from shared.formats.ras.json_report import parse_ras_json
from shared.formats.ras.text_report import LAST_HEADING, parse_ras_text
from shared.wire.ras import RasNetwork

LARGEST_REPORT = 64 * 1024 * 1024


def parse_ras(data: bytes, *, whole: bool = False) -> RasNetwork:
    """Read one report; `whole` refuses text that ends before its last section. Raises InvalidInput."""
    if len(data) > LARGEST_REPORT:
        raise InvalidInput(f"a RAS report of {len(data)} bytes; at most {LARGEST_REPORT} are read")
    if data.lstrip()[:1] == b"{":
        return parse_ras_json(data)
    if whole and LAST_HEADING.encode() not in data:
        raise InvalidInput("the RAS report ends early")
    return parse_ras_text(data)
