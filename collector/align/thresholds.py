"""Every number by which the verdict decides, with its reason. Bounds of what is shown stand where it is shown."""

# Agreement: how many must say the same.


def is_majority(part: int, whole: int) -> bool:
    """More than half: the only share that no other side can have as well."""
    return 2 * part > whole


LEAST_AGREEING = 2
"""Ranks that must agree against another. One against one is a tie: nothing shows which of them is odd."""
LEAST_EARLIER = 2
"""Earlier steps that make a habit. What was done once may have been the exception."""
LEAST_VOTES = 3
"""Ranks or groups that do the same, where they are weighed by what is usual and not by what must match.

Unlike a signature, an order of calls may differ for good reasons: two that agree may share one.
"""
LEAST_NODES = 3
"""Nodes of which something common can be told at all: of two that differ, either may be the odd one."""

# How far back records are compared.

FARTHEST_SHIFT = 4
"""Operations by which a rank may be off and still be recognised: more are a different program."""
COMPARED_FROM_SHIFT = 12
"""Operations that must match once a shift is taken off: a training step is often shorter, and repeats."""
COMPARED_BEFORE = 16
"""Sequences before a disagreement on which a witness must have done the same: a step or two."""

# Motion: a hang is told from a pause.

BUSY_CPU_SHARE = 0.05
"""Main-thread CPU time over wall time above which a rank is busy. Polls of a blocked thread stay below it."""
IDLE_SWITCHES_PER_SECOND = 1.0
"""A blocked thread may still wake for a poll: torch's DataLoader does every 5 s (MP_STATUS_CHECK_INTERVAL)."""
WATCH_SECONDS = 0.5
"""A rank that has stood still for as long as it was watched, but for so much, was not seen to move."""
SPARE_SWITCHES = 2
"""Wakes beyond that rate that a short interval may hold: our own look causes one or two."""
LONG_LOOK_SECONDS = 1.0
"""A look that takes so long, as on a busy machine, tells by itself whether a rank moves: others are over too soon."""
LEAST_SEEN_SHARE = 0.1
"""Share of the time from the first look to the last that must have been compared to say that a rank stood still."""
BUSY_BYTES = 65_536
"""Bytes read and written between two beats above which a rank is at work, though it may sleep in every look."""
OTHERS_CPU_SHARE = 0.1
"""The same of children and of other threads, where nothing shows that the rank waits for these: monitors use a few per
cent."""
SOME_BYTES = 4_096
"""The same of a rank that is in a read or a write, or waits for a reply: a slow download, and no keep-alive."""
LEAST_CPU_SECONDS = 0.03
"""CPU time below which a share of it means nothing: clocks tick a hundred times a second."""
FROZEN_GAPS = 2.0
"""How many times its longest usual gap a job must have stood still before frozen ranks mean a hang."""
FROZEN_SECONDS = 5.0
"""The same in seconds at least: a job may pause once, for an epoch's end or a slow disk."""
UNANSWERED_SECONDS = 20.0
"""How long a request must have waited while a process that serves it stands still: locks are held for less."""
BUSY_GAPS = 10.0
"""As `FROZEN_GAPS`, where the rank waited for is at work, or where healthy ranks are for a while, too."""
BUSY_SECONDS = 60.0
"""As `FROZEN_SECONDS`, there: a checkpoint or a compilation takes as long in a healthy job."""

# Dumps that somebody asked for.

SECOND_DUMP_SECONDS = 10
"""After which a second dump of each rank is worth while: twice `FROZEN_SECONDS`, as nobody takes all at one moment."""
LEAST_APART_SECONDS = 0.9 * SECOND_DUMP_SECONDS
"""… of which a rank may lack a little: not all are written at one moment. Nearer ones are more often two copies."""
LATE_DUMP = 2.0
"""How many times as old as its timeout an operation may be in a dump of a watchdog, which are all written at once."""
DUMPS_APART = 2.0
"""How much further apart the dumps of one rank may be than those of another, to be of two looks at all of them."""
FILE_CLOCK_SECONDS = 1.0
"""By which the clock that gives files their times may be off that of the rank which wrote them."""
MOMENT_SECONDS = 2.0
"""A sleep of which no more is left is part of a loop, whose other work shows between two looks."""
HELD_UP_SECONDS = 600.0
"""How long a rank that demonstrably works may keep others waiting before it is called hung: most checkpoints,
compilations and preparations of data are done by then …"""
HELD_UP_GAPS = 30.0
"""… and how many times the longest pause that is known of the job: who always pauses for a minute may need half an
hour for once …"""
TIMEOUT_NEAR = 0.9
"""… but from this share of the job's own timeout on in any case, for then the job is lost anyway."""

# A job of which no rank is left.

ENDED_WAITING_SECONDS = 30.0
"""Ranks that had waited in one operation for so long when they ended with an error had hung: most timeouts are longer,
and what an exception on one rank does to the others takes less."""
LINGERS_SECONDS = 2.0
"""A rank that is killed so long after others were asked to end did not heed that: agents see who is gone twice a
second at best."""

# Stragglers in flight records.

STRAGGLER_SHARE = 0.15
"""A straggler waits for less than this share of the time …"""
VICTIM_SHARE = 0.30
"""… while the others, in the median, wait for more than this share …"""
LEAST_DISTANCE = 0.20
"""… and each of them for this much more than it does …"""
VICTIM_SECONDS = 0.020
"""… and for more than this long each time it matters …"""
LEAST_PAUSES = 3
"""… which is as often as this at least: one long pause is no habit …"""
HABIT_SHARE = 0.1
"""… nor is a lag that usually is less than this share of a step, whatever a network has held up once."""
LEAST_OPERATIONS = 4
"""Fewer operations than this tell nothing about a habit."""

NOTICED_NS = 100_000_000
"""By which an end may be noticed late: PyTorch's watchdog looks ten times a second (kWatchdogThreadSleepMillis) …"""
LEAST_NOTICED = 3
"""… so that steps of fewer such times do not tell who waits in them."""

# Stragglers in samples of stacks.

LEAST_SAMPLES = 8
"""Looks needed: of fewer, chance alone gives a share as low as a straggler's."""
SAMPLED_STRAGGLER_SHARE = 0.2
"""A straggler is seen waiting in at most this share of the samples …"""
SAMPLED_VICTIM_SHARE = 0.6
"""… and every other rank in at least this share …"""
LEAST_WAKES = 3
"""… and has come out of a wait between at least so many of the looks."""

# Descriptors and connections.

LEAST_RETRANSMITS = 3
"""A lost packet or two is everyday's; each further one doubles the wait."""
BROKEN_LINK_RETRANSMITS = 5
"""Five unanswered repetitions take six seconds at least: TCP_RTO_MIN of 200 ms, doubled each time."""
NEARLY_ALL = 0.9
"""Share of the other ranks that have what this one lacks: one or two may be about to get it."""
FULL_TABLE = 0.95
"""Share of the limit of descriptors: the rest goes for one import or one connection to each peer."""

# GPUs and network ports of those who are stuck together.

IDLE_GPU_PERCENT = 5
"""Utilization of a GPU with nothing to do: its driver samples others, such as a desktop's or a monitor's, too."""
USED_GPU_PERCENT = 95
"""… and of one that a kernel keeps busy all the time."""
SPINNING_POWER_SHARE, COMPUTING_POWER_SHARE = 0.4, 0.55
"""Of the power that a fully used GPU may draw, where what it usually draws is not known: NCCL's waiting kernels take
150 to 250 W of an H100's 700, and between the two shares it may be either."""
MOVING_BYTES_PER_SECOND = 1 << 20
"""What an RDMA port carries while collectives move: keep-alives and a subnet manager's packets are far less."""
LEAST_PORT_ERRORS = 10
"""By which error counters of a port's own link must have grown: a few symbol errors an hour are normal."""
LIKE_OTHERS_SHARE = 0.1
"""… and of which other nodes' ports of that name may have had so much at most."""

# Clocks.

NEAR_NS = 30_000_000_000
"""Clocks closer than this are taken as they are: looks and starts are no closer together themselves."""
LOOSEST_NS = 500_000_000
"""Bounds further apart than this do not set a clock."""
KERNEL_CLOCK_SECONDS = 5.0
"""The kernel's clock and ours drift apart by so much."""
RAS_REPORTS_APART_NS = 1_000_000_000
"""Reports of NCCL RAS closer than this are one look: they do not show that counts stand still."""

# Log lines.

INCIDENT_SECONDS = 900.0
"""The watchdogs of a job lose patience within minutes of each other, and end it: what lies further apart is of another
incident, and a log still written to so long after a timeout is of a job that went on."""
AT_ONCE_SECONDS = 0.5
"""Within which the lines of two writers have no order."""
FULL_WAIT = 0.95
"""Share of its timeout that a wait has lasted when it is one: below it a peer has died or given up."""
KEEP_ALIVE_ATTEMPTS = 3
"""Heartbeats that an agent of torchelastic misses before the others give it up; one alone fails at any job's end."""

# NCCL RAS.

LEAST_LAUNCHES_BEHIND = 4
"""Launches by which one rank is behind all others in the one report there is: of a healthy job they differ, too, for a
moment, by one or two, and then seldom from all others alike."""

# How many ranks a job may have by its highest rank alone: a guess by mere absence.

GUESSED_AT_LEAST = 1024
GUESSED_PER_RANK = 64
"""For each rank that is seen."""
