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


def main() -> None:
    """Train; at the faulty step one rank stops in the debugger."""
    place = rig.start()
    rig.train(place, inspect_loss)


if __name__ == "__main__":
    main()
