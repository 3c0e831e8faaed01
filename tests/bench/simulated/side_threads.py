"""What else runs Python in a simulated rank: its other threads, and its DataLoader workers. Stacks, outermost first."""

from functools import cache

from shared.wire.stacks import Frame
from tests.bench.simulated.places import frames_of

_THREAD = """
Thread._bootstrap threading.py:1032
Thread._bootstrap_inner threading.py:1075
"""

_THREADS = {
    "Thread-1 (_pin_memory_loop)": """
Thread.run threading.py:1012
_pin_memory_loop torch/utils/data/_utils/pin_memory.py:54
do_one_step torch/utils/data/_utils/pin_memory.py:31
Queue.get multiprocessing/queues.py:113
_ConnectionBase.poll multiprocessing/connection.py:257
Connection._poll multiprocessing/connection.py:440
wait multiprocessing/connection.py:1136
_PollLikeSelector.select selectors.py:415
""",
    "Thread-2": """
run tensorboard/summary/writer/event_file_writer.py:244
_run tensorboard/summary/writer/event_file_writer.py:275
Queue.get queue.py:180
Condition.wait threading.py:359
""",
    "Thread-3 (_watch_memory)": """
Thread.run threading.py:1012
_watch_memory train/monitoring/memory.py:71
Event.wait threading.py:655
Condition.wait threading.py:359
""",
    "Thread-4 (_report_loop)": """
Thread.run threading.py:1012
_report_loop train/monitoring/reporter.py:118
_wait_for_due train/monitoring/reporter.py:93
Event.wait threading.py:655
Condition.wait threading.py:359
""",
    "asyncio_0": """
Thread.run threading.py:1012
_worker concurrent/futures/thread.py:90
""",
    "checkpoint-writer": """
Thread.run threading.py:1012
_serve train/checkpoints/writer.py:166
Queue.get queue.py:171
Condition.wait threading.py:355
""",
    "QueueFeederThread": """
Thread.run threading.py:1012
_feed multiprocessing/queues.py:251
Condition.wait threading.py:355
""",
}
"""What else runs Python in a rank. The first is PyTorch's, which moves batches to pinned memory."""

_WORKER = """
<module> train/pretrain.py:212
main train/pretrain.py:187
decorated train/configuration/entry.py:94
launch train/launching/cluster.py:140
run train/launching/cluster.py:96
Trainer.fit train/trainer/trainer.py:538
Trainer._fit train/trainer/trainer.py:560
make_loaders train/data/loaders.py:204
DataLoader.__iter__ torch/utils/data/dataloader.py:493
DataLoader._get_iterator torch/utils/data/dataloader.py:424
_MultiProcessingDataLoaderIter.__init__ torch/utils/data/dataloader.py:1171
start multiprocessing/process.py:121
_Popen multiprocessing/context.py:282
__init__ multiprocessing/popen_fork.py:19
_launch multiprocessing/popen_fork.py:71
_bootstrap multiprocessing/process.py:314
run multiprocessing/process.py:108
"""
_IDLE_WORKER = """
_worker_loop torch/utils/data/_utils/worker.py:275
Queue.get multiprocessing/queues.py:113
_ConnectionBase.poll multiprocessing/connection.py:257
Connection._poll multiprocessing/connection.py:440
wait multiprocessing/connection.py:1136
_PollLikeSelector.select selectors.py:415
"""
_READING_WORKER = """
_worker_loop torch/utils/data/_utils/worker.py:349
_MapDatasetFetcher.fetch torch/utils/data/_utils/fetch.py:52
__getitem__ train/data/documents.py:171
_read_document train/data/documents.py:139
read train/data/shards.py:88
"""


@cache
def other_threads() -> tuple[tuple[str, tuple[Frame, ...]], ...]:
    """The threads of a rank beside the main one, with their names."""
    return tuple((name, frames_of(_THREAD + stack)) for name, stack in _THREADS.items())


@cache
def worker(*, reading: bool) -> tuple[Frame, ...]:
    """A DataLoader worker's main thread: waiting for a task, or reading a document."""
    return frames_of(_WORKER + (_READING_WORKER if reading else _IDLE_WORKER))


@cache
def feeder() -> tuple[Frame, ...]:
    """The thread of a DataLoader worker that sends what it has read."""
    return frames_of(_THREAD + _THREADS["QueueFeederThread"])
