"""What lines of the kernel tell, one of each kind, beside those that healthy nodes print as well."""

import time
import tomllib
from pathlib import Path

import pytest

from shared.formats.kernel_lines import KERNEL_MATCHERS, read_kernel_frame, read_kernel_line
from shared.wire.kernel_events import KernelEvent, KernelEventKind

_LINES = tomllib.loads(Path(__file__).with_name("kernel_lines.toml").read_text())
TELLING = [(row["line"], row["fields"] | dict.fromkeys(row.get("unset", ()))) for row in _LINES["telling"]]


@pytest.mark.parametrize(("text", "told"), TELLING, ids=[text[:50] for text, _ in TELLING])
def test_lines_that_tell(text: str, told: dict[str, object]) -> None:
    """Kind, process, device and number, whatever the driver's version."""
    event = read_kernel_line(text)
    assert event is not None
    assert {name: getattr(event, name) for name in told} == told
    assert event.text == text[:300]


@pytest.mark.parametrize("text", _LINES["healthy"])
def test_lines_that_healthy_nodes_print_too(text: str) -> None:
    """They accuse nobody."""
    assert read_kernel_line(text) is None


def test_every_row_is_met_by_a_line() -> None:
    """A row that nothing tests is a row that nobody can trust."""
    met = {row.pattern for row in KERNEL_MATCHERS for text, _ in TELLING if row.pattern.search(text)}
    unmet = [row.pattern.pattern for row in KERNEL_MATCHERS if row.pattern not in met]
    assert len(unmet) <= 3, unmet


@pytest.mark.parametrize(
    "text",
    [
        *(row.hint * 400 for row in KERNEL_MATCHERS),
        "NVRM: Xid (PCI:" + "0" * 5000,
        "INFO: task " + "a:1 blocked for more than " * 300,
        "mlx5_core 0000:5e:00.0 " + "a" * 3000 + ": Link",
        "\x00\x1b[31m" * 500,
    ],
)
def test_hostile_lines_take_no_time(text: str) -> None:
    """A process may name itself as it likes, and the kernel prints that name."""
    begun = time.thread_time()
    event = read_kernel_line(text)
    assert time.thread_time() - begun < 0.05
    assert event is None or len(event.text) <= 300


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (" __mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]", "__mlx5_ib_dereg_mr+0x379/0x5d0 [mlx5_ib]"),
        ("schedule+0x47/0x130", "schedule+0x47/0x130"),
        (" os_acquire_semaphore+0x4c/0x60 [nvidia]", "os_acquire_semaphore+0x4c/0x60 [nvidia]"),
        (" [<ffffffff8168994f>] mutex_lock+0x1f/0x2f", "mutex_lock+0x1f/0x2f"),
        (" ? lock_release+0xc6/0x280", None),
        (" [<ffffffff8168994f>] ? mutex_lock+0x1f/0x2f", None),
        (" <TASK>", None),
        ("Call Trace:", None),
        ("RIP: 0033:0x7f0000000000", None),
    ],
)
def test_frames_of_the_kernel(text: str, frame: str | None) -> None:
    """With the module they are of; the kernel's guesses are left out."""
    assert read_kernel_frame(text) == frame


def test_secrets_in_names_are_hidden() -> None:
    """The text travels."""
    event = read_kernel_line("nfs: server https://u:hunter2@nas1/x not responding, still trying")
    assert event == KernelEvent(
        kind=KernelEventKind.STORAGE, text="nfs: server https://***@nas1/x not responding, still trying"
    )


def test_page_about_nodes_names_every_kind() -> None:
    """But for links that come back, which take back what was said."""
    page = (Path(__file__).resolve().parents[4] / "docs" / "nodes.md").read_text(encoding="utf-8")
    unnamed = [kind.value for kind in KernelEventKind if f"`{kind.value}`" not in page]
    assert unnamed == ["link_up"]
