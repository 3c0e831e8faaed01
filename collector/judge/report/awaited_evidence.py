"""What ranks wait for by the memory of their Python, as evidence: those that wait for the same are one piece of it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from collector.align.roster import ByRank
from collector.align.stacks.activity import Activity
from collector.align.stacks.awaited import ThreadWait, ended_in_words, keys_in_words
from shared.answer.diagnosis import AwaitedEvidence
from shared.plural import counted, either, ranks_with
from shared.rank_sets import fold


def awaited_evidence(ranks: Iterable[int], activities: ByRank[Activity]) -> Iterator[AwaitedEvidence]:
    """Iterate over what those of these ranks wait for of which that is known."""
    together: dict[ThreadWait, list[int]] = defaultdict(list)
    for rank in ranks:
        activity = activities.get(rank)
        if activity is not None and activity.awaited is not None:
            together[activity.awaited.of_any_thread].append(rank)
    for wait, waiting in together.items():
        text = f"{ranks_with(waiting, 'is', 'are')} {wait}"
        if wait.awaited.ended and not wait.awaited.alone:
            text = f"{text}; {ended_in_words(wait.awaited)}"
        if wait.in_store:
            named = f"{wait.awaited.call}() for {keys_in_words(wait.awaited.keys)}"
            text = f"{ranks_with(waiting, 'has', 'have')} called {named}{_told_by_store(wait)}"
        yield AwaitedEvidence(ranks=fold(waiting), text=text, what=wait.awaited.kind, keys=wait.awaited.keys)


def _told_by_store(wait: ThreadWait) -> str:
    """What the process that serves the store has of the first key."""
    if not wait.unset:
        return ""
    served = wait.unset[0]
    prefix = served.key.removesuffix(wait.awaited.keys[0])
    alike = ", ".join(f"'{key.removeprefix(prefix)}'" for key in served.alike)
    before = f"; set before: {alike}" if alike else ""
    waits = either(range(served.clients), "waits", "wait")
    return f"; the store has no key '{served.key}', for which {counted(served.clients, 'client')} {waits}{before}"
