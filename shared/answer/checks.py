"""What is wrong or risky in how a job was started. Part of the answer: the words are API."""

from enum import StrEnum

from pydantic import Field

from shared.rank_sets import FoldedRanks
from shared.value import Value


class Severity(StrEnum):
    """How much it matters."""

    WRONG = "wrong"
    """It prevents ranks from rendezvousing or communicating."""
    RISKY = "risky"
    """It may do so, which the job's owner can judge, or it makes ranks wait forever after a fault."""
    NOTE = "note"
    """It causes no hang, but makes the next one harder to diagnose, or the job slower."""


class CheckId(StrEnum):
    """Each thing that is checked."""

    DUPLICATE_RANKS = "duplicate_ranks"
    WORLD_SIZES_DIFFER = "world_sizes_differ"
    RANK_BEYOND_WORLD = "rank_beyond_world"
    MASTERS_DIFFER = "masters_differ"
    TWO_RENDEZVOUS = "two_rendezvous"
    RESTARTED_ALONE = "restarted_alone"
    MASTER_IS_LOCAL = "master_is_local"
    HOST_NAME_IS_LOCAL = "host_name_is_local"
    PORT_TAKEN = "port_taken"
    ONE_PROCESS_OF_MANY = "one_process_of_many"
    DEVICES_SHARED = "devices_shared"
    DEVICE_BEYOND_VISIBLE = "device_beyond_visible"
    GPUS_IDLE = "gpus_idle"
    INTERFACE_MISSING = "interface_missing"
    INTERFACES_DIFFER = "interfaces_differ"
    HCA_MISSING = "hca_missing"
    SETTINGS_DIFFER = "settings_differ"
    VERSIONS_DIFFER = "versions_differ"
    NCCL_KNOWN_FAULT = "nccl_known_fault"
    ERRORS_IGNORED = "errors_ignored"
    WATCHDOG_OFF = "watchdog_off"
    WATCHDOG_LATE = "watchdog_late"
    TIMEOUT_LONG = "timeout_long"
    RECORDER_OFF = "recorder_off"
    NCCL_SILENT = "nccl_silent"
    LAUNCHES_BLOCK = "launches_block"
    FEW_CPUS = "few_cpus"
    MANY_THREADS = "many_threads"
    SITE_RULE = "site_rule"
    """A rule of the site: see `rule`."""


class Check(Value):
    """One problem in how the job was started."""

    id: CheckId
    severity: Severity
    ranks: FoldedRanks = Field(description="The ranks that have the problem.")
    hosts: tuple[str, ...] = ()
    seen: str = Field(description="What was found, and on which ranks.")
    why: str = Field(description="Why it matters.")
    change: str = Field(description="What to change.")
    rule: str = Field(default="", description="Which rule of the site it is; empty: one of unhang's own.")
