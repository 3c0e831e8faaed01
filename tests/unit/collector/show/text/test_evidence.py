"""Evidence of nodes as text: the sentence, and the kernel's own line under it."""

from collector.show.text.evidence import evidence_lines
from shared.answer.diagnosis import Evidence, Finding, GpuEvidence, KernelEvidence
from shared.answer.words import Certainty, Kind

LINE = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\x1b[31m"


def shown(*evidence: Evidence) -> list[str]:
    """The lines of a finding with some evidence."""
    finding = Finding(kind=Kind.STUCK_TOGETHER, certainty=Certainty.SUSPECTED, evidence=evidence)
    return ["".join(span.text for span in each) for each in evidence_lines(finding, 100)]


def test_line_of_the_kernel_stands_under_its_sentence() -> None:
    """Printable, whatever a process has named itself."""
    told = KernelEvidence(ranks="2-3", text="the kernel of b tells of Xid 79", host="b", line=LINE, at=1.0)
    lines = shown(told)
    assert lines[0] == "kernel  the kernel of b tells of Xid 79"
    assert "Xid (PCI:0000:3b:00): 79" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_gpu_is_told_in_one_sentence() -> None:
    """It names the device."""
    told = GpuEvidence(ranks="3", text="GPU 1 of b: the driver says: GPU is lost", host="b", index=1)
    assert shown(told) == ["gpu  GPU 1 of b: the driver says: GPU is lost"]
