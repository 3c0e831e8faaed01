"""The source `setup`: what a rank was started with, read from its environment, its launcher and its surroundings."""

import os
from contextlib import suppress

from agent.deadline import Deadline
from agent.errors import Gone, Unavailable
from agent.find.choose_ranks import Rank
from agent.find.launchers import is_launcher, reported
from agent.proc.job_files import open_named
from agent.proc.library_versions import Loaded, driver_version, read_versions
from agent.proc.on_behalf_of import readers_of
from agent.proc.procfs import ProcFs
from agent.proc.remembered import Remembered
from agent.proc.socket_tables import sockets_of
from agent.sources.look_context import LookContext
from agent.sources.source import Answer, LookDepth
from shared.errors import NotPermitted
from shared.redaction.redact import redact, redact_words
from shared.wire.setup import Listener, Setup, Versions

_LONGEST_VALUE = 300
_LONGEST_COMMAND = 500
_MOST_ANCESTORS = 4
_MOST_NAMES = 128
_MOST_HOSTS_BYTES = 65_536
_MOST_REMEMBERED = 4096
_INFINIBAND = "/sys/class/infiniband"
_OF_CONTAINERS = ("veth", "cali", "lxc")
"""How the host's ends of containers' interfaces are named: there are hundreds, and no job uses one."""


class SetupSource:
    """Fills `setup`. Versions are read once per process, when PyTorch is there."""

    name = "setup"

    def __init__(self) -> None:
        self._loaded = Remembered[Loaded](_MOST_REMEMBERED)

    def look(self, rank: Rank, context: LookContext, question: LookDepth, deadline: Deadline) -> Answer:
        procfs, pid = context.procfs, rank.stat.pid
        variables = {n: redact(v)[:_LONGEST_VALUE] for n, v in sorted(rank.environment.items()) if n in reported()}
        loaded = self._versions(rank, procfs)
        setup = Setup(
            variables=variables,
            launcher=_launcher(procfs, pid),
            versions=loaded.versions,
            nccl_loaded=loaded.nccl,
            interfaces=_interfaces(procfs, pid),
            hcas=_hcas(),
            gpus=_gpus(procfs),
            cpus=_cpus(procfs, pid),
            hosts=_hosts(procfs, pid, {variables.get("MASTER_ADDR", ""), _own_host(context, pid, variables)}),
            listener=_listener(rank, context),
        )
        return {"setup": setup}

    def _versions(self, rank: Rank, procfs: ProcFs) -> Loaded:
        """Leave the memory map of a process in state D alone: reading it may block."""
        known = self._loaded.get(rank.key)
        if known is not None:
            return known
        if procfs.stat(rank.stat.pid).state == "D":
            return Loaded(Versions(driver=driver_version(procfs)), None)
        loaded = read_versions(procfs, rank.stat.pid)
        return loaded if loaded.versions.torch is None else self._loaded.put(rank.key, loaded)


def _launcher(procfs: ProcFs, pid: int) -> str:
    with suppress(Gone, NotPermitted):
        for above in procfs.line(pid)[1 : 1 + _MOST_ANCESTORS]:
            arguments = procfs.text(above, "cmdline", most=16_384).rstrip("\0").split("\0")
            if is_launcher(arguments):
                return redact_words(arguments)[:_LONGEST_COMMAND]
    return ""


def _interfaces(procfs: ProcFs, pid: int) -> tuple[str, ...]:
    #   eth0: 1500 10    0    0    0     0          0         0     1500 10 …
    names = (line.partition(":")[0].strip() for line in procfs.known_text(pid, "net/dev").splitlines()[2:])
    return tuple(sorted(name for name in names if name and not name.startswith(_OF_CONTAINERS))[:_MOST_NAMES])


def _hcas() -> tuple[str, ...]:
    with suppress(OSError):
        return tuple(sorted(os.listdir(_INFINIBAND))[:_MOST_NAMES])
    return ()


def _gpus(procfs: ProcFs) -> int | None:
    with suppress(OSError):
        return len(os.listdir(procfs.root / "driver/nvidia/gpus"))
    return None


def _cpus(procfs: ProcFs, pid: int) -> int | None:
    # Cpus_allowed_list:	0-3,8
    with suppress(Gone, NotPermitted, ValueError):
        spans = [span.split("-") for span in procfs.fields(pid, "status")["Cpus_allowed_list"].split(",")]
        return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
    return None


def _own_host(context: LookContext, pid: int, variables: dict[str, str]) -> str:
    """Return the name of the host as the rank knows it: that of its container, where it has one of its own."""
    return os.uname().nodename if context.procfs.is_in_our_namespace(pid, "uts") else variables.get("HOSTNAME", "")


def _hosts(procfs: ProcFs, pid: int, names: set[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {name: [] for name in names if name}
    with suppress(Unavailable, Gone, NotPermitted, OSError):
        with open_named(procfs, pid, "/etc/hosts", readers_of(procfs, pid)) as file:
            text = os.pread(file, _MOST_HOSTS_BYTES, 0).decode(errors="replace")
        for line in text.splitlines():
            address, *aliases = line.partition("#")[0].split()[:32] or [""]
            for name in found.keys() & set(aliases):
                found[name].append(address)
    return {name: tuple(addresses[:8]) for name, addresses in sorted(found.items()) if addresses}


def _listener(rank: Rank, context: LookContext) -> Listener | None:
    port = rank.environment.get("MASTER_PORT", "")
    if rank.identity.rank != 0 or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65_536:
        return None
    with suppress(Gone, NotPermitted):
        return _find_listener(context, rank.stat.pid, int(port))
    return None


def _find_listener(context: LookContext, pid: int, port: int) -> Listener | None:
    """Return who listens on TCP `port` where process `pid` lives; None where nobody does. Raises Gone."""
    listening = context.sockets(pid).listening(port)
    if not listening:
        return None
    address = next(iter(listening.values()))
    for near in context.procfs.line(pid):  # a launcher may hold the store for its ranks
        with suppress(Gone, NotPermitted):
            if any(inode in listening for inode in sockets_of(context.procfs, near)):
                return Listener(address=address, pid=near, name=context.procfs.known_name(near), of_job=True)
    for inode, at in listening.items():
        holders = context.holders(f"socket:[{inode}]")
        if holders:
            return Listener(address=at, pid=holders[0][0], name=context.procfs.known_name(holders[0][0]))
    return Listener(address=address)
