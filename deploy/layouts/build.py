"""Writes the table of layouts: `python -m deploy.layouts.build [VERSION ...]`, or `make layouts`.

For each version the official wheel is fetched, and the compiler is asked where its headers put each field. What the
table says of other versions is kept. `make layouts` then has the lab read ranks that run on it (tests/lab/rings.py).
"""

import platform
import sys
from collections.abc import Iterator, Sequence

from deploy.layouts.libraries import build_id, symbols
from deploy.layouts.page import write_page
from deploy.layouts.probe import Structure, probe
from deploy.layouts.table import Build, Found, add, by_version, read_table, write_table
from deploy.layouts.wheels import Installed, fetched

VERSIONS = (
    "2.4.0 2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 2.8.0 2.9.0 2.9.1 2.10.0 2.11.0 "
    "2.12.0 2.12.1 2.13.0 2.14.0 2.14.1 2.15.0"
)
"""All since records have named their group. A new one is added here."""

_BOTH_STRINGS_UNTIL = [2, 6]
"""Until then PyPI had old strings, while builds of others, such as those in NVIDIA's containers, had new ones."""


def main(versions: Sequence[str]) -> None:
    """Put these versions into the table."""
    for version in versions:
        with fetched(version) as installed:
            table = read_table()
            for found in read(installed):
                add(table, found)
            write_table(table)
            write_page(table)


def read(installed: Installed) -> Iterator[Found]:
    """Yield what an installed PyTorch tells: with its own strings, and with the other ones where both were in use."""
    own = installed.new_strings
    names = {(symbol.kind, symbol.name) for library in installed.libraries for symbol in symbols(library)}
    yield Found(installed.release, own, _structures(installed, own), names, _build(installed))
    if by_version(installed.release)[:2] <= _BOTH_STRINGS_UNTIL:
        yield Found(installed.release, not own, _structures(installed, not own), set(), None)


def _structures(installed: Installed, new_strings: bool) -> dict[str, Structure]:
    cuda = installed.cuda is not None
    return probe(installed.torch / "include", cuda=cuda, new_strings=new_strings, more=installed.cuda_headers)


def _build(installed: Installed) -> Build:
    identities = {library.name: build_id(library) for library in installed.libraries}
    return {
        "torch": installed.version,
        "cuda": installed.cuda,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "build_ids": {name: identity for name, identity in identities.items() if identity is not None},
        "layout": "",
    }


if __name__ == "__main__":
    main(sys.argv[1:] or VERSIONS.split())
