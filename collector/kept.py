"""What is kept of a diagnosis, whether in a store or in a bundle."""

from collector.diagnose.expected import Expected
from shared.diagnosis import Diagnosis
from shared.snapshot import NodeSnapshot
from shared.value import Value


class Kept(Value):
    """A diagnosis with everything it rests on."""

    diagnosis: Diagnosis
    expected: Expected
    snapshots: tuple[NodeSnapshot, ...]
