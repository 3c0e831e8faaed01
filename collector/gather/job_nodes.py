"""Which nodes concern a job, if a source such as Slurm or Kubernetes knows on which it runs."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from collector.align.expected import Unanswered
from shared.missing import Missing, Reason

NodesOf = Callable[[str | None], frozenset[str] | None]
"""Returns the nodes of a job; None where they are not known."""


def of_the_job(unanswered: Sequence[Unanswered], nodes: frozenset[str]) -> tuple[Unanswered, ...]:
    """Leave out the silent nodes on which the job does not run; those that had ranks of it once stay.

    Nodes are compared by their first label, because one source says `node7` and another `node7.example.org`. A node
    that is known only by an address is kept: it may be any node.
    """
    known = {short_name(node) for node in nodes}
    return tuple(each for each in unanswered if each.ranks or _is_address(each.host) or short_name(each.host) in known)


def without_agent(nodes: Mapping[str, str], known: Iterable[str]) -> tuple[Unanswered, ...]:
    """Return the nodes of a job where no agent is known, `known` by name; `nodes` says what of the job is on each."""
    there = {short_name(host) for host in known}
    return tuple(
        Unanswered(
            host=node,
            missing=Missing(
                source="agents",
                reason=Reason.NOT_FOUND,
                detail=f"no agent is known on this node, where {what} runs; see GET /v1/agents",
            ),
        )
        for node, what in sorted(nodes.items())
        if short_name(node) not in there
    )


def without_ranks(nodes: Collection[str], seen: Iterable[str], silent: Iterable[str]) -> tuple[str, ...]:
    """Return the nodes of a job whose agents answer and see no rank of it."""
    accounted = {short_name(host) for hosts in (seen, silent) for host in hosts}
    return tuple(sorted(node for node in nodes if short_name(node) not in accounted))


def short_name(host: str) -> str:
    """Return the first label of a node's name, without a port."""
    return host.partition(":")[0].partition(".")[0].casefold()


def _is_address(host: str) -> bool:
    """10.0.0.7, 10.0.0.7:8471, fe80::1 and [fe80::1]:8471 are; node7, 9front and gpu1:9000 are not."""
    return host.count(":") > 1 or host.partition(":")[0].replace(".", "").isdecimal()
