"""A bundle: one archive with a diagnosis and everything it rests on, which `unhang diagnose --from` reads."""

import gzip
import io
import re
import tarfile
from collections.abc import Sequence
from datetime import datetime
from typing import IO

from pydantic import Field

from collector.align.expected import Expected
from collector.keep.kept import Kept
from shared import VERSION
from shared.value import Value

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def bundle_name(kept: Kept) -> str:
    """Return a file name for the bundle, safe on every system."""
    return f"unhang-{_safe(kept.diagnosis.job or 'job')}-{kept.diagnosis.id}.tar.gz"


def write_bundle(kept: Kept, to: IO[bytes]) -> None:
    """Write the bundle as a .tar.gz. The same diagnosis gives the same bytes."""
    made_at = _seconds(kept.diagnosis.made_at)
    names = [f"snapshots/{i:05d}-{_safe(one.host or 'files')}.json" for i, one in enumerate(kept.snapshots)]
    manifest = Manifest(
        diagnosis=kept.diagnosis.id,
        job=kept.diagnosis.job,
        made_at=kept.diagnosis.made_at,
        expected=kept.expected,
        files=("diagnosis.json", *names),
    )
    members: Sequence[tuple[str, Value]] = [
        ("manifest.json", manifest),
        ("diagnosis.json", kept.diagnosis),
        *zip(names, kept.snapshots, strict=True),
    ]
    with (
        gzip.GzipFile(filename="", fileobj=to, mode="wb", compresslevel=6, mtime=made_at) as deflated,
        tarfile.open(fileobj=deflated, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, value in members:
            data = value.model_dump_json(by_alias=True).encode()
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), made_at, 0o600
            archive.addfile(info, io.BytesIO(data))


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text).strip("._")[:80] or "unnamed"


def _seconds(made_at: str) -> int:
    try:
        return int(datetime.fromisoformat(made_at).timestamp())
    except ValueError:
        return 0


BUNDLE_VERSION = 1


class Manifest(Value):
    """`manifest.json` of a bundle. With the snapshots beside it, the verdict can be reached again."""

    unhang_bundle: int = Field(default=BUNDLE_VERSION, description="Version of the bundle's layout.")
    made_by: str = VERSION
    diagnosis: str = Field(default="", description="Id of the diagnosis that the bundle is of.")
    job: str | None = None
    made_at: str = ""
    expected: Expected = Expected()
    files: tuple[str, ...] = ()
