"""Slurm itself on hosts of our own: munged, a slurmctld on the first, a slurmd on each. Up in some seconds."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.needed import skip_without
from tests.system.e2e.hosts import Guest
from tests.system.e2e.network import Network

START_SECONDS = 60.0
END_SECONDS = 300.0
_PROGRAMS = ("slurmctld", "slurmd", "munged")

# Eight processors each, whatever this machine has: several jobs share the nodes, as cores are what is allotted.
_CONF = """ClusterName=tests
SlurmctldHost={first}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={nodes} CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A controller and its daemons on all hosts of a network. To be used in a `with`, within the network's."""

    def __init__(
        self, network: Network, folder: Path, *, settings: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        """`settings`: more lines of slurm.conf; `environment`: of the daemons and of whoever calls them."""
        self._network = network
        self.folder = folder / "slurm"
        self._settings = settings
        self._names = tuple(network.hosts)
        self._stack = ExitStack()
        self._controller: Guest | None = None
        own = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "UNHANG", "SLURM"))}
        self.environment = own | {"SLURM_CONF": str(self.folder / "slurm.conf")} | dict(environment or {})

    def __enter__(self) -> Self:
        """Start it, and wait until all nodes are idle. Skips the test where Slurm is not installed."""
        skip_without(*_PROGRAMS)
        (self.folder / "state").mkdir(parents=True)
        conf = _CONF.format(first=self._names[0], nodes=",".join(self._names), folder=self.folder)
        (self.folder / "slurm.conf").write_text(conf + self._settings)
        with self._stack:
            self._start_munge()
            for name in self._names:
                services = [("slurmctld", "-D")] if name == self._names[0] else []
                for service in (*services, ("slurmd", "-D", "-N", name)):
                    log = self.folder / f"{service[0]}.{name}.out"
                    command = ("prlimit", "--core=0", *service)  # slurmctld may fall as it ends, into where pytest runs
                    guest = self._network.hosts[name].start(command, output=log, environment=self._of_daemons())
                    self._stack.callback(guest.end)
                    self._controller = guest if service[0] == "slurmctld" else self._controller
            self._wait_until_idle()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End its daemons; what runs in jobs ends with the hosts."""
        self._stack.close()

    def _of_daemons(self) -> dict[str, str]:
        """Their PATH is none of ours: what they run must not find more than it does where systemd has started them."""
        return self.environment | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        files = {"-S": "munge.socket", "--key-file": "munge.key", "--pid-file": "munge.pid"}
        files |= {"--log-file": "munge.log", "--seed-file": "munge.seed"}
        options = [word for option, file in files.items() for word in (option, str(self.folder / file))]
        munge = subprocess.Popen(("munged", "-F", "-f", *options), stderr=subprocess.DEVNULL)
        self._stack.callback(munge.wait)
        self._stack.callback(munge.terminate)

    def _wait_until_idle(self) -> None:
        idle = ("sinfo", "-h", "-N", "-t", "idle", "-o", "%N")
        self._wait(lambda: len(self.run(*idle).stdout.split()) == len(self._names))

    def said(self) -> str:
        """Return what its daemons have written."""
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(self.folder.glob("*.log")))

    def run(self, *command: str, on: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command on a host, by default the first, to its end."""
        inside = self._network.hosts[on or self._names[0]].inside(*command)
        return subprocess.run(
            inside,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=END_SECONDS,
        )

    def submit(self, *words: str, script: str | None = None, **variables: str) -> str:
        """Submit a batch script, wait until it runs, and return the job's number."""
        wrapped = () if script is None else (f"--wrap={script}",)
        done = self.run("sbatch", "--parsable", "--output=/dev/null", *wrapped, *words, **variables)
        job = done.stdout.strip()
        assert job.isdigit(), done.stderr
        self._wait(lambda: self.show(job, "JobState") != ["PENDING"])
        return job

    def cancel(self, job: str) -> None:
        """End a job, and wait until its nodes are free."""
        self.run("scancel", job)
        self._wait(lambda: not self.run("squeue", "-h", "-j", job).stdout)

    def show(self, job: str, *fields: str) -> list[str]:
        """Return fields of a job, as scontrol shows them."""
        said = self.run("scontrol", "show", "job", job).stdout
        shown = dict(word.split("=", 1) for word in said.split() if "=" in word)
        return [shown[field] for field in fields]

    def state(self, node: str) -> str:
        """Return the state of a node."""
        return self.run("sinfo", "-h", "-N", "-n", node, "-o", "%T").stdout.strip()

    def setting(self, name: str) -> str:
        """Return a line of the configuration."""
        lines = (self.folder / "slurm.conf").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith(f"{name}="))

    @contextmanager
    def without_controller(self) -> Iterator[None]:
        """Slurm whose controller is stopped: squeue waits for it."""
        assert self._controller is not None
        self._controller.signal(signal.SIGSTOP)
        yield
        self._controller.signal(signal.SIGCONT)

    def _wait(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + START_SECONDS
        while not holds():
            assert time.monotonic() < until, self.said()
            time.sleep(0.1)
