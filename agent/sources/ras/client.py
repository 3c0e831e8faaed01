"""Speaks the RAS client protocol over one connection: who is there, then one report, or lines as they come.

What answers belongs to the job and may be slow, endless or made up: one deadline covers the whole exchange and the
answer is bounded. Nothing but these five commands is ever sent; `CONTROL`, which changes the job, is not among them.
"""

import re
import socket

from agent.deadline import Deadline
from agent.errors import Unavailable
from agent.tools.memory_budget import Memory
from shared.errors import InvalidInput, quoted
from shared.formats.ras.parse import parse_ras
from shared.missing import Reason
from shared.wire.ras import RasNetwork

LARGEST_REPORT = 32 * 1024 * 1024
_LONGEST_LINE = 4096
_PIECE = 262_144
_GREETING = re.compile(rb"SERVER PROTOCOL \d{1,6}\r?")
_LONGEST_LEG_SECONDS = 5


def ask_ras(
    channel: socket.socket, deadline: Deadline, *, greeting_seconds: float, memory: Memory | None = None
) -> RasNetwork:
    """Return what RAS reports, in JSON where this version of NCCL can. Raises Unavailable.

    `greeting_seconds` bounds the first answer: a process that is stopped accepts connections and never greets.
    """
    talk = _Talk(channel, deadline)
    try:
        talk.greet(deadline.at_most(greeting_seconds))
        leg = max(1, min(_LONGEST_LEG_SECONDS, int(deadline.left() / 3)))
        talk.say(b"TIMEOUT %d" % leg, deadline)
        talk.say(b"SET FORMAT json", deadline)  # before 2.28.7 an unknown command: then the report is text
        report = talk.report(b"VERBOSE STATUS")
        with (memory or Memory()).parsing(deadline):
            return parse_ras(report, whole=True)
    except TimeoutError as error:
        raise Unavailable(Reason.TIMED_OUT, f"RAS did not answer within {deadline.seconds:.1f} s") from error
    except InvalidInput as error:
        raise Unavailable(Reason.UNREADABLE, str(error)) from error
    except OSError as error:
        raise Unavailable(Reason.UNREACHABLE, f"RAS hung up: {error.strerror or error}") from error


class _Talk:
    """Lines there and back."""

    def __init__(self, channel: socket.socket, deadline: Deadline) -> None:
        self._channel = channel
        self._deadline = deadline
        self._left_over = bytearray()

    def greet(self, deadline: Deadline) -> None:
        """See that RAS is there."""
        greeting = self.say(b"CLIENT PROTOCOL 2", deadline)
        if not _GREETING.fullmatch(greeting):
            raise Unavailable(Reason.UNREADABLE, f"what answers there is not RAS: {quoted(greeting)}")

    def say(self, command: bytes, deadline: Deadline) -> bytes:
        """Send a command and return the line that answers it."""
        self._send(command, deadline)
        while b"\n" not in self._left_over:
            if len(self._left_over) > _LONGEST_LINE:
                raise Unavailable(Reason.UNREADABLE, f"what answers there is not RAS: {quoted(bytes(self._left_over))}")
            piece = self._receive(deadline)
            if not piece:
                raise Unavailable(Reason.UNREADABLE, f"RAS hung up after {quoted(command)}")
            self._left_over += piece
        line, _, rest = bytes(self._left_over).partition(b"\n")
        self._left_over = bytearray(rest)
        return line

    def arrived(self) -> list[bytes]:
        """Return the whole lines that have come by now; the rest comes next time. Raises Unavailable where it ended."""
        self._channel.settimeout(0)
        try:
            piece = self._channel.recv(_PIECE)
        except BlockingIOError:
            return self._lines()
        self._left_over += piece
        lines = self._lines()
        if not piece or len(self._left_over) > _LONGEST_LINE:
            raise Unavailable(Reason.UNREADABLE, "RAS hung up" if not piece else "RAS sends a line without end")
        return lines

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def _lines(self) -> list[bytes]:
        *lines, rest = bytes(self._left_over).split(b"\n")
        self._left_over = bytearray(rest)
        return lines

    def report(self, command: bytes) -> bytes:
        """Send a command and return all that follows, to the end."""
        self._send(command, self._deadline)
        data = self._left_over
        while piece := self._receive(self._deadline):
            data += piece
            if len(data) > LARGEST_REPORT:
                raise Unavailable(Reason.REFUSED, f"the RAS report is larger than the {LARGEST_REPORT} bytes we read")
        return bytes(data)

    def _send(self, command: bytes, deadline: Deadline) -> None:
        self._channel.settimeout(max(deadline.left(), 0.001))
        self._channel.sendall(command + b"\n")

    def _receive(self, deadline: Deadline) -> bytes:
        if deadline.left() <= 0:
            raise TimeoutError
        self._channel.settimeout(max(deadline.left(), 0.001))
        return self._channel.recv(_PIECE)


class RasEvents(_Talk):
    """What RAS tells of the job's processes from now on, a line for each. Raises Unavailable, and OSError."""

    def __init__(self, channel: socket.socket, deadline: Deadline) -> None:
        """`deadline` is that of the first answers."""
        super().__init__(channel, deadline)
        self.greet(deadline)
        said = self.say(b"MONITOR lifecycle", deadline)  # before 2.29 an unknown command
        if said.rstrip(b"\r") != b"OK":
            raise Unavailable(Reason.NOT_FOUND, f"RAS reports no processes: {quoted(said)}")
