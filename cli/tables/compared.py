"""Two diagnoses as text: what differs first, then what does not."""

from cli.sources.watched.compared import ComparedDiagnoses
from cli.tables.table import table, text
from cli.terminal import escape


def compared_table(found: ComparedDiagnoses) -> str:
    """Return the headlines, and the facts side by side."""
    differ = [(fact.name, fact.left, fact.right) for fact in found.facts if fact.differ]
    same = [(fact.name, fact.left) for fact in found.facts if not fact.differ]
    lines = [f"A: {escape(found.left)}", f"B: {escape(found.right)}", ""]
    lines += table(("different", "A", "B"), differ) if differ else ["nothing differs"]
    if same:
        lines += ["", *table(("the same", ""), same)]
    return text(lines)
