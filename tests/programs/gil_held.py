"""The faulty rank calls C code that blocks without letting go of the interpreter: none of its threads can run."""

import ctypes

import rig

TRUTH = {"kinds": ["rank_not_joined"], "causes": ["gil", "user_code"], "where": "call_driver"}


def call_driver() -> None:
    """Block in C, through a binding that keeps the GIL."""
    ctypes.PyDLL(None).pause()


if __name__ == "__main__":
    rig.train(rig.start(), call_driver)
