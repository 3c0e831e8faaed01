"""The table of contents of a bundle: what was asked, and what did not answer."""

from pydantic import Field

from collector.diagnose.expected import Expected
from shared import VERSION
from shared.value import Value

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
