"""Somebody left a `breakpoint()` in: the faulty rank sits at the debugger's prompt, and nobody types."""

import os

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["debugger"], "where": "inspect_loss"}


def inspect_loss() -> None:
    """Stop for a look, with a terminal as standard input as in an interactive job."""
    controller, terminal = os.openpty()
    os.dup2(terminal, 0)
    breakpoint()
    os.close(controller)


if __name__ == "__main__":
    rig.train(rig.start(), inspect_loss)
