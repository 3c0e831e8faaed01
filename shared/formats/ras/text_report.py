"""Reads RAS reports in text, of every NCCL from 2.24 on.

Text lists only what is unusual: of ranks whose counts differ, the smaller sets by name and the largest by its size; of
healthy communicators only how many there are. Unknown lines are skipped.
"""

import io
import re

from shared.errors import InvalidInput, quoted
from shared.formats.ras.build import MOST_RANK, CommunicatorBuilder, NetworkBuilder, Tally
from shared.wire.ras import RasNetwork, RasStatus

_LONGEST_LINE = 8192
_MOST_NUMBER = 1 << 62
LAST_HEADING = "Warnings\n========"
"""Every report ends with this heading and the lines below it."""
ANY_COLLECTIVE = "collective"
"""Before 2.26 all collectives of a communicator are counted together."""

# NCCL version 2.26.2 compiled with CUDA 12.8
_VERSION = re.compile(r"NCCL version (\S{1,40}) compiled with CUDA ")
#     0         1         4       3-4        16        15   RUNNING  INCOMPLETE,MISMATCH
_ROW = re.compile(
    r"(?P<group>\d{1,6}) +(?P<communicators>\d{1,6}) +\d{1,6} +[\d-]{1,20} +(?P<size>\d{1,7}) +\d{1,9}"
    r" +[A-Z]{1,20} +[A-Z,]{1,40}"
)
# #0-0 (9d2f00c1a7e45b33) MISMATCH
_COMMUNICATOR = re.compile(r"#(\d{1,6})-(\d{1,6}) \(([0-9a-f]{1,16})\) (?:INCOMPLETE|MISMATCH|ERROR)")
# Process 40117 on node 10.3.0.14 managing GPUs 0,1 (NVML 4,5)
_PROCESS = re.compile(r"Process (\d{1,10}) on node (\S{1,255}) managing GPUs? (.{1,200})")
# [2026-02-03 04:05:06] PEER_DEAD: Process 40117 on node 10.3.0.14 managing GPU 1, as the monitor mode prints
_LOST_PEER = re.compile(
    r"\[(?P<at>[\d :-]{19})\] (?P<event>PEER_DEAD|PEER_UNRESPONSIVE): "
    r"Process (?P<pid>\d{1,10}) on node (?P<host>\S{1,255}) managing GPUs? (?P<gpu>.{1,200})"
)
# Communicator ranks have different AllGather operation counts
_DIFFERENT = re.compile(r"Communicator ranks have different (\w{1,40}(?: operation(?= counts))?)(?: counts)?")
# 26 ranks have launched up to operation 412        3 ranks have status INIT        2 ranks reported System error
_RANKS = re.compile(
    r"(?P<number>\d{1,7}) ranks (?:have launched up to operation (?P<launched>\d{1,19})"
    r"|(?P<none>have not launched any operations)|have status (?P<status>[A-Z]{1,10})|reported (?P<error>.{1,60}))"
)
# Rank 7 has launched up to operation 60 -- GPU 3 managed by process 40117 on node 10.3.0.14
# Rank 5 -- GPU 1 (NVML 5) managed by process 40115 on node 10.3.0.14        Rank 9 -- [process information not found]
_RANK = re.compile(
    r"Rank (?P<rank>\d{1,7})"
    r"(?: has launched up to operation (?P<launched>\d{1,19})|(?P<none> has not launched any operations)"
    r"| has status (?P<status>[A-Z]{1,10})| reported (?P<error>[\w ]{1,60}))?"
    r"(?: -- (?:GPU (?P<gpu>\d{1,4})(?: \(NVML \d{1,4}\))? managed by process (?P<pid>\d{1,10})"
    r" on node (?P<host>\S{1,255})|\[process information not found\]))?"
)
# Missing communicator data from 2 ranks
_MISSING = re.compile(r"Missing communicator data from (\d{1,7}) ranks?")
# The missing ranks: 3,21        The unknown ranks: 4,5
_LIST = re.compile(r"The (missing|unknown) ranks?: (\d[\d,]{0,8000})")
# Encountered 2 communication timeouts while gathering communicator data
_TIMEOUTS = re.compile(r"Encountered (\d{1,9}) communication timeouts? ")

_STATUSES = {
    "NOCOMM": RasStatus.NOCOMM,
    "INIT": RasStatus.INIT,
    "RUNNING": RasStatus.RUNNING,
    "FINALIZE": RasStatus.FINALIZE,
    "ABORT": RasStatus.ABORT,
}
_PROCESSES = {"INCOMPLETE": RasStatus.SILENT, "DEAD": RasStatus.DEAD}


def parse_ras_text(data: bytes) -> RasNetwork:
    """Read one report, or as much of one as was kept. Raises InvalidInput where it is none."""
    reader = _Reader()
    for line in io.BytesIO(data):  # one after the other: as a list they would take many times their bytes
        reader.read(line[:_LONGEST_LINE].decode("utf-8", "replace").strip())
    return reader.finish(data)


class _Reader:
    """A report while it is read line by line."""

    def __init__(self) -> None:
        self._network = NetworkBuilder()
        self._version = ""
        self._sizes: dict[str, int] = {}
        self._known = 0
        self._timeouts = 0
        self._recognised = False
        self._processes = RasStatus.RUNNING
        self._one: CommunicatorBuilder | None = None
        self._all: list[CommunicatorBuilder] = []
        self._lost: dict[int, RasStatus] = {}
        """Processes that did not answer, by their index."""
        self._op = ANY_COLLECTIVE
        self._tally: Tally | None = None
        """The set of ranks whose members are listed next."""

    def finish(self, data: bytes) -> RasNetwork:
        if not self._recognised:
            raise InvalidInput(f"not a RAS report: {quoted(data)}")
        for one in self._all:
            self._tie_lost(one)
        return self._network.build(version=self._version, known=self._known, timeouts=self._timeouts)

    def read(self, line: str) -> None:
        """Take in one line."""
        if version := _VERSION.match(line):
            self._version, self._recognised = version[1], True
        elif line in _PROCESSES:
            self._processes, self._one, self._recognised = _PROCESSES[line], None, True
        elif row := _ROW.fullmatch(line):
            self._sizes[row["group"]] = int(row["size"])
            self._known += int(row["communicators"])
            self._recognised = True
        elif begun := _COMMUNICATOR.fullmatch(line):
            self._begin(begun)
        elif process := _PROCESS.fullmatch(line):
            at = self._network.peer(process[2], int(process[1]), process[3], self._processes)
            if self._processes is not RasStatus.RUNNING:
                self._lost[at] = self._processes
        elif lost := _LOST_PEER.fullmatch(line):
            status = RasStatus.DEAD if lost["event"] == "PEER_DEAD" else RasStatus.SILENT
            self._network.peer(lost["host"], int(lost["pid"]), lost["gpu"], status)
            self._recognised = True
        elif timeouts := _TIMEOUTS.match(line):
            self._timeouts = int(timeouts[1])
        elif self._one is not None:
            self._read_inside(line, self._one)

    def _begin(self, begun: re.Match[str]) -> None:
        group, number, hash_ = begun[1], begun[2], begun[3]
        size = self._sizes.get(group)
        self._one = self._network.communicator(group, number, hash_, hash_=f"0x{hash_}", size=size)
        self._op, self._tally, self._recognised = ANY_COLLECTIVE, None, True
        self._all.append(self._one)

    def _tie_lost(self, one: CommunicatorBuilder) -> None:
        """Before 2.28 missing ranks and lost processes are listed apart. Where there are as many, they are the same.

        One rank is that one process; of several it is known what has become of all of them, not which is which.
        """
        silent, states = one.standing(RasStatus.SILENT), set(self._lost.values())
        if not silent.ranks or silent.ranks & one.processes.keys() or len(silent.ranks) != len(self._lost):
            return
        if len(self._lost) == 1:
            one.processes[next(iter(silent.ranks))] = next(iter(self._lost))
        if states == {RasStatus.DEAD}:
            dead = one.standing(RasStatus.DEAD)
            for rank in silent.ranks:
                dead.add(rank)
            one.drop(RasStatus.SILENT)

    def _read_inside(self, line: str, one: CommunicatorBuilder) -> None:
        if different := _DIFFERENT.fullmatch(line):
            op = different[1].removesuffix(" operation")
            self._op = ANY_COLLECTIVE if op.startswith("collective") else op
            self._tally = None
        elif missing := _MISSING.fullmatch(line):
            self._tally = self._counted(one.standing(RasStatus.SILENT), missing[1])
        elif listed := _LIST.fullmatch(line):
            tally = self._tally or one.standing(RasStatus.SILENT if listed[1] == "missing" else RasStatus.UNKNOWN)
            for rank in listed[2].split(","):
                if rank and len(rank) <= 7:
                    self._network.count()
                    tally.add(int(rank))
        elif several := _RANKS.fullmatch(line):
            several_tally = self._tally_of(several, one)
            self._tally = None if several_tally is None else self._counted(several_tally, several["number"])
        elif single := _RANK.fullmatch(line):
            self._read_rank(single, one)

    def _read_rank(self, single: re.Match[str], one: CommunicatorBuilder) -> None:
        rank = int(single["rank"])
        tally = self._tally_of(single, one) or self._tally
        if tally is None or rank > MOST_RANK:
            return
        self._network.count()
        tally.add(rank)
        if single["pid"] is not None:
            silent = tally is one.standing(RasStatus.SILENT)
            status = RasStatus.SILENT if silent else RasStatus.RUNNING
            one.processes[rank] = self._network.peer(single["host"], int(single["pid"]), single["gpu"], status)

    def _tally_of(self, line: re.Match[str], one: CommunicatorBuilder) -> Tally | None:
        """The set that a line is about; None for one that only lists members."""
        if line["launched"] is not None:
            return one.launched(self._op, min(int(line["launched"]), _MOST_NUMBER))
        if line["none"] is not None:
            return one.launched(self._op, 0)
        if line["status"] is not None:
            return one.standing(_STATUSES.get(line["status"], RasStatus.UNKNOWN))
        return None if line["error"] is None else one.reporting(line["error"].strip().lower())

    def _counted(self, tally: Tally, number: str) -> Tally:
        tally.number = max(tally.number, int(number))
        return tally
