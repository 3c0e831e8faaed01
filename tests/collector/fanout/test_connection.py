"""Connections that are refused, lead nowhere, break off or are given up; names with several addresses; and TLS."""

import asyncio
import errno
import gc
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpcore
import pytest

from collector.failures import Again
from collector.fanout import Deadline, Fanout, Request, Round, make_client
from collector.fanout.connection import Backend
from collector.hostlists import AgentAddress
from shared.missing import Missing, Reason
from shared.snapshot import RankList
from shared.tls import ClientTls, ServerTls, TlsFiles
from tests.collector.fake_agents import Handler, listening
from tests.collector.misbehaving import (
    Seen,
    answer_of,
    answering_well,
    behaving,
    dropping_packets,
    pouring,
    say_nothing,
)
from tests.shared.certificates import Authority

GOOD = RankList(host="node1").model_dump_json().encode()
MOST = 65_536


def sockets() -> int:
    """How many sockets are open in this process."""
    gc.collect()
    kinds = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(kind.startswith("socket:") for kind in kinds)


async def connect(host: str, port: int, tls: ssl.SSLContext | None, *, seconds: float) -> httpcore.AsyncNetworkStream:
    """Connect as httpcore does."""
    stream = await Backend().connect_tcp(host, port, timeout=seconds)
    return stream if tls is None else await stream.start_tls(tls, server_hostname=host, timeout=seconds)


async def test_a_connection_that_is_refused_tells_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(httpcore.ConnectError) as refused:
        await connect("127.0.0.1", port, None, seconds=5.0)
    assert isinstance(refused.value.__cause__, OSError)
    assert refused.value.__cause__.errno == errno.ECONNREFUSED


async def test_a_connection_is_tried_again_where_httpcore_is_told_to() -> None:
    """A backend waits before that."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with httpcore.AsyncConnectionPool(network_backend=Backend(), retries=2) as pool:
        began = time.monotonic()
        with pytest.raises(httpcore.ConnectError):
            await pool.request("GET", f"http://127.0.0.1:{port}/")
        assert time.monotonic() - began >= 0.5


@pytest.mark.parametrize("way", ["time", "cancelled"])
async def test_a_connection_that_leads_nowhere_is_given_up_and_closed(way: str) -> None:
    with dropping_packets(1) as (dead,):
        before, began = sockets(), time.monotonic()
        host, port = dead.host.split(":")
        seconds = 0.5 if way == "time" else 60.0
        asked = asyncio.create_task(connect(host, int(port), None, seconds=seconds))
        await asyncio.sleep(0.2)
        assert sockets() == before + 1
        if way == "cancelled":
            asked.cancel()
        with pytest.raises(httpcore.ConnectTimeout if way == "time" else asyncio.CancelledError):
            await asked
        assert time.monotonic() - began < 10.0
        assert sockets() == before


async def test_who_reads_may_go_away_and_come_back() -> None:
    """Nothing that came meanwhile is lost."""

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        await asyncio.sleep(0.4)
        writer.write(b"there")
        await reader.read()

    async with listening(late) as address:
        connection = await _to(address)
        await connection.write(b"hi")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await connection.read(MOST)
        with pytest.raises(httpcore.ReadTimeout):
            await connection.read(MOST, timeout=0.1)
        await asyncio.sleep(0.4)
        assert connection.get_extra_info("is_readable")
        assert await connection.read(3) == b"the"
        assert await connection.read(MOST) == b"re"
        assert not connection.get_extra_info("is_readable")
        await connection.aclose()
        assert connection.get_extra_info("is_readable")


async def test_what_broke_off_is_read_up_to_there() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half")
        await reader.read(2)
        linger_not = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)

    async with listening(break_off) as address:
        connection = await _to(address)
        await asyncio.sleep(0.1)
        await connection.write(b"go")
        await asyncio.sleep(0.1)
        assert await connection.read(MOST) == b"half"
        for _ in range(2):
            with pytest.raises(httpcore.ReadError) as broken:
                await connection.read(MOST)
            assert isinstance(broken.value.__cause__, ConnectionResetError)
        with pytest.raises(httpcore.WriteError):
            await connection.write(b"into the void")
        await connection.aclose()


async def test_the_end_is_read_as_often_as_one_likes() -> None:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all")

    async with listening(end) as address:
        connection = await _to(address)
        assert [await connection.read(MOST) for _ in range(3)] == [b"all", b"", b""]


async def test_who_pours_is_made_to_wait_for_the_reader() -> None:
    """Little is taken that nobody has read, and all of it arrives."""
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(400):
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    async with listening(pour) as address:
        connection = await _to(address)
        await asyncio.sleep(0.5)
        assert sent < 20_000_000
        came = 0
        while piece := await connection.read(MOST):
            assert len(piece) <= MOST
            came += len(piece)
        assert came == 400 * 65_536


async def test_who_pours_does_not_hold_up_the_others() -> None:
    """While one connection is read without an end, everything else goes on."""
    async with behaving(pouring(b"x" * 1_000_000)) as agent:
        connection = await _to(agent.address)

        async def read_on() -> None:
            while await connection.read(MOST):
                pass

        reading = asyncio.create_task(read_on())
        began = time.monotonic()
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert time.monotonic() - began < 5.0
        reading.cancel()
        await asyncio.wait({reading})
        await connection.aclose()


async def test_small_questions_are_sent_at_once() -> None:
    """Without Nagle's delay: over TLS a question follows a part of the handshake that nobody acknowledges."""
    async with behaving(say_nothing) as agent:
        connection = await _to(agent.address)
        assert connection.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await connection.aclose()


async def test_an_ipv6_address() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with behaving(answering_well(GOOD), listener=listener) as agent:
        outcome = await _ask(f"http://[::1]:{agent.port}")
    assert len(outcome.answered) == 1


async def test_a_name_with_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One refuses, one leads nowhere, one answers: that one is taken, and all others closed."""
    async with behaving(say_nothing) as agent:
        with dropping_packets(1) as (dead,):
            await _named(monkeypatch, _refusing(), dead, agent.address)
            before = sockets()
            connection = await connect("node1", 1, None, seconds=10.0)
            assert connection.get_extra_info("server_addr")[1] == agent.port
            await asyncio.sleep(0.2)
            assert sockets() == before + 2, "one at each end"
            await connection.aclose()


async def test_a_name_none_of_whose_addresses_takes_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    await _named(monkeypatch, _refusing(), _refusing())
    outcome = await _ask("http://node1:1")
    assert outcome.silent[0].missing.detail == "the connection was refused: no agent listens there"


async def test_a_name_whose_addresses_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with dropping_packets(3) as dead:
        await _named(monkeypatch, *dead)
        before = sockets()
        with pytest.raises(httpcore.ConnectTimeout):
            await connect("node1", 1, None, seconds=1.0)
        await asyncio.sleep(0.1)
        assert sockets() == before


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


async def test_tls_with_certificates_of_both_sides(authority: Authority) -> None:
    """The connection is kept, as any is."""
    mine, accepted = authority.sign("collector.example"), 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await answering_well(GOOD)(Seen(), reader, writer)

    async with (
        _over_tls(answer, _server(authority, "127.0.0.1", clients=authority)) as port,
        make_client(tls=ClientTls(authority.files(mine))) as client,
    ):
        for _ in range(3):
            outcome = await _ask(f"https://127.0.0.1:{port}", client=client)
            assert len(outcome.answered) == 1
    assert accepted == 1


REFUSED = {
    "other name": (("elsewhere.example", False), "TLS failed: the certificate is refused: IP address mismatch"),
    "expired": (("127.0.0.1", True), "TLS failed: the certificate is refused: certificate has expired"),
}


@pytest.mark.parametrize(("signed", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_certificates_that_are_not_believed(authority: Authority, signed: tuple[str, bool], words: str) -> None:
    name, expired = signed
    async with _over_tls(_answer, _server(authority, name, expired=expired)) as port:
        missing = await _why(f"https://127.0.0.1:{port}", authority.files())
    assert missing.reason is Reason.UNREACHABLE
    assert missing.detail.startswith(words)


async def test_a_certificate_of_an_authority_that_nobody_knows(authority: Authority, tmp_path: Path) -> None:
    foreign = Authority(tmp_path / "foreign")
    async with _over_tls(_answer, _server(foreign, "127.0.0.1")) as port:
        missing = await _why(f"https://127.0.0.1:{port}", authority.files())
        assert "TLS failed: the certificate is refused: unable to get local issuer certificate" in missing.detail
        assert "refused" in (await _why(f"https://127.0.0.1:{port}", None)).detail


async def test_a_certificate_of_ours_that_is_not_believed(authority: Authority, tmp_path: Path) -> None:
    """What is seen of that is a connection that ends, or a reset: it is tried again once."""
    foreign = Authority(tmp_path / "foreign")
    own = foreign.sign("collector.example")
    async with _over_tls(_answer, _server(authority, "127.0.0.1", clients=authority)) as port:
        for files in (authority.files(), TlsFiles(own.certificate, own.key, authority.file)):
            missing = await _why(f"https://127.0.0.1:{port}", files, again=[Again.BROKE_OFF])
            assert "hung up: does it accept our certificate" in missing.detail or "reset" in missing.detail


async def _eof(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    linger_not = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)


async def _speak_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    await reader.read(10)


async def _speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(answer_of(b"", status="400 Bad Request"))


HANDSHAKES: dict[str, tuple[Handler, Sequence[Again], str]] = {
    "ends": (_eof, [], "TLS failed: the connection broke off in the handshake"),
    "is reset": (_reset, [Again.BROKE_OFF], "the connection was reset"),
    "is not waited for": (_speak_first, [], "TLS failed: something else than TLS was spoken"),
    "is answered in plain HTTP": (_speak_http, [], "TLS failed: something else than TLS was spoken"),
}


@pytest.mark.parametrize(("handler", "again", "words"), HANDSHAKES.values(), ids=HANDSHAKES.keys())
async def test_handshake_that(authority: Authority, handler: Handler, again: Sequence[Again], words: str) -> None:
    async with listening(handler) as address:
        url = address.url.replace("http:", "https:")
        assert (await _why(url, authority.files(), again=again)).detail == words


@pytest.mark.parametrize("way", ["time", "cancelled"])
async def test_a_handshake_that_nobody_answers_is_given_up_and_closed(authority: Authority, way: str) -> None:
    seen_end = asyncio.Event()

    async def say_nothing_at_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        seen_end.set()

    tls = ClientTls(authority.files()).context()
    async with listening(say_nothing_at_all) as address:
        host, port = address.host.split(":")
        asked = asyncio.create_task(connect(host, int(port), tls, seconds=0.5 if way == "time" else 60.0))
        await asyncio.sleep(0.2)
        if way == "cancelled":
            asked.cancel()
        with pytest.raises(httpcore.ConnectTimeout if way == "time" else asyncio.CancelledError):
            await asked
        async with asyncio.timeout(5.0):
            await seen_end.wait()


async def test_half_an_answer_over_tls(authority: Authority) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer_of(GOOD, length=len(GOOD) + 10))
        await writer.drain()

    async with _over_tls(half, _server(authority, "127.0.0.1")) as port:
        missing = await _why(f"https://127.0.0.1:{port}", authority.files(), again=[Again.BROKE_OFF])
    assert "hung up" in missing.detail


async def test_a_large_answer_over_tls_is_read_with_pauses(authority: Authority) -> None:
    """Larger than what is taken without a reader."""

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 3_000_000)
        await writer.drain()

    tls = ClientTls(authority.files()).context()
    async with _over_tls(pour, _server(authority, "127.0.0.1")) as port:
        connection = await connect("127.0.0.1", port, tls, seconds=5.0)
        assert connection.get_extra_info("ssl_object").version() == "TLSv1.3"
        await asyncio.sleep(0.3)
        came = 0
        while piece := await connection.read(MOST):
            came += len(piece)
        assert came == 3_000_000
        await connection.aclose()


async def test_a_renewed_certificate_is_used_for_the_next_connection(authority: Authority) -> None:
    """Files are looked at before each question."""
    own = authority.sign("collector.example", file="renewed", expired=True)
    async with _over_tls(_answer, _server(authority, "127.0.0.1", clients=authority)) as port:
        url = f"https://127.0.0.1:{port}"
        async with make_client(tls=ClientTls(authority.files(own))) as client:
            assert len((await _ask(url, client=client)).silent) == 1
            authority.sign("collector.example", file="renewed")
            assert len((await _ask(url, client=client)).answered) == 1


async def _to(address: AgentAddress) -> httpcore.AsyncNetworkStream:
    host, port = address.host.split(":")
    return await connect(host, int(port), None, seconds=5.0)


async def _ask(url: str, *, client: Any = None, again: list[Again] | None = None) -> Round[RankList]:
    request = Request(AgentAddress(host="node1", url=url), "/v1/ranks", {})
    if client is None:
        async with make_client() as client:
            return await _ask(url, client=client)
    fanout = Fanout(client, on_again=None if again is None else again.append)
    return await fanout.ask([request], RankList, deadline=Deadline.within(20.0))


async def _why(url: str, files: TlsFiles | None, *, again: Sequence[Again] = ()) -> Missing:
    tried: list[Again] = []
    async with make_client(tls=None if files is None else ClientTls(files)) as client:
        outcome = await _ask(url, client=client, again=tried)
    assert tried == list(again)
    return outcome.silent[0].missing


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(answer_of(GOOD))
    await writer.drain()


def _server(
    authority: Authority, name: str, *, clients: Authority | None = None, expired: bool = False
) -> ssl.SSLContext:
    signed = authority.sign(name, file=f"{name}-{expired}", expired=expired)
    return ServerTls(TlsFiles(signed.certificate, signed.key, None if clients is None else clients.file)).context()


@asynccontextmanager
async def _over_tls(handle: Handler, context: ssl.SSLContext) -> AsyncIterator[int]:
    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def _refusing() -> AgentAddress:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    return AgentAddress(host=f"127.0.0.1:{port}", url=f"http://127.0.0.1:{port}")


async def _named(monkeypatch: pytest.MonkeyPatch, *addresses: AgentAddress) -> None:
    """Let every name have these addresses, ports included."""
    pairs = [address.host.split(":") for address in addresses]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, int(port))) for host, port in pairs]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
