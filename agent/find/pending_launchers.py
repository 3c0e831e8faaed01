"""Launchers that have started nobody: torchrun waits in rendezvous until all nodes have come, and until then no process
of the job says that it is a rank.

What a launcher waits for it does not say. Told are those that have run for a while and have no process below them, with
the words of their command line, or of accelerate's configuration file, that say whom they meet, and where.
"""

import re
import time
from collections.abc import Iterator, Sequence
from itertools import takewhile

from agent.find.accelerate_config import words_in_file
from agent.find.environment import PYTHON
from agent.find.processes import Lister, Listing
from agent.proc.procfs import TICKS_PER_SECOND, ProcFs, Stat
from shared.missing import WAITING_LAUNCHERS, Missing, Reason
from shared.redaction.redact import redact

_SOON_SECONDS = 15.0
"""Importing PyTorch takes some seconds, and so does a rendezvous that succeeds."""
_RANK_CPU_SECONDS = 1.0
"""What a rank that has ended has used at least, for importing PyTorch: nothing else that launchers start does."""
_MOST_TOLD = 8
_MOST_SHOWN = 300
_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
_FIRST_WORDS = 4
# --nnodes=2      --rdzv-endpoint head:29500      --node_rank 1      --num_machines 2      --main_process_ip head
_WORD = re.compile(
    r"--(nnodes|rdzv[-_](backend|endpoint|id)|node[-_]rank|master[-_](addr|port)"
    r"|num_machines|machine_rank|main_process_(ip|port))(?P<value>=.*)?",
    re.DOTALL,
)


# --nnodes=2      --nnodes 1:4      --num_machines 2
_NODES = re.compile(r"--(?:nnodes|num_machines)[= ](\S+)")


def waiting_launchers(listing: Listing, lister: Lister, procfs: ProcFs) -> Iterator[tuple[int, Missing]]:
    """Iterate over such launchers, with their process ids."""
    parents = {stat.parent_pid for stat in listing.stats.values() if stat.state not in "ZX"}
    unreaped = {stat.parent_pid for stat in listing.stats.values() if stat.cpu_seconds > _RANK_CPU_SECONDS}
    told = 0
    for stat in listing.stats.values():
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks / TICKS_PER_SECOND
        if told == _MOST_TOLD or stat.pid in parents or stat.is_kernel_thread or age < _SOON_SECONDS:
            continue
        arguments = lister.arguments(stat)
        words = meeting_words(arguments)
        if words is not None:
            if any(_name(word).startswith("accelerate") for word in arguments[:_FIRST_WORDS]):
                in_file = redact(words_in_file(procfs, stat.pid, arguments))
                words = "; ".join(filter(None, (words, in_file)))[:_MOST_SHOWN]
            told += 1
            had_ranks = stat.pid in unreaped or stat.waited_cpu_seconds > _RANK_CPU_SECONDS
            yield stat.pid, _missing(stat, age, words, had_ranks=had_ranks)


def meeting_words(arguments: Sequence[str]) -> str | None:
    """Return what a command line says of the meeting of nodes; None where it is no launcher that has one."""
    at = _launcher_at(arguments)
    return None if at is None else redact(" ".join(_words(arguments[at + 1 :])))[:_MOST_SHOWN]


def _launcher_at(arguments: Sequence[str]) -> int | None:
    """Return where the launcher's name stands: first, or behind an interpreter and its options."""
    at = 0
    if arguments and PYTHON.fullmatch(_name(arguments[0])):
        at = next((at for at, word in enumerate(arguments) if at and not word.startswith("-")), 0)
    if at >= min(len(arguments), _FIRST_WORDS):
        return None
    name, module = _name(arguments[at]), at > 0 and arguments[at - 1] == "-m"
    if module:
        return at if name in _MODULES else None
    return at if name == "torchrun" or (name == "accelerate" and arguments[at + 1 : at + 2] == ["launch"]) else None


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _words(arguments: Sequence[str]) -> Iterator[str]:
    own = list(takewhile(lambda word: not word.endswith(".py") and word not in ("-m", "--module", "-c"), arguments))
    for at, word in enumerate(own):
        match = _WORD.fullmatch(word)
        if match is not None:
            yield " ".join(own[at : at + 1 if match["value"] is not None else at + 2])


def _missing(stat: Stat, age: float, words: str, *, had_ranks: bool) -> Missing:
    met = f" ({words})" if words else ""
    nodes = _NODES.search(words)
    if had_ranks:
        why = "those that it had have ended, and it is at its end, or waits for others"
    elif nodes is None or nodes[1] in ("1", "1:1"):
        used = f"{stat.cpu_seconds:.0f} s of CPU time"
        why = f"it waits for no other node, and may still be importing: it has used {used}"
    else:
        why = "usually it waits in rendezvous for nodes that have not arrived"
    has = "has" if had_ranks else "has started"
    detail = f"the launcher with pid {stat.pid} has run for {age:.0f} s and {has} no rank{met}: {why}"
    return Missing(source=WAITING_LAUNCHERS, reason=Reason.NOT_FOUND, detail=detail)
