"""The table of descriptors: the job's own before ours, and files by name."""

from cli.tables.fds import fds_table
from collector.show.views import FdsView, RankFds
from shared.wire.snapshot import Fds, Socket


def test_files_are_named_and_the_probes_socket_comes_last() -> None:
    """Whoever asks wants to see the job's."""
    ours = Socket(fd=3, kind="unix", state="LISTEN", local="/tmp/unhang-1000/366-1.sock")
    store = Socket(fd=4, kind="tcp", state="ESTABLISHED", local="10.0.0.1:4", remote="10.0.0.2:29500")
    fds = Fds(total=4, files={1: "/logs/job.out"}, files_by_file_system={"ext4": 1}, sockets=(ours, store))
    text = fds_table(FdsView(ranks=(RankFds(rank=0, host="a", pid=366, fds=fds),)), every=False)
    assert "1   /logs/job.out" in text
    assert text.index("10.0.0.2:29500") < text.index("(of unhang's probe)")
