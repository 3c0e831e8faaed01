"""Settings by which a node works or not: which interface its trials take, and why it is the wrong one."""

from collections.abc import Iterable

from cli.preflight.board import Board

_LOOPBACK = ("127.", "::1")


def interface_variable(board: Board) -> str:
    """Return the variable that names the interface for this backend."""
    return "GLOO_SOCKET_IFNAME" if board.backend == "gloo" else "NCCL_SOCKET_IFNAME"


def setting_at_fault(board: Board, node: int, interface: str) -> tuple[str, str]:
    """Return what is set on a node that works with this interface named, and what to set instead."""
    name = interface_variable(board)
    own = board.links[node].hello.facts.variable(name)
    if own:
        return f"{name}={own}", f"it works with {name}={interface}: correct {name}, which is {own} there"
    hint = f"it works with {name}={interface}: the interface that is chosen there is another one"
    return f"{name} is not set", hint + why_another(board, [node])


def why_another(board: Board, nodes: Iterable[int]) -> str:
    """Say of which of these nodes Gloo takes an address by their host name that leads to no other node."""
    if board.backend != "gloo":
        return ""
    wrong = {node: address for node in nodes if (address := misleading_name(board, node)) is not None}
    if not wrong:
        return ""
    first = next(iter(wrong))
    leads = f"leads to {wrong[first]}" if wrong[first] else "leads to no address of its own"
    others = f", and alike on {board.few(set(wrong) - {first})}" if len(wrong) > 1 else ""
    return (
        f". Gloo takes the address of the host name, and {board.links[first].hello.facts.host} {leads} there{others}: "
        "see /etc/hosts"
    )


def misleading_name(board: Board, node: int) -> str | None:
    """Return what this node's own host name leads to there, where no other node reaches it by that; else None."""
    facts = board.links[node].hello.facts
    found = facts.name_address
    if found is None or facts.variable("GLOO_SOCKET_IFNAME"):
        return None
    return found if not found or found.startswith(_LOOPBACK) else None
