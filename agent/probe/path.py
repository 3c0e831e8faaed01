"""Where the probe lies, for PYTHONPATH."""

from pathlib import Path


def probe_path() -> Path:
    """Return the directory to put first on a job's PYTHONPATH. It holds the probe and nothing else."""
    return Path(__file__).parent / "inside"
