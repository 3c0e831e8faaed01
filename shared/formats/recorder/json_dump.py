"""A dump in JSON, read no further than each of its entries needs: most of one is what thousands share.

Of a stack or a shape the text is the key: what was read once is not read again. Texts that msgspec does not take, such
as half characters, NaN or UTF-16, and dumps of another form, are read by the standard library's parser, as a whole.
"""

from typing import Any

import msgspec

from shared.errors import UnreadableDump, quoted
from shared.json_bounds import check_json, load_json

Raw = msgspec.Raw
"""A part of a JSON text that was not read."""


_NOTHING = Raw()


class _Entry(msgspec.Struct, gc=False):
    frames: Raw = _NOTHING
    pg_id: Any = None
    process_group: Any = None
    collective_seq_id: Any = None
    seq_id: Any = None
    p2p_seq_id: Any = None
    op_id: Any = None
    profiling_name: Any = None
    time_created_ns: Any = None
    time_created_us: Any = None
    duration_ms: Any = None
    input_sizes: Raw = _NOTHING
    input_dtypes: Raw = _NOTHING
    output_sizes: Raw = _NOTHING
    output_dtypes: Raw = _NOTHING
    state: Any = None
    time_discovered_started_ns: Any = None
    time_discovered_completed_ns: Any = None
    retired: Any = None
    timeout_ms: Any = None
    is_p2p: Any = None
    thread_id: Any = None


class _Dump(msgspec.Struct):
    entries: list[_Entry]
    version: Any = None
    pg_config: Any = None
    pg_status: Any = None
    comm_lib_version: Any = None
    nccl_version: Any = None


_DECODER = msgspec.json.Decoder(_Dump)
_OF_ENTRY = _Entry.__struct_fields__
_OF_DUMP = _Dump.__struct_fields__[1:]


def read_json_dump(data: bytes, *, most_bytes: int) -> Any:
    """Return the value of a JSON text; stacks and shapes of entries may be `Raw`.

    Raises TooCostly where it may take more than `most_bytes` of memory, ValueError or RecursionError for no JSON.
    """
    check_json(data, most_bytes=most_bytes)
    try:
        read = _DECODER.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return load_json(data, most_bytes=most_bytes)
    dump = _given(read, _OF_DUMP)
    dump["entries"] = [_given(entry, _OF_ENTRY) for entry in read.entries]
    return dump


def read_part(raw: Any) -> Any:
    """Return the value of a part that was left unread; any other value as it is. Raises UnreadableDump."""
    if not isinstance(raw, Raw):
        return raw
    text = bytes(raw)
    try:
        return load_json(text, most_bytes=len(text) << 8)  # what its whole was found to take
    except (ValueError, RecursionError) as error:
        raise UnreadableDump(f"a part that is no JSON: {quoted(text)}") from error


def _given(read: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields that are there; null is not, nor is a part without text."""
    return {name: value for name in names if (value := getattr(read, name)) is not None and value is not _NOTHING}
