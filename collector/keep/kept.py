"""What is kept of a diagnosis, whether in a store or in a bundle. Apart from the store: a bundle needs no database."""

from collector.align.expected import Expected
from shared.answer.diagnosis import Diagnosis
from shared.value import Value
from shared.wire.snapshot import NodeSnapshot


class Kept(Value):
    """A diagnosis with everything it rests on."""

    diagnosis: Diagnosis
    expected: Expected
    snapshots: tuple[NodeSnapshot, ...]
