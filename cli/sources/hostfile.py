"""Hostfiles of launchers, as `--hosts`: a host on each line, with how many ranks it takes."""

import re
from pathlib import Path

from shared.errors import InvalidHostlist, quoted

_MOST_BYTES = 1 << 20

# worker-1 slots=8                     (DeepSpeed, Open MPI)
# node[01-04] slots=8 max_slots=16
# node07:8                             (MPICH, Intel MPI)
# node07                               (PBS_NODEFILE, which repeats them)
_LINE = re.compile(r"([A-Za-z0-9_.@,\[\]-]+)(?::[0-9]+)?((?:[ \t]+[A-Za-z_-]+=\S+)*)[ \t]*(?:#.*)?")


def read_hosts(text: str) -> str:
    """Return the host list that `--hosts` is given: itself, or that of the hostfile which it names.

    A name without a slash may be a host's, and is taken for a file only where that reads as a hostfile. Raises
    InvalidHostlist.
    """
    path = Path(text)
    try:
        if "/" not in text and not path.is_file():
            return text
        with path.open("rb") as file:
            lines = file.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidHostlist(
            f"{quoted(text)} cannot be read: {error}", advice="name a hostfile, or hosts: node[01-16],gpu7"
        ) from error
    hosts = []
    for line in (each.strip() for each in lines):
        found = _LINE.fullmatch(line)
        if found is not None:
            hosts.append(found[1])
        elif line and not line.startswith("#"):
            if "/" not in text:
                return text
            raise InvalidHostlist(
                f"{text} is no hostfile: {quoted(line)}", advice="a host on each line: node07 slots=8"
            )
    return ",".join(hosts)
