"""Agents on the nodes of Slurm's running jobs, and which nodes each job has.

From `squeue`; without it, from the variables of the allocation that the collector itself runs in.
"""

import re
from collections.abc import Iterator, Mapping
from shutil import which

from collector.agents.agent_source import MOST_SIGHTINGS, Sighting, SourceReading, address_at
from collector.agents.site_program import run_program
from collector.gather.failures import NoAnswer
from collector.hostlists import parse_hostlist
from shared.errors import InvalidHostlist, quoted
from shared.missing import Missing, Reason
from shared.wire.job_names import OF_SLURM

# 4242|node[01-16,20]
# 4243|rack[1-2]n[0-3]                (two brackets, as Slurm writes racks)
_LINE = re.compile(r"([0-9]{1,10})\|([A-Za-z0-9_.,\[\]-]{1,65536})")
_SQUEUE = ("--noheader", "--states=RUNNING,COMPLETING,SUSPENDED", "--format=%A|%N")
"""%A is the id that SLURM_JOB_ID holds, for each element of an array too; %N the nodes, of any length."""

_MOST_JOBS = 50_000
_MOST_EXPANDED = 16
"""Lists that are given to `scontrol`, where our own reader does not understand them."""


class SlurmNodes:
    """The nodes of all jobs that run."""

    name = "slurm"

    def __init__(self, *, agent_url: str, environment: Mapping[str, str]) -> None:
        self._agent_url = agent_url
        self._environment = environment

    async def read(self) -> SourceReading:
        """Ask Slurm. Raises NoAnswer."""
        missing: list[Missing] = []
        jobs: dict[str, tuple[str, ...]] = {}
        nodes: dict[str, None] = {}
        for job, hostlist in await self._jobs():
            hosts = await self._hosts(hostlist, missing)
            jobs[f"{OF_SLURM}{job}"] = hosts
            nodes.update(dict.fromkeys(hosts))
            if len(nodes) > MOST_SIGHTINGS or len(jobs) > _MOST_JOBS:
                raise NoAnswer(Reason.REFUSED, "Slurm reports an implausible number of jobs and nodes")
        agents = tuple(Sighting(address_at(node, self._agent_url), self.name) for node in nodes)
        return SourceReading(agents, tuple(missing), jobs)

    async def _jobs(self) -> list[tuple[str, str]]:
        squeue = which("squeue", path=self._environment.get("PATH"))
        if squeue is not None:
            written = await run_program((squeue, *_SQUEUE), self._environment)
            return list(parse_squeue(written.decode("utf-8", "replace")))
        variables = self._environment
        nodes = variables.get("SLURM_JOB_NODELIST") or variables.get("SLURM_NODELIST")
        found = _LINE.fullmatch(f"{variables.get('SLURM_JOB_ID', '')}|{nodes or ''}")
        if found is None:
            raise NoAnswer(Reason.NOT_FOUND, "squeue is not on PATH, and the collector runs in no Slurm allocation")
        return [(found[1], found[2])]

    async def _hosts(self, hostlist: str, missing: list[Missing]) -> tuple[str, ...]:
        """Write a host list out; what our reader refuses is given to `scontrol show hostnames`."""
        try:
            return _names(hostlist)
        except InvalidHostlist as error:
            scontrol = which("scontrol", path=self._environment.get("PATH"))
            if scontrol is not None and len(missing) < _MOST_EXPANDED and not hostlist.startswith("-"):
                try:
                    written = await run_program((scontrol, "show", "hostnames", hostlist), self._environment)
                    return _names(written.decode("utf-8", "replace"))
                except (NoAnswer, InvalidHostlist):
                    pass
            if len(missing) < _MOST_EXPANDED:
                missing.append(Missing(source=self.name, reason=Reason.UNREADABLE, detail=str(error)))
            return ()


def parse_squeue(text: str) -> Iterator[tuple[str, str]]:
    """Yield job and host list of each line of `squeue`. A job that has no nodes yet is left out.

    Raises NoAnswer at a line that is not squeue's.
    """
    for line in text.splitlines():
        stripped = line.strip()
        match = _LINE.fullmatch(stripped)
        if match is not None:
            yield match[1], match[2]
        elif stripped and stripped.partition("|")[2] not in ("", "(null)"):
            raise NoAnswer(Reason.UNREADABLE, f"squeue wrote {quoted(stripped)}")


def _names(hostlist: str) -> tuple[str, ...]:
    return tuple(address.host for address in parse_hostlist(hostlist))
