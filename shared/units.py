"""Amounts as people read them."""

_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def bytes_in_words(count: float) -> str:
    """Return a number of bytes with two digits that matter: `8.1 MB`, `20 kB`."""
    size, unit = next(((size, unit) for size, unit in _SIZES if count >= size), (1.0, "bytes"))
    amount = count / size
    return f"{amount:.0f} {unit}" if amount >= 10 or size == 1.0 else f"{amount:.1f} {unit}"


def seconds_in_words(seconds: float) -> str:
    """Return a time in seconds, from two minutes on in minutes, from two hours on in hours: `7 s`, `12 minutes`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


def duration_text(seconds: float) -> str:
    """Return `94 s`, `17 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
