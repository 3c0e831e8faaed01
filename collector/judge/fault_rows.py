"""Faults as rows of `faults.toml`: the kind, what shows it, the cause, and the sentences, filled with who and what."""

from collections.abc import Collection, Mapping
from typing import Any

from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault
from shared.answer.words import Cause, Kind
from shared.packs import fitting, read_pack
from shared.plural import in_sentence

ROWS = read_pack(__file__, "faults.toml")


def fault_by(
    table: str, culprits: Collection[int], victims: Collection[int], words: Mapping[str, Any] | None = None, **own: Any
) -> Fault:
    """Return a fault by the first row of a table whose `fields` the words have; `own`: fields that no row tells.

    Each line of the row's `remark` is a remark, but for those that are empty once they are filled. A row may ask
    whether anybody is `named`.
    """
    known = {"culprits": culprits, "victims": victims, "op": own.get("op"), **(words or {})}
    row = fitting(ROWS[table], known | ({"named": ""} if culprits else {}))
    kind, cause = Kind(row["kind"]), row.get("cause")
    remarks = filter(None, (in_sentence(line, known) for line in row.get("remark", "").split("\n")))
    told = {
        "kind": kind,
        "culprits": tuple(sorted(culprits)),
        "victims": tuple(sorted(victims)),
        "certainty": how_sure(kind, Support[row["support"].upper()]),
        "cause": None if cause is None else Cause(cause),
        "said": in_sentence(row.get("said", ""), known),
        "remarks": tuple(remarks),
    }
    return Fault(**told | own)
