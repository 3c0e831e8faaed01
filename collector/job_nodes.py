"""Which silent nodes concern a job, where somebody such as Slurm knows on which nodes it runs."""

from collections.abc import Callable, Sequence

from collector.diagnose.expected import Unanswered

NodesOf = Callable[[str | None], frozenset[str] | None]
"""Returns the nodes of a job; None where they are not known."""


def of_the_job(unanswered: Sequence[Unanswered], nodes: frozenset[str]) -> tuple[Unanswered, ...]:
    """Leave out the silent nodes on which the job does not run; those that had ranks of it once stay.

    Nodes are compared by their first label, as one source says `node7` and another `node7.example.org`. One that
    bears an address is told: who it is is not known then.
    """
    known = {_short(node) for node in nodes}
    return tuple(each for each in unanswered if each.ranks or _is_address(each.host) or _short(each.host) in known)


def _short(host: str) -> str:
    return host.partition(":")[0].partition(".")[0].casefold()


def _is_address(host: str) -> bool:
    """10.0.0.7, 10.0.0.7:8471, fe80::1 and [fe80::1]:8471 are; node7, 9front and gpu1:9000 are not."""
    return host.count(":") > 1 or host.partition(":")[0].replace(".", "").isdecimal()
