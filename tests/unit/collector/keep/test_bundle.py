"""A bundle holds everything that a verdict rests on: read back, it is judged the same."""

import io
import tarfile
from pathlib import Path

import pytest

from collector.files.diagnose_files import diagnose_directory
from collector.gather.fanout.fanout import make_client
from collector.gather.sweep import sweep
from collector.hostlists import AgentAddress
from collector.keep.bundle import bundle_name, write_bundle
from collector.keep.kept import Kept
from collector.question import NativePolicy, Question
from shared.answer.diagnosis import Diagnosis
from tests.build.agents.fake_agents import CASES, JOB, mounts, two_nodes

CASE_NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir() and path.name != "rank2_dump_absent")


async def kept_of(case: str) -> Kept:
    """A live diagnosis of a recorded case, with a node that did not answer."""
    nodes = two_nodes(case)
    down = AgentAddress(host="node3", url="http://127.0.0.1:9")
    question = Question(job=JOB, interval_seconds=0.01, native=NativePolicy.NEVER)
    async with make_client(mounts=mounts(*nodes)) as client:
        made = await sweep(question, [*(node.address for node in nodes), down], client)
    return Kept(diagnosis=made.diagnosis, expected=made.expected, snapshots=made.snapshots)


def bundle(kept: Kept) -> bytes:
    """The bundle's bytes."""
    file = io.BytesIO()
    write_bundle(kept, file)
    return file.getvalue()


def verdict_of(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without what differs from one making to the next."""
    return diagnosis.model_copy(update={"id": "", "made_at": "", "took_seconds": 0.0, "read": ()})


@pytest.mark.parametrize("case", CASE_NAMES)
@pytest.mark.parametrize("unpacked", [False, True], ids=["packed", "unpacked"])
async def test_bundle_is_judged_the_same(tmp_path: Path, case: str, unpacked: bool) -> None:
    """The whole answer, silent node included, is reached again from the archive and from its files."""
    kept = await kept_of(case)
    data = bundle(kept)
    if unpacked:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(tmp_path, filter="data")
    else:
        (tmp_path / "bundle").write_bytes(data)
    again = diagnose_directory(tmp_path)
    assert again.expected == kept.expected
    assert verdict_of(again.diagnosis) == verdict_of(kept.diagnosis)


async def test_same_diagnosis_same_bytes() -> None:
    """A bundle can be fetched twice and compared by its checksum."""
    kept = await kept_of("missing_rank2")
    assert bundle(kept) == bundle(kept)


async def test_bundle_says_what_it_is() -> None:
    """Its table of contents comes first, and its name is safe for any file system."""
    kept = await kept_of("missing_rank2")
    with tarfile.open(fileobj=io.BytesIO(bundle(kept))) as archive:
        names = archive.getnames()
    assert names[:2] == ["manifest.json", "diagnosis.json"]
    assert len(names) == 2 + len(kept.snapshots)
    hostile = kept.model_copy(update={"diagnosis": kept.diagnosis.model_copy(update={"job": '../../"x\r\n'})})
    assert bundle_name(hostile) == f"unhang-x-{kept.diagnosis.id}.tar.gz"
