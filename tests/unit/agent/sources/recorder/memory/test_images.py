"""Flight recorders of every known layout in made-up memory: honest ones are read, others are refused in time."""

import os
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.errors import Unavailable
from agent.proc.memory.torch_layouts import Layout, read_layouts
from agent.sources.recorder.memory.copy_records import NEWEST, copy_recorder
from agent.sources.recorder.memory.locator import RecorderPlaces
from shared.errors import UnhangError
from shared.missing import Reason
from shared.wire.trace import Record, State, Trace
from tests.build.processes.recorder_image import BASE, Operation, RecorderImage

LAYOUTS = read_layouts().layouts
LATEST = LAYOUTS[-1]


def of_every_layout(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with each layout."""
    return pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)(test)


def read(image: RecorderImage, address: int, layouts: Sequence[Layout] = (), *, most: int = NEWEST) -> Trace:
    """Read the recorder at an address."""
    with image.memory() as memory:
        return copy_recorder(memory, address, layouts or (image.layout,), None, most).trace()


def recorder(layout: Layout = LATEST, count: int = 3, **more: Any) -> tuple[RecorderImage, int]:
    """Make a recorder with so many operations."""
    image = RecorderImage(layout)
    return image, image.recorder([Operation(n, sequence=n + 1) for n in range(count)], **more)


@of_every_layout
def test_record_is_read_as_it_is(layout: Layout) -> None:
    """Names, sizes, types, states, marks and members, whatever the layout."""
    image = RecorderImage(layout)
    operations = [
        Operation(0, sequence=1),
        Operation(1, sequence=2, name="nccl:_all_gather_base", completed=True, sizes=((3,), (1, 2, 3, 4, 5, 6, 7, 8))),
        Operation(2, group=("1", "a description that is long"), pg_id=7, retired=False, sizes=()),
    ]
    address = image.recorder(
        operations,
        statuses={0: (2, 2, 1), 7: (1, -1, -1)},
        members={("0", "default_pg"): range(4), ("1", "a description that is long"): (3, 1)},
    )
    found = read(image, address)
    first, second, third = found.records()
    assert [record.state for record in found.records()] == [State.COMPLETED, State.COMPLETED, State.ISSUED]
    assert (first.signature.op, first.signature.backend, first.collective_seq) == ("all_reduce", "gloo", 1)
    assert (second.signature.op, second.signature.backend) == ("all_gather_into_tensor", "nccl")
    assert second.signature.input_sizes == second.signature.output_sizes == ((3,), (1, 2, 3, 4, 5, 6, 7, 8))
    assert second.signature.input_dtypes == ("Float", "Float")
    assert (third.group.name, third.group.description) == ("1", "a description that is long")
    assert (third.group.members, third.group.order, first.group.members) == ("1,3", (3, 1), "0-3")
    marks = {found.groups[m.group].name: (m.issued, m.started, m.completed) for m in found.marks}
    has_marks = "all_pg_status_" in layout["recorder"].fields
    assert marks == ({"0": (2, 2, 1), "1": (1, None, None)} if has_marks else {})
    assert (found.truncated, first.created_ns) == (False, 1_700_000_000_000_000_000)
    assert found.library == (
        "2.27.5" if {"comm_lib_version_", "nccl_version_"} & layout["recorder"].fields.keys() else ""
    )


@of_every_layout
def test_ring_that_went_round(layout: Layout) -> None:
    """The oldest entry stands behind the newest; nothing of a recorder at rest is left out."""
    image = RecorderImage(layout)
    address = image.recorder([Operation(n, sequence=n) for n in (8, 9, 5, 6, 7)], most=5, next_one=2, next_id=10)
    found = read(image, address)
    assert list(found.collective_seq) == [5, 6, 7, 8, 9]
    assert found.truncated


@of_every_layout
def test_other_layouts_do_not_fit(layout: Layout) -> None:
    """Of several that a version may have, the one is taken by which there is a recorder."""
    image, address = recorder(layout, count=60, statuses={0: (60, 60, 60)})
    others = [other for other in LAYOUTS if other["entry"].size != layout["entry"].size]
    assert len(read(image, address, (*others, layout))) == 60


def test_newest_entries_alone() -> None:
    """Of a large recorder a plain look copies a part, and says so. Entries before a reset stay, and do not count."""
    image, address = recorder(count=300)
    found = read(image, address, most=100)
    assert list(found.collective_seq) == list(range(201, 301))
    assert found.truncated
    image = RecorderImage(LATEST)
    old = [Operation(n, sequence=n) for n in range(4)]
    new = [Operation(n, sequence=100 + n, epoch=1) for n in range(2)]
    address = image.recorder([*old, *new], next_id=2, epoch=1)
    assert list(read(image, address).collective_seq) == [100, 101]


_BETWEEN_PARTS = [("gloo:all_reduce", 0, 0, False, False), ("gloo:all_reduce", 1, 0, False, True)]
"""A part of a batch, and what another thread has issued to another group before the batch ended."""
_PARTS = ("gloo:all_reduce", "nccl:all_reduce", "nccl:coalesced", "nccl:ALLGATHER_coalesced", "nccl:_broadcast_oop")


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from(_PARTS), st.integers(0, 1), st.integers(0, 1), st.booleans(), st.booleans()),
        max_size=60,
    ),
    window=st.integers(1, 5),
)
@example(rows=[*_BETWEEN_PARTS, ("nccl:coalesced", 0, 0, True, False), _BETWEEN_PARTS[1]], window=1)
def test_window_leaves_out_what_nothing_depends_on(rows: list[tuple[str, int, int, bool, bool]], window: int) -> None:
    """Whatever stands before it, batches too: it is the whole record, cut afterwards."""
    image, sequences, operations = RecorderImage(LATEST), [0, 0], list[Operation]()
    for number, (name, pg_id, step, completed, retired) in enumerate(rows):
        sequences[pg_id] += step
        about = {"group": (str(pg_id), ""), "pg_id": pg_id, "name": name, "completed": completed, "retired": retired}
        operations.append(Operation(number, sequence=sequences[pg_id], **about))
    address = image.recorder(operations, statuses={0: (9, 9, 9)})
    with image.memory() as memory:
        whole = copy_recorder(memory, address, (LATEST,), None, NEWEST).trace()
        some = copy_recorder(memory, address, (LATEST,), None, NEWEST, window).trace()
    assert len(some) <= len(whole)
    cut, again = whole.windowed(window), some.windowed(window)
    assert [_told(record) for record in again.records()] == [_told(record) for record in cut.records()]
    assert (again.active_only, again.truncated, again.whole_from) == (cut.active_only, cut.truncated, cut.whole_from)
    assert _marks(again) == _marks(cut)


def _marks(trace: Trace) -> set[tuple[object, ...]]:
    return {(trace.groups[m.group].name, m.issued, m.started, m.completed) for m in trace.marks}


def _told(record: Record) -> tuple[object, ...]:
    return record._replace(position=0)


def test_pointers_beyond_the_window_are_not_followed() -> None:
    """An entry whose sizes lead nowhere is refused where it is read, and costs nothing where it is not needed."""
    image = RecorderImage(LATEST)
    operations = [Operation(n, sequence=n + 1) for n in range(20)]
    address = image.recorder(operations)
    entries = int.from_bytes(image.data[address - BASE + LATEST["recorder"].offset("entries_") :][:8], "little")
    image.put(entries + LATEST["entry"].offset("sizes_"), struct.pack("<QII", 8, 4, 4))
    assert len(read(image, address)) == 19
    with image.memory() as memory:
        found = copy_recorder(memory, address, (LATEST,), None, NEWEST, 4).trace()
    assert list(found.collective_seq) == [17, 18, 19, 20]
    assert found.truncated


def test_recorder_without_entries_and_one_that_is_switched_off() -> None:
    """Nothing was recorded: nothing is wrong; where it is off, the answer says how to switch it on."""
    assert len(read(*recorder(count=0))) == 0
    image = RecorderImage(LATEST)
    with pytest.raises(Unavailable) as caught:
        read(image, image.allocate(LATEST["recorder"].size))
    assert caught.value.reason is Reason.NOT_ENABLED
    assert "TORCH_FR_BUFFER_SIZE" in str(caught.value) and "TORCH_NCCL_TRACE_BUFFER_SIZE" in str(caught.value)


HEADERS = {
    "no flag": ("enabled_", b"\x02"),
    "no entries allowed": ("max_entries_", bytes(8)),
    "more entries than allowed": ("max_entries_", struct.pack("<Q", 2)),
    "next one beyond the entries": ("next_", struct.pack("<Q", 4)),
    "fewer numbers than entries": ("id_", struct.pack("<Q", 2)),
    "entries that end before they begin": ("entries_", struct.pack("<QQQ", BASE + 512, BASE, BASE + 1024)),
    "half an entry": ("entries_", struct.pack("<QQQ", BASE, BASE + 700, BASE + 1024)),
    "entries without memory": ("entries_", struct.pack("<QQQ", *[0x6000_0000_0000 + 512 * n for n in (0, 3, 3)])),
    "a map without end": ("all_pg_status_", b"\xff" * 48),
    "a vast map": ("pg_name_to_ranks_", struct.pack("<6Q", 0, 0, BASE, 0, 0, 1 << 40)),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_fit_no_recorder(name: str) -> None:
    """Each is refused with a reason."""
    field, content = HEADERS[name]
    image, address = recorder(statuses={0: (3, 3, 3)})
    image.put(address + LATEST["recorder"].offset(field), content)
    with pytest.raises(UnhangError):
        read(image, address)


ENTRIES = {
    "a number that does not follow": ("id_", struct.pack("<Q", 77)),
    "a flag that is none": ("retired_", b"\x07"),
    "a name without end": ("profiling_name_", struct.pack("<QQ", BASE, 1 << 60)),
    "a name nowhere": ("profiling_name_", struct.pack("<QQ", 8, 12)),
    "dimensions without end": ("input_dims_", struct.pack("<QII", BASE, 1 << 31, 1 << 31)),
    "types that end before they begin": ("output_dtypes_", struct.pack("<QQQ", BASE + 8, BASE, BASE + 8)),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_that_make_no_sense(name: str) -> None:
    """The record begins behind such an entry; where the newest is one, there is no record."""
    field, content = ENTRIES[name]
    for damaged, left in ((0, 2), (1, 1)):
        image, address = recorder()
        image.put(_ring(image, address) + damaged * LATEST["entry"].size + LATEST["entry"].offset(field), content)
        assert len(read(image, address)) == left
    image, address = recorder()
    image.put(_ring(image, address) + 2 * LATEST["entry"].size + LATEST["entry"].offset(field), content)
    with pytest.raises(Unavailable):
        read(image, address)


def _ring(image: RecorderImage, address: int) -> int:
    """Return where the entries of a recorder lie."""
    start = address - BASE + LATEST["recorder"].offset("entries_")
    return int.from_bytes(image.data[start : start + 8], "little")


def test_sizes_that_contradict_each_other_and_maps_with_a_circle() -> None:
    """Three tensors and sizes of two, a node that leads back to the root: no record at all rather than a wrong one."""
    image, address = recorder()
    image.few(_ring(image, address), "sizes_", [1, 2, 3], 8)
    with pytest.raises(Unavailable):
        read(image, address)
    image, address = recorder(statuses=dict.fromkeys(range(5), (1, 1, 1)))
    start = address + LATEST["recorder"].offset("all_pg_status_") + LATEST["map"].offset("root") - BASE
    root = int.from_bytes(image.data[start : start + 8], "little")
    image.number(root + LATEST["map_node"].offset("left"), root)
    with pytest.raises(Unavailable):
        read(image, address)


def test_pointers_that_all_lead_to_one_page() -> None:
    """A small process claims a record of a gigabyte: the limit comes first, and soon."""
    image = RecorderImage(LATEST)
    address = image.recorder([Operation(n, sequence=n, sizes=((1,),) * 3) for n in range(2000)], next_one=0)
    large = image.allocate(1_000_000)
    entry = LATEST["entry"]
    for n in range(2000):
        at = _ring(image, address) + n * entry.size
        for name in ("input_dims_", "output_dims_", "sizes_"):
            image.put(at + entry.offset(name), struct.pack("<QII", large, 120_000, 120_000))
    begun = time.thread_time()
    with pytest.raises(Unavailable) as caught:
        read(image, address)
    assert caught.value.reason is Reason.REFUSED
    assert time.thread_time() - begun < 20


def test_every_end_of_memory() -> None:
    """Memory may end anywhere: what is read is whole, or refused."""
    image, address = recorder(count=4, statuses={0: (4, 4, 4)}, members={("0", "default_pg"): (0, 1)})
    lengths = set()
    for cut in range(0, len(image.data), 40):
        with image.memory(cut=cut) as memory:
            try:
                lengths.add(len(copy_recorder(memory, address, (LATEST,), None, NEWEST).trace()))
            except UnhangError:
                lengths.add(0)
    assert 4 in lengths


SEED, AT = recorder(count=6, statuses={0: (6, 6, 6), 3: (1, 1, 1)}, members={("0", "default_pg"): (0, 1)})
WORDS = (0, 1, 7, 8, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 47, 1 << 63, (1 << 64) - 1, BASE, AT, AT + 8, BASE + 4096)
"""What a pointer, a count or a number may be."""


@settings(max_examples=int(os.environ.get("UNHANG_FUZZ_EXAMPLES", "150")), derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SEED.data) // 8 - 1), st.sampled_from(WORDS)), min_size=1, max_size=12))
def test_words_of_somebodys_choice(changes: list[tuple[int, int]]) -> None:
    """Whatever stands where: a record that can travel and be made again, or a reason; and never for long."""
    image = RecorderImage(LATEST, bytearray(SEED.data))
    for place, word in changes:
        image.number(BASE + 8 * place, word)
    begun = time.thread_time()
    with suppress(UnhangError):
        trace = read(image, AT)
        assert len(trace) <= 6
        assert Trace.model_validate_json(trace.model_dump_json()).model_dump_json() == trace.model_dump_json()
    assert time.thread_time() - begun < 5


def listed(image: RecorderImage, *recorders: int, count: int | None = None) -> int:
    """Write the list of recorders by backends; `count`: what it says of its length."""
    table, node = image.layout["unordered_map"], image.layout["unordered_map_node"]
    place = image.allocate(table.size)
    image.number(place + table.offset("count"), len(recorders) if count is None else count)
    before = place + table.offset("first")
    for number, address in enumerate(recorders):
        at = image.allocate(node.offset("value") + image.layout["string"].size + 16)
        image.string(at + node.offset("value"), f"nccl{number}")
        image.number(at + node.offset("value") + image.layout["string"].size, address)
        image.number(before, at)
        before = at + node.offset("next")
    return place


def test_recorders_of_backends_are_listed_by_name() -> None:
    """As since PyTorch 2.15; each once, and none where the list is torn, longer or shorter than it says."""
    image, address = recorder()
    own, null = image.allocate(8), image.allocate(8)
    image.number(own, address)
    lists = listed(image, address, address + 16), listed(image, address, count=0), listed(image, address, count=9)
    with image.memory() as memory:
        for pointer in (null, own):
            found = RecorderPlaces((pointer,), (LATEST,), None, lists[:1]).recorders(memory)
            assert sorted(found) == [address, address + 16]
        for torn in lists[1:]:
            with pytest.raises(Unavailable, match="has not created"):
                RecorderPlaces((null,), (LATEST,), None, (torn,)).recorders(memory)
