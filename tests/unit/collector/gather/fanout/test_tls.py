"""TLS with agents: certificates that are believed or not, handshakes that fail, answers that break off."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path

import httpcore
import pytest

from collector.gather.failures import Again
from collector.gather.fanout.fanout import make_client
from shared.missing import Missing, Reason
from shared.server.tls import ClientTls, ServerTls, TlsFiles
from tests.build.agents.asking import GOOD, MOST, ask_agent, connect
from tests.build.agents.fake_agents import Handler, listening
from tests.build.agents.misbehaving import Seen, answer_of, answering_well
from tests.build.services.certificates import Authority


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
        listening(answer, _server(authority, "127.0.0.1", clients=authority)) as agent,
        make_client(tls=ClientTls(authority.files(mine))) as client,
    ):
        for _ in range(3):
            outcome = await ask_agent(agent.url, client=client)
            assert len(outcome.answered) == 1
    assert accepted == 1


REFUSED = {
    "other name": (("elsewhere.example", False), "TLS failed: the certificate is refused: IP address mismatch"),
    "expired": (("127.0.0.1", True), "TLS failed: the certificate is refused: certificate has expired"),
}


@pytest.mark.parametrize(("signed", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_certificates_that_are_not_believed(authority: Authority, signed: tuple[str, bool], words: str) -> None:
    name, expired = signed
    async with listening(_answer, _server(authority, name, expired=expired)) as agent:
        missing = await _why(agent.url, authority.files())
    assert missing.reason is Reason.UNREACHABLE
    assert missing.detail.startswith(words)


async def test_a_certificate_of_an_authority_that_nobody_knows(authority: Authority, tmp_path: Path) -> None:
    foreign = Authority(tmp_path / "foreign")
    async with listening(_answer, _server(foreign, "127.0.0.1")) as agent:
        missing = await _why(agent.url, authority.files())
        assert "TLS failed: the certificate is refused: unable to get local issuer certificate" in missing.detail
        assert "refused" in (await _why(agent.url, None)).detail


async def test_a_certificate_of_ours_that_is_not_believed(authority: Authority, tmp_path: Path) -> None:
    """What is seen of that is a connection that ends, or a reset: it is tried again once."""
    foreign = Authority(tmp_path / "foreign")
    own = foreign.sign("collector.example")
    async with listening(_answer, _server(authority, "127.0.0.1", clients=authority)) as agent:
        for files in (authority.files(), TlsFiles(own.certificate, own.key, authority.file)):
            missing = await _why(agent.url, files, again=[Again.BROKE_OFF])
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
    "is not waited for": (_speak_first, [], "TLS failed: the other side did not use TLS"),
    "is answered in plain HTTP": (_speak_http, [], "TLS failed: the other side did not use TLS"),
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
        async with asyncio.timeout(60.0):
            await seen_end.wait()


async def test_half_an_answer_over_tls(authority: Authority) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer_of(GOOD, length=len(GOOD) + 10))
        await writer.drain()

    async with listening(half, _server(authority, "127.0.0.1")) as agent:
        missing = await _why(agent.url, authority.files(), again=[Again.BROKE_OFF])
    assert "hung up" in missing.detail


async def test_a_large_answer_over_tls_is_read_with_pauses(authority: Authority) -> None:
    """Larger than what is taken without a reader."""

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * 3_000_000)
        await writer.drain()

    tls = ClientTls(authority.files()).context()
    async with listening(pour, _server(authority, "127.0.0.1")) as agent:
        connection = await connect("127.0.0.1", int(agent.host.split(":")[1]), tls, seconds=5.0)
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
    async with (
        listening(_answer, _server(authority, "127.0.0.1", clients=authority)) as agent,
        make_client(tls=ClientTls(authority.files(own))) as client,
    ):
        assert len((await ask_agent(agent.url, client=client)).silent) == 1
        authority.sign("collector.example", file="renewed")
        assert len((await ask_agent(agent.url, client=client)).answered) == 1


async def _why(url: str, files: TlsFiles | None, *, again: Sequence[Again] = ()) -> Missing:
    tried: list[Again] = []
    async with make_client(tls=None if files is None else ClientTls(files)) as client:
        outcome = await ask_agent(url, client=client, on_again=tried.append)
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
