"""Writes the table of layouts: `python -m deploy.layouts.build [VERSION ...]`, or `make layouts`.

For each version: the official wheel is fetched, the compiler is asked where its headers put each field, and the wheel's own
code fills a flight recorder that is then read back from outside. What the table says of other versions is kept.
"""

import platform
import sys
from collections.abc import Iterator, Sequence

from deploy.layouts.libraries import LIBRARIES, build_id, symbols
from deploy.layouts.probe import Structure, probe
from deploy.layouts.table import Build, Found, add, by_version, read_table, write_table
from deploy.layouts.wheels import Installed, fetched

VERSIONS = "2.4.0 2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 2.8.0 2.9.0 2.9.1 2.10.0 2.11.0 2.12.0 2.12.1 2.13.0 2.14.0 2.14.1 2.15.0"
"""Every one since PyTorch records into memory that can be told apart; a new one is added here."""


_BOTH_STRINGS_UNTIL = [2, 6]
"""Until then PyPI had old strings, and who built PyTorch for himself, as NVIDIA for its containers, new ones."""


def main(versions: Sequence[str]) -> None:
    """Put these versions into the table."""
    table = read_table()
    for version in versions:
        with fetched(version) as installed:
            for found in read(installed):
                add(table, found)
        write_table(table)


def read(installed: Installed) -> Iterator[Found]:
    """Yield what an installed PyTorch tells: with its own strings, and with the other ones where both were in use."""
    libraries = {
        name: installed.torch / "lib" / name for name in LIBRARIES if (installed.torch / "lib" / name).exists()
    }
    version = installed.version.partition("+")[0]
    build_ids = {name: build_id(path) or "" for name, path in libraries.items()}
    python = ".".join(platform.python_version_tuple()[:2])
    build: Build = {
        "torch": installed.version,
        "cuda": installed.cuda,
        "python": python,
        "build_ids": build_ids,
        "layout": "",
    }
    names = {(symbol.kind, symbol.name) for path in libraries.values() for symbol in symbols(path)}
    yield Found(version, installed.new_strings, _structures(installed, installed.new_strings), names, build)
    if by_version(version)[:2] <= _BOTH_STRINGS_UNTIL:
        yield Found(version, not installed.new_strings, _structures(installed, not installed.new_strings), set(), None)


def _structures(installed: Installed, new_strings: bool) -> dict[str, Structure]:
    cuda = installed.cuda is not None
    return probe(installed.torch / "include", cuda=cuda, new_strings=new_strings, more=installed.cuda_headers)


if __name__ == "__main__":
    main(sys.argv[1:] or VERSIONS.split())
