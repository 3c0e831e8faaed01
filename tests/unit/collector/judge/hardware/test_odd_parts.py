"""All are stuck together: what their GPUs and ports tell, and whom they never accuse."""

from collections.abc import Mapping

import pytest

from shared.answer.diagnosis import Finding, GpuEvidence, PortEvidence
from shared.answer.words import Cause, Kind
from shared.wire.devices import Gpu, Port
from tests.build.jobs.four_ranks import looks_at_all_stuck
from tests.build.jobs.judged import judged
from tests.build.jobs.placed import gpu, telling

FOUR = {"a": "0", "b": "1", "c": "2", "d": "3"}
SPINS = {"utilization_percent": 100, "power_watts": 180.0, "usual_power_watts": 650.0, "spins": True}
COMPUTES = {"utilization_percent": 100, "power_watts": 640.0, "usual_power_watts": 650.0, "spins": False}
IDLE = {"utilization_percent": 0, "power_watts": 90.0, "usual_power_watts": 650.0, "spins": False}
AT_180, AT_330, AT_640 = (
    {"utilization_percent": 100, "power_watts": watts, "power_limit_watts": 700.0} for watts in (180.0, 330.0, 640.0)
)
"""Not watched for long enough to know what they usually draw."""


def found(*, gpus: Mapping[str, dict[str, object]] | None = None, ports: Mapping[str, Port] | None = None) -> Finding:
    """What is found of four ranks on four nodes, whose devices tell this."""
    looks = looks_at_all_stuck(hosts=FOUR)
    for rank, host in enumerate(FOUR):
        mine: list[Gpu] = [gpu(0, 1000 + rank, **gpus[host])] if gpus and host in gpus else []
        theirs = [ports[host]] if ports and host in ports else []
        looks = telling(looks, host, gpus=mine, ports=theirs)
    (finding,) = judged(looks).findings
    assert (finding.kind, finding.culprits) == (Kind.STUCK_TOGETHER, ())
    return finding


def port(**told: object) -> Port:
    """A port that is up."""
    return Port.model_validate({"name": "mlx5_0/1", "kind": "infiniband", "up": True, "state": "ACTIVE", **told})


DOWN = port(up=False, state="DOWN (Polling)")


@pytest.mark.parametrize(
    ("doing", "said"),
    [
        (SPINS, "all GPUs spin in a kernel, at a fraction of the power that computing takes"),
        (AT_180, "all GPUs spin in a kernel, at a fraction of the power that computing takes"),
        (IDLE, "all GPUs have nothing to do: the operation was never launched on the devices"),
        (SPINS | {"nvlink_moves": True}, "data still moves over the NVLinks of ranks 0-3"),
    ],
)
def test_what_all_gpus_do_tells_three_things_apart(doing: dict[str, object], said: str) -> None:
    """And nobody is odd, for all do the same."""
    finding = found(gpus=dict.fromkeys(FOUR, doing))
    assert any(said in remark for remark in finding.remarks)
    assert "suspected" not in finding.summary and finding.links == ()


def test_ports_that_still_carry_data() -> None:
    """It may be slow rather than stuck; an Ethernet interface carries anybody's data."""
    moving = found(ports={"a": port(sent_per_second=5e6)})
    assert "data still moves over mlx5_0/1 of a: the ranks may be slow rather than stuck" in moving.remarks
    other = found(ports={"a": Port(name="eth0", kind="ethernet", sent_per_second=5e9)})
    assert not any("moves" in remark for remark in other.remarks)


@pytest.mark.parametrize(
    ("others", "doing", "said"),
    [
        (SPINS, IDLE, "has nothing to do"),
        (SPINS, COMPUTES, "still computes"),
        (AT_180, IDLE, "has nothing to do"),
        (AT_180, AT_640, "still computes"),
    ],
)
def test_the_one_gpu_that_does_not_spin(others: dict[str, object], doing: dict[str, object], said: str) -> None:
    """What the others wait for is there: suspected, and no rank is accused."""
    finding = found(gpus=dict.fromkeys(FOUR, others) | {"c": doing})
    assert f"suspected: GPU 0 of c, on which rank 2 runs, {said} while those of all others spin" in finding.summary
    (evidence,) = (each for each in finding.evidence if isinstance(each, GpuEvidence))
    assert (evidence.host, evidence.ranks) == ("c", "2")


@pytest.mark.parametrize(
    "gpus",
    [
        {"a": SPINS, "b": SPINS, "c": IDLE, "d": IDLE},
        {"a": SPINS, "b": SPINS, "c": IDLE},
        {"a": SPINS, "b": SPINS, "d": SPINS},
        {"a": SPINS, "b": SPINS, "c": {"utilization_percent": 40}, "d": SPINS},
        {"a": COMPUTES, "b": COMPUTES, "c": IDLE, "d": COMPUTES},
        {"a": AT_180, "b": AT_180, "c": AT_330, "d": AT_180},
        {"a": AT_330, "b": AT_330, "c": IDLE, "d": AT_330},
    ],
)
def test_gpus_of_which_none_is_odd(gpus: Mapping[str, dict[str, object]]) -> None:
    """Two unlike the others, one that nobody read, one that is neither idle nor busy, others that do not spin."""
    finding = found(gpus=gpus)
    assert "suspected" not in finding.summary and finding.cause is Cause.UNKNOWN


FAILING = port(errors={"symbol_error": 400, "link_error_recovery": 3})


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (DOWN, "port mlx5_0/1 is down (DOWN (Polling)) on b alone"),
        (FAILING, "errors of port mlx5_0/1 grow (symbol_error by 400, link_error_recovery by 3) on b alone"),
    ],
)
def test_port_that_is_unlike_the_others(odd: Port, said: str) -> None:
    """The link is told with both ends, of which one is not known; the rank is no culprit."""
    finding = found(ports=dict.fromkeys(FOUR, port()) | {"b": odd})
    assert finding.summary.endswith(f"suspected: {said}") and finding.cause is Cause.NETWORK
    ((link),) = finding.links
    assert (link.from_.host, link.to.host, link.interface) == ("b", None, "mlx5_0/1")
    (evidence,) = (each for each in finding.evidence if isinstance(each, PortEvidence))
    assert (evidence.host, evidence.port, evidence.ranks) == ("b", "mlx5_0/1", "1")


@pytest.mark.parametrize(
    "ports",
    [
        dict.fromkeys(FOUR, DOWN),
        {"a": port(), "b": DOWN, "c": DOWN, "d": port()},
        {"a": port(), "b": DOWN},
        {"b": DOWN},
        {"b": port(up=False, went_down=1)},
        dict.fromkeys(FOUR, FAILING),
        dict.fromkeys(FOUR, port()) | {"b": port(errors={"symbol_error": 9})},
        dict.fromkeys(FOUR, port()) | {"b": port(errors={"local_ack_timeout_err": 5_000})},
        dict.fromkeys(FOUR, port(errors={"symbol_error": 100})) | {"b": FAILING},
        dict.fromkeys(FOUR, Port(name="mlx5_1/1", kind="infiniband", up=True)) | {"b": DOWN},
    ],
)
def test_ports_of_which_none_is_odd(ports: Mapping[str, Port]) -> None:
    """What is common, what has no likes, a few errors, and errors that either end of a path may have."""
    finding = found(ports=ports)
    assert "suspected" not in finding.summary and (finding.cause, finding.links) == (Cause.UNKNOWN, ())


def test_port_that_went_down_while_it_was_watched() -> None:
    """That is enough where there are but two nodes."""
    finding = found(ports={"a": port(), "b": port(up=False, went_down=1)})
    assert "suspected: port mlx5_0/1 is down (ACTIVE) on b alone" in finding.summary
