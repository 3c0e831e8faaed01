"""Finds the rank that hung a distributed training job: the `unhang` command, and the same for Python programs.

    import unhang

    observed = unhang.read("looks/")    # dumps, stacks, logs, snapshots, or a bundle; or unhang.look() at this machine
    diagnosis = unhang.diagnose(observed)
    print(diagnosis.verdict, diagnosis.headline)

All else below this package is private. In the wheel this file is `unhang/__init__.py`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cli.python_api import Diagnosis, Observed, UnhangError, diagnose, look, read
    from collector.notify.notice import Notice
    from shared.wire.snapshot import Identity

__all__ = ["Diagnosis", "Identity", "Notice", "Observed", "UnhangError", "diagnose", "look", "read"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and nothing before: the command starts by this file, too."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from shared.packs import add_rows_by
    from shared.rules.site_rules import rows_beside

    add_rows_by(rows_beside)  # before what reads packs is imported
    if name == "Identity":  # what plugins name is had without the rest, some of which a node may lack
        from shared.wire.snapshot import Identity

        return Identity
    if name == "Notice":
        from collector.notify.notice import Notice

        return Notice
    from cli import python_api

    return getattr(python_api, name)


def __dir__() -> list[str]:
    """Return the public names, though none is imported yet."""
    return __all__


def main() -> None:
    """Run the command line, and exit."""
    from cli.main import main as run

    run()
