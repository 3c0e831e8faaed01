"""A sign-in holds for its time, for its token, and for requests of our own pages."""

import pytest
from starlette.requests import Request

from shared.server.sessions import SECONDS, cookie_of, is_for_people, local_target, new_cookie, token_of_cookie

NOW = 1_800_000_000.0
TOKENS = (b"one", b"other")


def request(method: str = "GET", path: str = "/", **headers: str) -> Request:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": path, "headers": given})


def test_a_cookie_is_good_for_its_token_and_time() -> None:
    cookie = new_cookie(b"other", now=NOW)
    assert token_of_cookie(cookie, TOKENS, now=NOW) == b"other"
    assert token_of_cookie(cookie, TOKENS, now=NOW + SECONDS - 1) == b"other"
    assert token_of_cookie(cookie, TOKENS, now=NOW + SECONDS + 1) is None
    assert token_of_cookie(cookie, TOKENS[:1], now=NOW) is None, "its token is out of the file"


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        ".",
        "x",
        "1800000000",
        "1800003600.",
        "1800003600.00",
        "9999999999999.0",
        "-1.0",
        "１８.0",
        "1" * 5000,
        "1.é",
    ],
)
def test_what_was_not_made_here_is_nothing(cookie: str) -> None:
    assert token_of_cookie(cookie, TOKENS, now=NOW) is None


def test_nobody_prolongs_a_cookie() -> None:
    until, _, code = new_cookie(b"one", now=NOW).partition(".")
    assert token_of_cookie(f"{int(until) + 1}.{code}", TOKENS, now=NOW) is None
    later = new_cookie(b"one", now=NOW + 10 * SECONDS)
    assert token_of_cookie(later, TOKENS, now=NOW) is None, "nobody here gives one for that long"


def test_a_change_counts_only_where_a_page_sends_it() -> None:
    """Which page is compared before, in the check of origins."""
    cookie = "unhang_session=1.2"
    assert cookie_of(request(cookie=cookie)) == "1.2"
    assert cookie_of(request("POST", cookie=cookie)) is None
    assert cookie_of(request("POST", cookie=cookie, origin="http://localhost")) == "1.2"
    assert cookie_of(request("POST", cookie=cookie, sec_fetch_site="same-origin")) == "1.2"


@pytest.mark.parametrize(
    ("path", "accept", "expected"),
    [
        ("/", "text/html,*/*;q=0.8", True),
        ("/diagnoses/1", "text/html", True),
        ("/v1/diagnoses/1", "text/html", False),
        ("/metrics", "text/html", False),
        ("/", "application/json", False),
    ],
)
def test_programs_are_not_sent_to_a_form(path: str, accept: str, expected: bool) -> None:
    assert is_for_people(request(path=path, accept=accept)) is expected


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "", "/a\nb", "/é"])
def test_signing_in_leads_back_and_nowhere_else(path: str) -> None:
    assert local_target(path) == "/"
    assert local_target("/diagnoses?job=a%20b&node=c") == "/diagnoses?job=a%20b&node=c"
