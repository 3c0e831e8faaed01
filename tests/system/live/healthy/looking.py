"""Starts one healthy job and looks at it at moments, in a container: `python -m tests.system.live.healthy.looking`.

It is the first process of the container: with it everything ends.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

START_SECONDS = 240.0
"""A job whose others do not wait by then has failed to start."""

LOOK_SECONDS = 300.0
AT_ONCE = 2
"""Looks at the same time, as when two engineers ask; more of them only wait for one another."""

END_SECONDS = 90.0
"""How long after its last look a job may take to end; then it is said to go on."""


class Look(NamedTuple):
    """One question, and the process that answers it."""

    asked_at: float
    job: str
    process: "subprocess.Popen[bytes]"
    answer: Path


def run(order: Mapping[str, Any]) -> dict[str, Any]:
    """Start a job, look at it, wait for its end, and tell of it."""
    folder = Path(order["folder"])
    with open(folder / "output", "wb") as output:
        job = subprocess.Popen(
            ["bash", "-c", order["command"]],
            cwd=folder, env={**os.environ, **order["environment"]}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    if not _waits(folder / "output", order["waits_from"], job):
        return {"looks": [], "failed": _tail(folder / "output"), "status": job.poll()}
    begun = time.monotonic()
    looks: list[Look] = []
    for number, moment in enumerate(order["moments"]):
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        while sum(look.process.poll() is None for look in looks) >= AT_ONCE:
            time.sleep(0.1)
        looks.append(_ask(number, begun, order))
    told = [_told(look, begun) for look in looks]
    (folder / "enough").touch()
    with suppress(subprocess.TimeoutExpired):
        job.wait(END_SECONDS)
    return {"looks": told, "status": job.poll(), "failed": _tail(folder / "output") if job.poll() else ""}


def _waits(output: Path, words: str, job: "subprocess.Popen[bytes]") -> bool:
    """Wait until the output holds these words; False where the job ends before, or takes too long."""
    until = time.monotonic() + START_SECONDS
    while words.encode() not in output.read_bytes():
        if job.poll() is not None or time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _ask(number: int, begun: float, order: Mapping[str, Any]) -> Look:
    """Ask, in a process of its own; the next question does not wait for the answer."""
    jobs: Sequence[str] = order["jobs"] or [""]
    job = jobs[number % len(jobs)]
    answer = Path(order["folder"], f"look{number}.json")
    command = [
        *order["unhang"],
        "diagnose",
        *([job] if job else []),
        *order["options"],
        "--json",
        "--output",
        str(answer),
    ]
    with open(answer.with_suffix(".err"), "wb") as errors:
        process = subprocess.Popen(
            command, cwd=order["checkout"], env={**os.environ, "PYTHONPATH": order["checkout"]},
            stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
        )  # fmt: skip
    return Look(time.monotonic() - begun, job, process, answer)


def _told(look: Look, begun: float) -> dict[str, Any]:
    """Wait for an answer, and tell what matters in it."""
    try:
        status: int | None = look.process.wait(LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        status = None
    told: dict[str, Any] = {
        "asked_at": round(look.asked_at, 1), "job": look.job, "status": status,
        "answered_by": round(time.monotonic() - begun, 1),
    }  # fmt: skip
    try:
        answer = json.loads(look.answer.read_bytes())
    except (OSError, ValueError):
        return {**told, "verdict": "none", "headline": _tail(look.answer.with_suffix(".err"))[-400:], "findings": []}
    keys = ("kind", "cause", "certainty")
    findings = [
        {**{key: finding[key] for key in keys}, "culprits": [culprit["rank"] for culprit in finding["culprits"]]}
        for finding in answer["findings"]
    ]
    return {**told, "verdict": answer["verdict"], "headline": answer["headline"], "findings": findings}


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-2000:] if path.exists() else ""


if __name__ == "__main__":
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    said = Path(sys.argv[1])
    Path(said).with_name("result.json").write_text(json.dumps(run(json.loads(said.read_text())), indent=1))
    os._exit(0)
