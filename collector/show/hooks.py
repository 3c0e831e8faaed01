"""What a scheduler is asked to do about a diagnosis: commands and documents, by the table `hooks.toml`.

A pure function: nothing is run here. What the diagnosis advises decides, so code is never anybody's reason to leave a
node out. Names go into commands only where they are such as schedulers have: none can be an option or a second word.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from collector.show.text.printable import printable
from shared.answer.diagnosis import Culprit, Diagnosis
from shared.answer.words import Act, Cause, Certainty, Kind, Verdict
from shared.packs import read_tables
from shared.wire.job_names import OF_SLURM, plain_name

_ROWS: dict[str, list[dict[str, Any]]] = read_tables(__file__, "hooks.toml")

SYSTEMS = tuple(_ROWS)
ACTS = (Act.RESTART, Act.RESTART_WITHOUT_NODES)
"""What a machine may do: all other acts are a person's."""

# node07, gpu-3.cluster.local, team-a/llama-0, 4242; not -n, a b, $(id)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)
# node07,node09
_LIST = re.compile(rf"{_NAME.pattern}(?:,{_NAME.pattern})*", re.ASCII)
# 4242
_NUMBER = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_WORD = re.compile(r"\{(\w+)\}")
_NAMES = {"number": _NUMBER, "pid": _NUMBER, "node": _NAME, "nodes": _LIST, "pod": _NAME, "namespace": _NAME}
_FREE = frozenset({"message"})
"""Words of ours, with an id of ours."""
_GONE = frozenset({Kind.RANK_EXITED, Kind.RANK_MISSING, Kind.RANK_UNREACHABLE})
"""Of these a pid is nobody's any more, or another's by now."""
_COMPONENTS = {Cause.GPU_FAULT: "GPU", Cause.DEVICE_SYNC: "GPU", Cause.NETWORK: "NIC"}


class Hook(NamedTuple):
    """One thing to do. `command` empty: `send` is a document to send; else what the command reads."""

    about: str
    command: tuple[str, ...]
    send: str
    host: str | None
    """The node on which to run the command; None: anywhere."""


def hooks_for(diagnosis: Diagnosis, system: str) -> tuple[Hook, ...]:
    """Return what to ask of a system, in order; none where the act is a person's, or what it takes is not known."""
    action = diagnosis.action
    if action is None or action.do not in ACTS:
        return ()
    rows = [row for row in _ROWS[system] if row["act"] == action.do]
    made = [_hook(row, words) for row in rows for words in _words(diagnosis, row.get("for_each", ""))]
    return tuple(hook for hook in made if hook is not None)


def is_proven(diagnosis: Diagnosis) -> bool:
    """Is it certain enough for a machine to act on it alone?"""
    return any(finding.certainty is Certainty.PROVEN for finding in diagnosis.findings[:1])


def _hook(row: Mapping[str, Any], words: Mapping[str, str]) -> Hook | None:
    """Return a row with its words filled in; None where one that it needs is not known, or is no name."""
    needed = {name for part in row.get("run", ()) for name in _WORD.findall(part)} - _FREE
    if not all(_NAMES[name].fullmatch(words.get(name, "")) for name in needed):
        return None
    command = tuple(part.format_map(words) for part in row.get("run", ()))
    send = json.dumps(_filled(row["send"], words)) if "send" in row else ""
    return Hook(row["about"], command, send, words["host"] if row.get("on_node") else None)


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(one, words) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    return value.format_map(words) if isinstance(value, str) else value


def _words(diagnosis: Diagnosis, each: str) -> Iterator[Mapping[str, str]]:
    """Yield the words that rows may hold, once for each thing that a row is for."""
    assert diagnosis.action is not None
    first = next(iter(diagnosis.findings), None)
    cause = Cause.UNKNOWN if first is None else first.cause
    job, nodes = plain_name(diagnosis.job or ""), diagnosis.action.exclude
    common = {
        "job": printable(job, most=200),
        "number": job.removeprefix(OF_SLURM),
        "nodes": ",".join(nodes),
        "cause": cause.value,
        "component": _COMPONENTS.get(cause, "Node"),
        "reason": "".join(part.capitalize() for part in f"unhang_{cause}".split("_")),
        "message": f"unhang: {cause}, diagnosis {diagnosis.id}",
        "made_at": diagnosis.made_at,
        "diagnosis": diagnosis.id,
    }
    if each == "node":
        yield from (common | {"node": node, "host": node} for node in nodes)
    elif each and first is not None and diagnosis.verdict is Verdict.HUNG:
        yield from (common | _of_culprit(culprit, first.kind) for culprit in first.culprits)
    elif not each:
        yield common


def _of_culprit(culprit: Culprit, kind: Kind) -> dict[str, str]:
    namespace, _, pod = (culprit.pod or "").partition("/")
    pid = "" if culprit.pid is None or kind in _GONE else str(culprit.pid)
    return {"namespace": namespace, "pod": pod, "pid": pid, "host": culprit.host or ""}
