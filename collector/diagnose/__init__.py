"""The verdict, pure: snapshots in, a diagnosis out. See `verdict.py` for the steps."""

from collector.diagnose.check import check_job
from collector.diagnose.classes import StackNode, merge_tree, stack_classes
from collector.diagnose.deeper import NextLooks, Process, next_looks, pauses_before_further_looks, pids_to_look_deeper
from collector.diagnose.expected import Expected, Unanswered
from collector.diagnose.tables import GroupTable, group_tables
from collector.diagnose.verdict import diagnose

__all__ = [
    "Expected",
    "GroupTable",
    "NextLooks",
    "Process",
    "StackNode",
    "Unanswered",
    "check_job",
    "diagnose",
    "group_tables",
    "merge_tree",
    "next_looks",
    "pauses_before_further_looks",
    "pids_to_look_deeper",
    "stack_classes",
]
