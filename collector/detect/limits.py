"""Every number by which a job is suspected and an alarm is raised, with its reason."""

from shared.wire.registration import STILL_SECONDS

LEAST_STILL_SECONDS = 30.0
"""How long a job must have stood still before anybody looks: data loading and logging take less in nearly all jobs."""
USUAL_PAUSES = 3.0
"""… and how many times the longest pause that is usual for a job of its name …"""
LONGEST_PAUSES = 1.25
"""… and how many times the longest pause that was seen once: that one may have been an accident."""
MOST_STILL_SECONDS = 1_800.0
"""… but a job that has stood for half an hour is looked at in any case: looking costs seconds."""
BEHIND_SECONDS = STILL_SECONDS
"""Ranks that wait in an operation which others have not issued: sooner, for somebody keeps them waiting …"""
BEHIND_PAUSES = 1.5
"""… but not within usual pauses, in which one rank saves a checkpoint and the others wait for it. It is no alarm
before it has lasted longer than any pause that this run has come out of by itself."""
PARTLY_STILL = 2.0
"""Where some ranks stand and others go on: this many times as long. Helpers of a job may have little to do."""
IDLE_SECONDS = 60.0
"""Ranks whose marks cannot be read, and that do nothing at all: longer, for that is the weaker sign."""
UNANSWERED_SECONDS = STILL_SECONDS
"""How long a request must have waited while no rank of the server does anything: an engine at work moves."""
SIGN_SECONDS = 300.0
"""How long an Xid, an OOM kill or a link that is down makes the collector look as soon as any rank stands still."""
SPINS_SECONDS = 30.0
"""How long most GPUs of a job must have spun: the driver averages over a second, and is asked twice a minute then."""
TIMEOUT_SHARE = 0.75
TIMEOUT_SPARE_SECONDS = 40.0
"""When to look before a job's own timeout strikes and takes the evidence: whichever is sooner, but for short timeouts a
third. Two diagnoses and what lies between them take that long on a busy machine."""
EXITED_SECONDS = 3.0
"""After a rank has ended badly: its launcher usually ends the others within seconds, and all ends are to be seen."""

LOST_SECONDS = 25.0
"""Until when a job that ended badly as a whole is looked at, once: the diagnosis keeps how its ranks ended."""

PACE_SECONDS = 300.0
"""How long the operations of a running job are counted for each figure of its pace …"""
LEAST_PACES, MOST_PACES = 4, 144
"""… of which so many must be known before, half a day's at most …"""
SLOWER_TIMES, SLOWER_SHARE = 2, 0.7
"""… until it is looked at since the last two are below this share of what was usual."""
SLOW_SECONDS = 600.0
"""Between the looks that find the same rank to slow a job down, before it is an alarm: a step or two may be uneven."""

AGAIN_SECONDS = 30.0
"""Until a job that was found well, or of which nothing could be told, is looked at again: as long as it has stood …"""
MOST_AGAIN_SECONDS = 600.0
"""… and this at most."""
IDLE_AGAIN_SECONDS = 3_600.0
"""The same of a job that was found idle: a server that waits for requests does so for days."""
CONFIRM_SECONDS = 5.0
"""Between the two diagnoses that raise an alarm."""
DIAGNOSIS_SECONDS = 30.0
"""What one may take, without patience."""
UNTOLD_SECONDS = 10.0
"""The same after a diagnosis that could not tell, of a job that was found hung before: agents may have been slow."""
LEAST_BETWEEN_SECONDS = 4.0
"""Between any two looks at a job."""
SUSPICION_SECONDS = 900.0
"""How long a first finding counts."""
HUNG_AGAIN_SECONDS = 900.0
"""How often a job with an open incident is looked at: what holds it may have changed."""

FLAP_SECONDS = 10.0
"""How long ranks must have gone on until an incident is over."""
ENDED_SECONDS = 5.0
"""How long a job must be gone: a restart takes a moment."""
SILENT_SECONDS = 90.0
"""Agents send their digests twice a minute, of thousands each once: what one has not told for longer is not known."""
FORGOTTEN_SECONDS = 3_600.0
"""How long a job is remembered of which no agent tells any more."""

LEAST_LEARNT_SECONDS = 10.0
"""Shorter pauses change nothing: a job is not looked at before `LEAST_STILL_SECONDS`."""
MOST_LEARNT = 64
"""Pauses of a job that are remembered."""

UNREACHABLE_SECONDS = 240.0
"""A node that has paused, as when its machine is moved to another host, comes back within minutes. Counts from when
it was last heard of; twice that of one that is heard of and cannot be asked."""
MOST_TIMEOUT_SHARE = 0.9
"""No phase holds an alarm back beyond this share of the job's own timeout: then the job is lost anyway."""
