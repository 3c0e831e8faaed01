"""The aspects of a job that can be shown."""

from functools import partial

from cli.sources.job_source import Aspect
from collector.show.timeline import TimelineView, view_timeline
from collector.show.views import (
    ChecksView,
    ClassesView,
    FdsView,
    LogsView,
    SequencesView,
    TreeView,
    view_checks,
    view_classes,
    view_fds,
    view_logs,
    view_sequences,
    view_tree,
)

TREE = Aspect("stacks", TreeView, view_tree, {"format": "tree"}, with_stacks=True)
CLASSES = Aspect("stacks", ClassesView, view_classes, {"format": "classes"}, with_stacks=True)
CHECKS = Aspect("check", ChecksView, view_checks)
FDS = Aspect("fds", FdsView, view_fds)
SEQUENCES = Aspect("sequences", SequencesView, view_sequences, with_stacks=True)
TIMELINE = Aspect("sequences", TimelineView, view_timeline, {"format": "perfetto"})


def logs(lines: int) -> Aspect[LogsView]:
    """Return the aspect of the last `lines` lines of each log."""
    return Aspect("logs", LogsView, partial(view_logs, lines=lines), {"lines": str(lines)})
