"""Answers that never end, come too slowly, or are cut: each costs its own part alone, in time, and is told plainly."""

import gzip
import re
import time
import tracemalloc

import pytest

from collector.gather.fanout.fanout import Fanout, make_client
from collector.gather.fanout.values import Request, RequestDeadline
from shared.missing import Missing, Reason
from shared.wire.snapshot import RankList
from tests.build.agents.misbehaving import Behaviour, answer_of, answering_well, behaving, pouring, sending, trickling
from tests.build.processes.waiting import undisturbed

GOOD = RankList(host="node1").model_dump_json().encode()
_OK = b"HTTP/1.1 200 OK\r\n"
_ZIPPED = b"Content-Encoding: gzip\r\n"
_LONG_NAME = b"\x1f\x8b\x08\x08\0\0\0\0\0\xff"
"""The head of a gzip file whose name never ends."""


async def why(behaviour: Behaviour, *, seconds: float) -> Missing:
    """Ask an agent that behaves so, beside a good one; return why it gave nothing."""
    async with behaving(behaviour) as bad, behaving(answering_well(GOOD)) as good, make_client() as client:
        fanout = Fanout(client, most_bytes=1_000_000)
        requests = [Request(each.address, "/v1/ranks", {}) for each in (bad, good)]
        outcome = await undisturbed(lambda: fanout.ask(requests, RankList, deadline=RequestDeadline.within(seconds)))
        assert [answer.address for answer in outcome.answered] == [good.address]
        return outcome.silent[0].missing


ENDLESS: dict[str, tuple[Behaviour, Reason, str]] = {
    "header": (
        sending(_OK + b"X-Long: ", then=pouring(b"x" * 65_536)),
        Reason.UNREADABLE,
        "does not speak HTTP",
    ),
    "headers": (sending(_OK, then=pouring(b"X-One: more\r\n" * 5000)), Reason.UNREADABLE, "does not speak HTTP"),
    "plain body": (sending(_OK + b"\r\n", then=pouring(b" " * 65_536)), Reason.REFUSED, "larger than 1000000 bytes"),
    "chunks": (
        sending(_OK + b"Transfer-Encoding: chunked\r\n\r\n", then=pouring(b"4000\r\n%b\r\n" % (b" " * 0x4000))),
        Reason.REFUSED,
        "larger than 1000000 bytes",
    ),
    "crumbs": (
        sending(_OK + b"Transfer-Encoding: chunked\r\n\r\n", then=pouring(b"4\r\nabcd\r\n" * 5000)),
        Reason.REFUSED,
        "in too small pieces",
    ),
    "name of the compressed": (
        sending(_OK + _ZIPPED + b"\r\n" + _LONG_NAME, then=pouring(b"n" * 65_536)),
        Reason.REFUSED,
        "larger than 1000000 bytes",
    ),
    "after the end of the compressed": (
        sending(_OK + _ZIPPED + b"\r\n" + gzip.compress(GOOD), then=pouring(b"n" * 65_536)),
        Reason.UNREADABLE,
        "continues after its end",
    ),
    "empty files, compressed": (
        sending(_OK + _ZIPPED + b"\r\n", then=pouring(gzip.compress(b"") * 3000)),
        Reason.UNREADABLE,
        "continues after its end",
    ),
}


@pytest.mark.parametrize(("behaviour", "reason", "words"), ENDLESS.values(), ids=ENDLESS.keys())
async def test_what_never_ends_is_cut_short(behaviour: Behaviour, reason: Reason, words: str) -> None:
    """As soon as it is too much, long before the deadline, and without keeping it in memory."""
    began = time.monotonic()
    tracemalloc.start()
    try:
        missing = await why(behaviour, seconds=60.0)
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert missing.reason is reason
    assert words in missing.detail
    assert time.monotonic() - began < 30.0
    assert most_bytes < 30_000_000


async def test_promises_to_go_on_do_not_move_the_deadline() -> None:
    """A server may say 100 Continue for ever."""
    flood = sending(b"", then=pouring(b"HTTP/1.1 100 Continue\r\n\r\n" * 50))
    missing = await why(flood, seconds=0.3)
    assert missing.reason is Reason.TIMED_OUT


TRICKLES: dict[str, tuple[Behaviour, str]] = {
    "head": (trickling(_OK + b"X-Slow: yes\r\n"), "no answer within {} s"),
    "body": (
        sending(_OK + b"Content-Length: 1000\r\n\r\n", then=trickling(b" ")),
        "the answer was not complete within {} s: ",
    ),
    "nothing after the head": (
        sending(_OK + b"Content-Length: 1000\r\n\r\n", then=trickling(b" ", every_seconds=100)),
        "the answer was not complete within {} s: ",
    ),
    "compressed": (
        sending(_OK + _ZIPPED + b"\r\n" + gzip.compress(GOOD)[:20], then=trickling(b"\0", every_seconds=100)),
        "the answer was not complete within {} s: ",
    ),
}


@pytest.mark.parametrize(("behaviour", "words"), TRICKLES.values(), ids=TRICKLES.keys())
async def test_what_trickles_is_given_up_at_the_deadline(behaviour: Behaviour, words: str) -> None:
    """However often something comes; and how much came is told, and how long was waited for it in truth."""
    began = time.monotonic()
    missing = await why(behaviour, seconds=1.5)
    took_seconds = time.monotonic() - began
    said = re.match(re.escape(words).replace(r"\{\}", r"(\d+\.\d)"), missing.detail)
    assert said is not None, missing.detail
    assert 1.0 <= float(said[1]) <= took_seconds + 0.1
    assert took_seconds < 60.0


CUT: dict[str, tuple[Behaviour, str]] = {
    "body": (sending(answer_of(GOOD, length=len(GOOD) + 10)), "broke off"),
    "chunk": (sending(_OK + b"Transfer-Encoding: chunked\r\n\r\n100\r\n" + GOOD), "broke off"),
    "between chunks": (
        sending(_OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(GOOD), GOOD)),
        "broke off",
    ),
    "compressed": (sending(answer_of(gzip.compress(GOOD)[:-12], headers=_ZIPPED.decode())), "no end"),
    "compressed, its checksum": (sending(answer_of(gzip.compress(GOOD)[:-4], headers=_ZIPPED.decode())), "no end"),
    "head": (sending(b"HTTP/1.1 200 OK\r\nContent-Len"), "broke off"),
}


@pytest.mark.parametrize(("behaviour", "words"), CUT.values(), ids=CUT.keys())
async def test_half_an_answer_is_none(behaviour: Behaviour, words: str) -> None:
    """Though its JSON may be whole: what was to follow is not known."""
    missing = await why(behaviour, seconds=20.0)
    assert missing.reason in (Reason.UNREADABLE, Reason.UNREACHABLE)
    assert words in missing.detail


async def test_a_compressed_answer_without_a_length_is_read_to_its_end() -> None:
    """Where the connection's end is the answer's, its compression tells whether it is whole."""
    whole = sending(_OK + _ZIPPED + b"Connection: close\r\n\r\n" + gzip.compress(GOOD))
    async with behaving(whole) as agent, make_client() as client:
        request = Request(agent.address, "/v1/ranks", {})
        outcome = await Fanout(client).ask([request], RankList, deadline=RequestDeadline.within(20.0))
    assert outcome.answered[0].value.host == "node1"
