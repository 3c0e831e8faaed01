"""What runs in the job's own Python, handed over as source: it imports the standard library and PyTorch alone."""

import pkgutil


def program() -> str:
    """Return the source of the process that runs trials."""
    return "\n".join(
        (pkgutil.get_data(__name__, f"{name}.py") or b"").decode() for name in ("rank_work", "trial_runner")
    )
