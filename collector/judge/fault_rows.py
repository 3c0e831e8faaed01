"""Faults as rows of `faults.toml`: the kind, what shows it, the cause, and the sentences, filled with who and what."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from collector.judge.certainty import Support, how_sure
from collector.judge.fault import Fault
from shared.answer.words import Cause, Kind
from shared.packs import fitting, read_pack
from shared.plural import in_sentence

ROWS = read_pack(__file__, "faults.toml")


def filled(
    rows: Iterable[Mapping[str, Any]], culprits: Collection[int], victims: Collection[int], words: Mapping[str, Any]
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the first row whose `fields` the words have, and what it tells of a fault with these culprits and victims.

    Each line of its `remark` is a remark, but for those that are empty once they are filled. A row may ask whether
    anybody is `named`.
    """
    known = {"culprits": culprits, "victims": victims, **words}
    row = fitting(rows, known | ({"named": ""} if culprits else {}))
    remarks = filter(None, (in_sentence(line, known) for line in row.get("remark", "").split("\n")))
    own = {name: of(row[name]) for name, of in (("kind", Kind), ("cause", Cause)) if name in row}
    return row, own | {"said": in_sentence(row.get("said", ""), known), "remarks": tuple(remarks)}


def fault_by(
    table: str, culprits: Collection[int], victims: Collection[int], words: Mapping[str, Any] | None = None, **own: Any
) -> Fault:
    """Return a fault by the first row of a table that fits; `own`: fields that no row tells."""
    row, told = filled(ROWS[table], culprits, victims, {"op": own.get("op"), **(words or {})})
    told |= {"culprits": tuple(sorted(culprits)), "victims": tuple(sorted(victims))}
    told |= {"certainty": how_sure(told["kind"], Support[row["support"].upper()])}
    return Fault(**told | own)
