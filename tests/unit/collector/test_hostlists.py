"""Host lists: what they mean, what is refused, and that no text takes long."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.hostlists import MOST_AGENTS, parse_host_names, parse_hostlist
from shared.errors import InvalidHostlist

URLS: tuple[tuple[str, list[str]], ...] = (
    ("node7", ["http://node7:8471"]),
    ("node7:9000", ["http://node7:9000"]),
    ("node[01-03]:8471", ["http://node01:8471", "http://node02:8471", "http://node03:8471"]),
    ("node[8-11]", ["http://node8:8471", "http://node9:8471", "http://node10:8471", "http://node11:8471"]),
    ("gpu[1,3-4]", ["http://gpu1:8471", "http://gpu3:8471", "http://gpu4:8471"]),
    ("r[1-2]n[1-2]", [f"http://r{r}n{n}:8471" for r in (1, 2) for n in (1, 2)]),
    ("a,b c\nd", [f"http://{name}:8471" for name in "abcd"]),
    ("a,b,a", ["http://a:8471", "http://b:8471"]),
    ("b,a", ["http://b:8471", "http://a:8471"]),
    ("https://agents.example.org/node1/", ["https://agents.example.org/node1"]),
    ("http://node[1-2]:80", ["http://node1:80", "http://node2:80"]),
    ("[::1]:9000", ["http://[::1]:9000"]),
    ("127.0.0.1:[8471-8472]", ["http://127.0.0.1:8471", "http://127.0.0.1:8472"]),
    ("Node1", ["http://node1:8471"]),
    (" , ,", []),
    ("", []),
)

REFUSED = (
    "node[1-", "node]", "node[[1]]", "node[3-1]", "node[a-b]", "node[]", "node[1-999999999]", "a[1-1000]b[1-1000]",
    "ftp://node1", "node1:0", "node1:65536", "node1:port", "user@node1", "http://user:pw@node1", "-rf", "node1/../x?y",
    "http://", "http:///x", "nöde", "node1#x",
)  # fmt: skip


@pytest.mark.parametrize(("text", "urls"), URLS)
def test_lists_mean(text: str, urls: list[str]) -> None:
    """A list gives its agents in its order, each once."""
    assert [address.url for address in parse_hostlist(text)] == urls


@pytest.mark.parametrize("text", REFUSED)
def test_nonsense_is_refused_with_a_quotation(text: str) -> None:
    """What is no host list is refused; the message quotes what was written."""
    with pytest.raises(InvalidHostlist, match="'"):
        parse_hostlist(text)


def test_agents_that_share_a_name_are_told_apart() -> None:
    """Two agents on one host are shown with their ports, others without."""
    hosts = [address.host for address in parse_hostlist("localhost:8471,localhost:8472,node1:9000")]
    assert hosts == ["localhost:8471", "localhost:8472", "node1"]


@pytest.mark.parametrize(
    "text",
    [
        f"node[1-{MOST_AGENTS + 1}]",
        ",".join(["node[1-100000]"] * 1000),
        "[" * 100_000,
        "node" + "[1-9]" * 1000,
        "node[" + ",".join(["1-9"] * 100_000) + "]",
        "a" * 9_000_000,
    ],
    ids=["too many", "repeated", "brackets", "product", "long range", "long text"],
)
def test_hostile_sizes_are_refused_quickly(text: str) -> None:
    """A short text that means very many agents costs nothing."""
    began = time.thread_time()
    with pytest.raises(InvalidHostlist):
        parse_hostlist(text)
    assert time.thread_time() - began < 30.0


@given(st.text(alphabet="abnode0123456789[]-,:./ h", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but our own error, and what is read has no repetitions."""
    try:
        found = parse_hostlist(text)
    except InvalidHostlist:
        return
    assert len({address.url for address in found}) == len(found)
    assert len({address.host for address in found}) == len(found)


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=30), st.integers(1, 6))
def test_ranges_and_single_names_mean_the_same(numbers: list[int], width: int) -> None:
    """Writing numbers in brackets or one by one is the same, leading zeros included."""
    names = [str(number).zfill(width) for number in numbers]
    in_brackets = parse_hostlist(f"node[{','.join(names)}]")
    one_by_one = parse_hostlist(" ".join(f"node{name}" for name in names))
    assert in_brackets == one_by_one


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[01-03],gpu7", ("node01", "node02", "node03", "gpu7")),
        ("alice@Node1 node1 node1", ("alice@Node1", "node1")),
        ("::1", ("::1",)),
        ("", ()),
    ],
)
def test_names_for_ssh_stay_as_written(text: str, names: tuple[str, ...]) -> None:
    """An alias of ssh may have capitals; users may stand before it, ports belong to its configuration."""
    assert parse_host_names(text) == names


@pytest.mark.parametrize(
    "text", ["-oProxyCommand=x", "a;b", "a:22", "http://a", "a[1-2", "a@-b", "a@b@c", "$(a)", "a\x00b"]
)
def test_what_is_no_name_never_reaches_ssh(text: str) -> None:
    """Least of all as an option."""
    with pytest.raises(InvalidHostlist):
        parse_host_names(text)
