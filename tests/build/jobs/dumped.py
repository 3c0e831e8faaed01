"""Entries of a flight record as PyTorch dumps them."""

from typing import Any


def dumped_entry(**fields: Any) -> dict[str, Any]:
    """One entry with PyTorch's keys in PyTorch's order; fields that are given as ... are left out."""
    sizes, types = [[8, 4]], ["Float"]
    whole = {
        "frames": [],
        "record_id": 7,
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "thread_name": "pt_main_thread",
        "thread_id": "139670158785408",
        "collective_seq_id": 1,
        "p2p_seq_id": 0,
        "op_id": 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_790_000_000_000_000_000,
        "duration_ms": ...,
        "input_sizes": sizes,
        "input_dtypes": types,
        "output_sizes": sizes,
        "output_dtypes": types,
        "state": "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }
    return {key: value for key, value in (whole | fields).items() if value is not ...}
