"""What a caller may know of what is kept, as conditions on the tables: lists are cut where they are made."""

from sqlalchemy.sql import ColumnElement

from collector.keep.tables import diagnoses
from shared.server.access import Access


def diagnoses_seen_by(access: Access) -> tuple[ColumnElement[bool], ...]:
    """Return what must hold of a diagnosis that a caller may see.

    One of unknown owner, or of a job whose pods run in several namespaces, is for callers alone who are not bound.
    """
    conditions: list[ColumnElement[bool]] = []
    if access.users is not None:
        conditions.append(diagnoses.c.owner.in_(sorted(access.users)))
    if access.namespaces is not None:
        conditions.append(diagnoses.c.namespaces.in_(sorted(access.namespaces)))
    return tuple(conditions)
