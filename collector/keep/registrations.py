"""Which agents have registered, at any collector: shared by replicas, and kept over restarts.

Times are those of the database's clock; callers pass and get durations, so that their own clocks may differ. All calls
block.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select, update

from collector.hostlists import AgentAddress
from collector.keep.database import Database
from collector.keep.tables import agents, plain

REMEMBERED_SECONDS = 86_400.0
"""How long after its last registration an agent is forgotten."""

MOST_AGENTS = 131_072
"""Most that are read; left out are those that have been silent for longest."""


class Renewal(NamedTuple):
    """An agent that has registered, and how long ago."""

    address: AgentAddress
    place: tuple[str, str]
    """What identifies it: its node's name, and its port with the path."""
    age_seconds: float


class RegisteredAgent(NamedTuple):
    """An agent as the store knows it. `heard_ms` changes only when it registers again."""

    address: AgentAddress
    age_seconds: float
    heard_ms: int


class Registrations:
    """The agents in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def exchange(self, renewals: Sequence[Renewal]) -> tuple[RegisteredAgent, ...]:
        """Store the agents that have registered here, and return all that are known. Raises StoreTrouble."""
        if renewals:
            self._write(renewals)
            self._put_in_order()
        found, clock_ran_back = self._read()
        if clock_ran_back:
            self._put_in_order()
        return found

    def _write(self, renewals: Sequence[Renewal]) -> None:
        rows = [_row(each) for each in renewals]
        rows.sort(key=lambda row: str(row["place_key"]))  # in one order, so that two replicas never block each other
        with self._database.write() as connection:
            heard_ms = self._database.now_ms - bindparam("age_ms")
            new = self._database.insert(agents).values(
                place_key=bindparam("place_key"), host=bindparam("host"), url=bindparam("url"), heard_ms=heard_ms
            )
            later = {name: new.excluded[name] for name in ("host", "url", "heard_ms")}
            connection.execute(
                new.on_conflict_do_update(
                    index_elements=["place_key"], set_=later, where=new.excluded.heard_ms > agents.c.heard_ms
                ),
                rows,
            )

    def _read(self) -> tuple[tuple[RegisteredAgent, ...], bool]:
        """Return the agents, and whether some seem to have registered in the future."""
        known = select(agents.c.host, agents.c.url, agents.c.heard_ms, self._database.now_ms.label("now_ms"))
        with self._database.read() as connection:
            rows = connection.execute(known.order_by(agents.c.heard_ms.desc()).limit(MOST_AGENTS)).all()
        found = [
            RegisteredAgent(AgentAddress(host=host, url=url), max(0, now_ms - heard_ms) / 1000, heard_ms)
            for host, url, heard_ms, now_ms in rows
        ]
        return tuple(found), any(row.heard_ms > row.now_ms for row in rows)

    def _put_in_order(self) -> None:
        """Forget the oldest; if the database's clock was set back, do not keep agents until it has caught up."""
        now_ms = self._database.now_ms
        with self._database.write() as connection:
            if self._database.try_lock(connection, "registrations"):
                connection.execute(update(agents).where(agents.c.heard_ms > now_ms).values(heard_ms=now_ms))
                connection.execute(delete(agents).where(agents.c.heard_ms < now_ms - int(REMEMBERED_SECONDS * 1000)))


def _row(renewal: Renewal) -> dict[str, object]:
    key = sha256("\0".join(renewal.place).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    address = renewal.address
    age_ms = int(renewal.age_seconds * 1000)
    return {"place_key": key, "host": plain(address.host), "url": plain(address.url), "age_ms": age_ms}
