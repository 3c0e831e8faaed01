"""Takes the connections of a service in. What is plain is answered before anything is made for its connection.

1. A connection whose plain request is there already is answered and closed at once (`plain_requests.py`): a transport,
   a protocol, timers and tasks cost several times what the answer does. Any other begins as asyncio has it, with all
   that it has brought.
2. To be woken costs as much as the answer. So while many plain requests come, connections are gathered for a moment.
3. Not more than some are taken in before others are read: a client that asks at once is not idle when more come.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from shared.server.connections import ConnectionGuard
from shared.server.plain_requests import MOST_BYTES, json_answer

BACKLOG = 2048
"""Connections that the kernel holds until we accept them: all agents of a large cluster may register at once."""

GATHERED_SECONDS = 0.05
"""How long a connection may wait for others, while many plain requests come."""

_AT_ONCE = 16
"""Connections accepted before the others are read."""

_WITHOUT_ROOM_SECONDS = 1.0
"""Until the next attempt, where this process or the machine has no descriptors or memory left."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = logging.getLogger(__name__)


class Acceptor:
    """The listening socket of one service. Used by the event loop's thread alone."""

    def __init__(
        self,
        listening: socket.socket,
        guard: ConnectionGuard,
        protocol: Callable[[bytes], asyncio.Protocol],
        headers: Callable[[], Iterable[tuple[bytes, bytes]]],
    ) -> None:
        """`protocol` makes one for a connection that has brought these bytes, to which no answer is ready.

        `headers` returns those of every answer at the moment.
        """
        self._listening = listening
        self._guard = guard
        self._protocol = protocol
        self._headers = headers
        self._loop = asyncio.get_running_loop()
        self._is_watching = False
        self._next: asyncio.TimerHandle | None = None
        self._beginning: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Take in what comes from now on."""
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._watch()

    def stop(self) -> None:
        """Take nothing in any more."""
        if self._next is not None:
            self._next.cancel()
        self._look_away()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):  # 3
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                self._wait()
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                _log.error("no connection is accepted for %.0f s: %s", _WITHOUT_ROOM_SECONDS, error.strerror)
                self._wait_for(_WITHOUT_ROOM_SECONDS)
                return
            self._take(connection, str(address[0]))
        if not self._is_watching:
            self._wait_for(0.0)

    def _take(self, connection: socket.socket, client: str) -> None:
        """Step 1. What is looked at stays to be read where no answer to it is ready."""
        brought = _brought_by(connection) if self._guard.answers_without_transport else b""
        answer = self._guard.answer_at_once(brought, client) if brought and self._guard.admits(client) else None
        if answer is None:
            task = self._loop.create_task(self._begin(connection, brought))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)
            return
        with connection, suppress(OSError):  # the client is gone
            connection.recv(len(brought), socket.MSG_DONTWAIT)  # to close what is not read would be a reset
            connection.send(json_answer(answer, self._headers()), socket.MSG_DONTWAIT)

    async def _begin(self, connection: socket.socket, declined: bytes) -> None:
        try:
            connection.setblocking(False)
            await self._loop.connect_accepted_socket(partial(self._protocol, declined), connection)
        except OSError:  # the client is gone
            connection.close()

    def _wait(self) -> None:
        """Step 2."""
        if self._guard.many_are_plain():
            self._wait_for(GATHERED_SECONDS)
        else:
            self._watch()

    def _wait_for(self, seconds: float) -> None:
        self._look_away()
        self._next = self._loop.call_later(seconds, self._accept)

    def _watch(self) -> None:
        if not self._is_watching:
            self._loop.add_reader(self._listening, self._accept)
            self._is_watching = True

    def _look_away(self) -> None:
        if self._is_watching:
            self._loop.remove_reader(self._listening)
            self._is_watching = False


def _brought_by(connection: socket.socket) -> bytes:
    try:
        return connection.recv(MOST_BYTES + 1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:  # nothing yet, or the client is gone
        return b""
