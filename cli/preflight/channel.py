"""Messages between the coordinator and a node: JSON, one a line, each signed with a key made of a shared token.

Whoever connects proves first that it knows the token, without sending it, and so does the coordinator:

    coordinator  {"nonce": "…"}
    node         {"nonce": "…", "proof": "…"}
    coordinator  {"proof": "…"}

From there on each line begins with a code over the direction, a count, and the rest of it: nobody on the way can write
one, repeat one or leave one out. What is read over the user's own ssh needs no codes.
"""

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from shared.errors import NotPermitted, Unreachable
from shared.json_bounds import load_json

BEAT_SECONDS = 10.0
"""So often the coordinator says something to each node, if only that it is there."""

SILENCE_SECONDS = 60.0
"""A node that has heard nothing for so long gives up: a machine that loses power closes no connection, nor does ssh."""

MOST_LINE_BYTES = 8 * 1024 * 1024
"""A message may carry what a node saw of its ranks."""

_MOST_GREETING_BYTES = 1024
_MOST_MEMORY = 256 * 1024 * 1024
_CODE_BYTES = 64

TOKEN_ADVICE = "give all nodes the same token: UNHANG_PREFLIGHT_TOKEN or --token-file"

Message = dict[str, Any]


class AnotherToken(NotPermitted):
    """Who connected is a node, and its token is not ours."""


class Channel:
    """One connection, either end of it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, key: bytes | None = None, leads: bool
    ) -> None:
        """`key` None: nobody else can write there. `leads`: this is the coordinator's end."""
        self._reader = reader
        self._writer = writer
        self._key = key
        self._directions = (b">", b"<") if leads else (b"<", b">")
        self._sent = self._received = 0
        self._beating: asyncio.Task[None] | None = None

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. Raises Unreachable."""
        body = json.dumps(message).encode()
        code = self._code(self._directions[0], self._sent, body)
        self._sent += 1
        try:
            self._writer.write(code + body + b"\n")
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise Unreachable(f"the connection is closed: {error}") from error

    def begin_to_beat(self) -> None:
        """Say again and again that we are there, until this end is closed."""
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        with suppress(Unreachable):
            while True:
                await asyncio.sleep(BEAT_SECONDS)
                await self.send({"do": "ping"})

    async def receive_beat(self) -> Message:
        """Return the next message of somebody who beats. Raises as `receive`, and Unreachable where none comes."""
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                return await self.receive()
        except TimeoutError as error:
            raise Unreachable(f"nothing came from it for {SILENCE_SECONDS:.0f} s") from error

    async def receive(self) -> Message:
        """Return the next message. Raises Unreachable at the end, and NotPermitted where a line is not the other's."""
        while True:
            line = await _read_line(self._reader)
            if self._key is None and not line.startswith(b"{"):
                continue  # what a login shell prints
            body = line if self._key is None else line[_CODE_BYTES:]
            code = self._code(self._directions[1], self._received, body)
            if not hmac.compare_digest(code, line[: len(code)]):
                raise NotPermitted("a message is not signed with the token")
            self._received += 1
            return _parse(body)

    @property
    def own_address(self) -> str:
        """The address of this end; empty where it is no socket."""
        name = self._writer.get_extra_info("sockname")
        return str(name[0]) if isinstance(name, tuple) else ""

    async def close(self) -> None:
        """Close this end; what the other end has not taken by then is dropped."""
        if self._beating is not None:
            self._beating.cancel()
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()

    def _code(self, direction: bytes, count: int, body: bytes) -> bytes:
        if self._key is None:
            return b""
        return _sign(self._key, direction + str(count).encode() + b" " + body).encode()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes) -> Channel:
    """Let a node prove that it knows the token; the coordinator's end. Raises NotPermitted, Unreachable."""
    nonce = secrets.token_hex(16)
    await _send_plain(writer, {"nonce": nonce})
    answer = _parse(await _read_line(reader, most=_MOST_GREETING_BYTES))
    theirs, proof = answer.get("nonce"), answer.get("proof")
    if not isinstance(theirs, str) or not isinstance(proof, str):
        raise NotPermitted("what connected is no node of this preflight")
    both = (nonce + theirs).encode()
    if not hmac.compare_digest(_sign(token, b"node" + both).encode(), proof.encode()):
        await _send_plain(writer, {"proof": ""})  # so that it need not guess why, nor try again
        raise AnotherToken("a node has another token")
    await _send_plain(writer, {"proof": _sign(token, b"coordinator" + both)})
    return Channel(reader, writer, key=_sign(token, b"key" + both).encode(), leads=True)


async def introduce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes) -> Channel:
    """Prove to the coordinator that this node knows the token, and have it prove the same. Raises as `greet` does."""
    nonce = _parse(await _read_line(reader, most=_MOST_GREETING_BYTES)).get("nonce")
    if not isinstance(nonce, str):
        raise NotPermitted("what listens there is no coordinator of a preflight")
    own = secrets.token_hex(16)
    both = (nonce + own).encode()
    await _send_plain(writer, {"nonce": own, "proof": _sign(token, b"node" + both)})
    proof = _parse(await _read_line(reader, most=_MOST_GREETING_BYTES)).get("proof")
    expected = _sign(token, b"coordinator" + both)
    if not isinstance(proof, str) or not hmac.compare_digest(expected.encode(), proof.encode()):
        raise NotPermitted("the coordinator has another token", advice=TOKEN_ADVICE)
    return Channel(reader, writer, key=_sign(token, b"key" + both).encode(), leads=False)


async def _send_plain(writer: asyncio.StreamWriter, message: Message) -> None:
    try:
        writer.write(json.dumps(message).encode() + b"\n")
        await writer.drain()
    except OSError as error:
        raise Unreachable(f"the connection is closed: {error}") from error


async def _read_line(reader: asyncio.StreamReader, *, most: int = MOST_LINE_BYTES) -> bytes:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        if len(error.partial) == 0:
            raise Unreachable("the connection is closed") from error
        raise NotPermitted("a message was cut off: is the token the same on all nodes?") from error
    except asyncio.LimitOverrunError as error:
        raise NotPermitted(f"a message is longer than {MOST_LINE_BYTES} bytes") from error
    except OSError as error:
        raise Unreachable(f"the connection is closed: {error}") from error
    if len(line) > most:
        raise NotPermitted(f"a message is longer than {most} bytes")
    return line[:-1]


def _parse(line: bytes) -> Message:
    try:
        value = load_json(line, most_bytes=_MOST_MEMORY)
    except (ValueError, RecursionError) as error:
        raise NotPermitted("a message is no JSON") from error
    if not isinstance(value, dict):
        raise NotPermitted("a message is no JSON object")
    return value


def _sign(key: bytes, text: bytes) -> str:
    return hmac.new(key, text, hashlib.sha256).hexdigest()
