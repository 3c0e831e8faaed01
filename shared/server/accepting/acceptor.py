"""Takes the connections of a service in. What is plain is answered before anything is made for its connection.

1. A connection whose plain request is there already is answered and closed at once (`plain_requests.py`): a transport,
   a protocol, timers and tasks cost several times what the answer does. Any other begins as asyncio has it, with all
   that it has brought.
2. While many plain requests come, connections are gathered for a moment (`gathering.py`).
3. Not more than some are taken in before others are read: a client that asks at once is not idle when more come.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from shared.server.accepting.connection_guard import ConnectionGuard
from shared.server.accepting.gathering import Gathering
from shared.server.plain_requests import MOST_BYTES, json_answer

BACKLOG = 2048
"""Connections that the kernel holds until we accept them: all agents of a large cluster may register at once."""

GATHERED_SECONDS = 0.05
"""How long a connection may wait for others, while many plain requests come."""

_AT_ONCE = 16
"""Connections accepted before the others are read."""

_WITHOUT_ROOM_SECONDS = 1.0
"""Until the next attempt, where this process or the machine has no descriptors or memory left."""

_log = logging.getLogger(__name__)


class Acceptor:
    """The listening socket of one service. Used by the event loop's thread alone."""

    def __init__(
        self,
        listening: socket.socket,
        guard: ConnectionGuard,
        protocol: Callable[[str, bytes], asyncio.Protocol],
        headers: Callable[[], Iterable[tuple[bytes, bytes]]],
    ) -> None:
        """`protocol` makes one for a connection from an address that has brought these bytes without getting an answer.

        `headers` returns those of every answer at the moment.
        """
        self._listening = listening
        self._guard = guard
        self._protocol = protocol
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._gathering = Gathering(listening, self._accept)
        self._beginning: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Take in what comes from now on."""
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._gathering.start()

    def stop(self) -> None:
        """Take nothing in any more."""
        self._gathering.stop()

    def _accept(self) -> float | None:
        try:
            if self._accept_some():
                return 0.0
        except OSError as error:  # mostly EMFILE, ENFILE, ENOBUFS, ENOMEM
            _log.error("no connection is accepted for %.0f s: %s", _WITHOUT_ROOM_SECONDS, error.strerror)
            return _WITHOUT_ROOM_SECONDS
        return GATHERED_SECONDS if self._guard.plain.is_high() else None  # 2

    def _accept_some(self) -> bool:
        """Take in what has come, and return whether there may be more."""
        for _ in range(_AT_ONCE):  # 3
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return False
            try:
                self._take(connection, str(address[0]))
            except BaseException:
                connection.close()
                raise
        return True

    def _take(self, connection: socket.socket, client: str) -> None:
        """Step 1. What is looked at stays to be read where no answer to it is ready."""
        brought = _brought_by(connection) if self._guard.answers_without_transport else b""
        answer = self._guard.answer_at_once(brought, client) if brought and self._guard.admits(client) else None
        if answer is None:
            task = self._loop.create_task(self._begin(connection, client, brought))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)
            return
        with connection, suppress(OSError):  # the client is gone
            connection.recv(len(brought), socket.MSG_DONTWAIT)  # to close what is not read would be a reset
            connection.send(json_answer(answer.text, self._headers()), socket.MSG_DONTWAIT)

    async def _begin(self, connection: socket.socket, client: str, declined: bytes) -> None:
        try:
            connection.setblocking(False)
            await self._loop.connect_accepted_socket(partial(self._protocol, client, declined), connection)
        except OSError:  # the client is gone
            connection.close()


def _brought_by(connection: socket.socket) -> bytes:
    try:
        return connection.recv(MOST_BYTES + 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:  # nothing yet, or the client is gone
        return b""
