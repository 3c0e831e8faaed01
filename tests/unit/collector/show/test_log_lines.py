"""Lines of logs, each under the name of who wrote it, and of a shared file each once."""

from collector.align.expected import Expected
from collector.show.views import view_logs
from shared.wire.log_events import LogFile, Logs
from shared.wire.snapshot import NodeSnapshot
from tests.build.agents.fake_agents import case_ranks

OUT = "/logs/job.out"


def written(shared: bool, *lines: tuple[str, ...], ranks: tuple[int, ...] = (0, 1)) -> list[str]:
    """What is shown where each rank's look at one file gave these lines."""
    looks = tuple(
        rank.model_copy(
            update={"logs": Logs(files=(LogFile(path=OUT, lines=lines[rank.identity.rank], shared=shared),))}
        )
        for rank in case_ranks("missing_rank2", ranks, host="node1")
    )
    view = view_logs([NodeSnapshot(host="node1", ranks=looks)], Expected(), lines=20)
    return [str(line) for line in view.lines]


def test_a_file_that_several_write_is_shown_once() -> None:
    """What does not say who wrote it is nobody's; what does is that rank's."""
    found = written(True, ("step 3", "[rank0]: lost"), ("step 3", "[rank1]: late"))
    assert found == ["[node1:-] step 3", "[node1:0] [rank0]: lost", "[node1:1] [rank1]: late"]


def test_a_shared_file_is_nobodys_when_one_rank_is_asked_for() -> None:
    """That only one was looked at makes it no file of its own."""
    assert written(True, ("step 3",), ranks=(0,)) == ["[node1:-] step 3"]


def test_one_path_of_several_ranks_is_a_shared_file() -> None:
    """Older agents do not say that it is."""
    assert written(False, ("step 3",), ("step 3",)) == ["[node1:-] step 3"]


def test_a_file_of_one_rank_is_its_own() -> None:
    """Each line with its rank, also where it names another."""
    assert written(False, ("step 3", "[rank1]: x"), ranks=(0,)) == ["[node1:0] step 3", "[node1:0] [rank1]: x"]
