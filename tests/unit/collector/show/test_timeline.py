"""The time line that Perfetto reads: a process per rank, slices that nest, operations that last until the look."""

import json
from collections import defaultdict
from itertools import pairwise

from collector.align.expected import Expected
from collector.show.timeline import view_timeline
from tests.build.jobs.dumps import CASES, snapshots_of
from tests.build.jobs.four_ranks import looks_without
from tests.build.jobs.simulated import LOADER, USER, Seen


def test_every_operation_is_a_slice_of_its_rank() -> None:
    view = view_timeline(looks_without({2: Seen((USER, LOADER))}), Expected(job="sim"))
    events = json.loads(view.model_dump_json(by_alias=True))["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert set(names) == {0, 1, 2, 3} and names[2].startswith("rank 2")
    pending = [event for event in events if event["ph"] == "X" and event["cat"] == "pending"]
    assert {event["pid"] for event in pending} == {0, 1, 3}
    assert all(event["dur"] > 1_000_000 for event in pending), "they have waited for a minute when they are looked at"
    assert min(event["ts"] for event in events if event["ph"] == "X") == 0


def test_slices_of_one_track_never_overlap() -> None:
    """Of recorded jobs, too."""
    for case in CASES.iterdir():
        if not case.is_dir():
            continue
        tracks = defaultdict(list)
        for event in view_timeline(snapshots_of(sorted(case.iterdir())), Expected()).events:
            if event["ph"] == "X":
                tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        assert tracks, case
        for slices in tracks.values():
            assert all(end <= begin + 0.001 for (_, end), (begin, _) in pairwise(slices))
