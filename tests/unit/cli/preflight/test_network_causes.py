"""What connections came to, and which one cause that is; what the kernel counts of a real one."""

import pytest

from cli.preflight.reach import Listeners, Reached, Target, reach_all
from cli.preflight.stages.network_causes import Flow, cause_of, is_lossy

PORTS = tuple(range(40_000, 40_008))
LATE = "2097152 bytes did not arrive within 3 s"
LOST = Reached(arrived=2, sent=40, resent=9, large=LATE, largest=1000)
DROPS = Reached(arrived=490, sent=700, resent=210, large=LATE, largest=1300)
SLOW = Reached(arrived=1450, sent=1450, trip_seconds=0.2)
CLOSED = dict.fromkeys(PORTS[::2], "no answer within 3 s")
NOTHING = Reached(failed=dict.fromkeys(PORTS, "no answer within 3 s"))


@pytest.mark.parametrize(
    ("to_it", "from_it", "text", "detail"),
    [
        (LOST, LOST, "exchanges nothing large", "full packets are lost, packets of 1000 bytes arrive; its MTU is 9000"),
        (LOST, Reached(sent=1450), "exchanges nothing large", "full packets to it are lost"),
        (DROPS, Reached(sent=1450), "loses packets", "30 % of the packets to it are lost, 0 % in good pairs"),
        (Reached(sent=1450, resent=15), Reached(sent=1450, resent=14), "loses packets", "1 % of the packets are lost"),
        (Reached(failed=CLOSED, sent=1450), Reached(sent=1450), "answers on some ports only", "4 of 8 ports to it"),
        (Reached(large=LATE, sent=90), Reached(sent=1450), "exchanges nothing large", "2097152 bytes to it"),
        (SLOW, SLOW, "is slow", "an answer takes 200 ms, 0.1 ms in good pairs"),
        (NOTHING, NOTHING, "neither reaches others nor is reached", ""),
        (NOTHING, Reached(sent=1450), "cannot be reached", ""),
        (Reached(sent=1450), NOTHING, "does not reach others", ""),
    ],
)
def test_causes(to_it: Reached, from_it: Reached, text: str, detail: str) -> None:
    """Each with evidence that names the address and the ports."""
    cause = cause_of(
        [
            Flow("eth1", "n1", "n3", "10.0.0.3", len(PORTS), to_it, 0.0, 0.0001, is_to_it=True, mtu=9000),
            Flow("eth1", "n3", "n1", "10.0.0.1", len(PORTS), from_it, 0.0, 0.0001, is_to_it=False, mtu=9000),
        ]
    )
    assert cause.text == text
    assert cause.detail.startswith(detail) and bool(cause.detail) is bool(detail)
    assert cause.evidence and all(line.startswith("eth1, n") and "(10.0.0." in line for line in cause.evidence)
    assert cause.is_silence is (not detail)


@pytest.mark.parametrize(
    ("sent", "resent", "usual", "lossy"),
    [
        (1450, 15, 0.0, True),
        (1450, 3, 0.0, False),
        (1450, 15, 0.009, False),
        (20_000, 15, 0.0, False),
        (0, 0, 0.0, False),
    ],
)
def test_what_is_much_loss(sent: int, resent: int, usual: float, lossy: bool) -> None:
    """Beside the other pairs: where all lose as much, it is no node's."""
    assert is_lossy(Reached(sent=sent, resent=resent), usual) is lossy


async def test_a_real_connection_and_a_closed_port() -> None:
    """Much arrives, packets are counted, nothing is lost; which of two ports does not answer is told."""
    listeners = Listeners()
    try:
        port, other = await listeners.open("127.0.0.1", 0), await listeners.open("127.0.0.1", 0)
        assert isinstance(port, int) and isinstance(other, int)
        whole = Target(path="lo", address="127.0.0.1", ports=(port, other), own="127.0.0.1")
        reached = (await reach_all([whole]))["lo"]
        assert (reached.failed, reached.large, reached.resent) == ({}, "", 0)
        assert reached.sent > 10 and reached.arrived > 10 and 0 < reached.seconds < 3
        some = (await reach_all([whole.model_copy(update={"ports": (port, 1)})]))["lo"]
        assert list(some.failed) == [1] and not some.large
    finally:
        await listeners.close()
