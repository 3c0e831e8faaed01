"""Starts one healthy job and looks at it at moments, in a container: `python looking.py ORDER`.

It is the first process of the container: with it everything ends. It is run by the Python, and with the path, of the
checkout that is asked: looks are forks of it, so that `unhang` is imported once. On a busy machine that takes longer
than what is looked at.
"""

import gc
import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

START_SECONDS = 240.0
"""A job whose others do not wait by then has failed to start."""

AT_ONCE = 4
"""Looks at the same time, as when engineers ask independently; more of them only wait for one another."""

END_SECONDS = 20.0
"""How long after its last look a job may take to end; then it is said to go on."""


class Look(NamedTuple):
    """One question, and the process that answers it."""

    asked_at: float
    job: str
    pid: int
    answer: Path


def run(order: Mapping[str, Any]) -> dict[str, Any]:
    """Start a job, look at it, wait for its end, and tell of it."""
    folder = Path(order["folder"])
    with open(folder / "output", "wb") as output:
        job = subprocess.Popen(
            ["bash", "-c", order["command"]],
            cwd=folder, env={**_environment(), **order["environment"]}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    if not _waits(folder / "output", order["waits_from"], job):
        return {"looks": [], "failed": _tail(folder / "output"), "status": job.poll()}
    looks = _look(order)
    load = round(os.getloadavg()[0])
    (folder / "enough").touch()
    with suppress(subprocess.TimeoutExpired):
        job.wait(END_SECONDS)
    failed = _tail(folder / "output") if job.poll() else ""
    return {"looks": looks, "load": load, "status": job.poll(), "failed": failed}


def _environment() -> dict[str, str]:
    """Ours, without what was for us alone."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _waits(output: Path, words: str, job: "subprocess.Popen[bytes]") -> bool:
    """Wait until the output holds these words; False where the job ends before, or takes too long."""
    until = time.monotonic() + START_SECONDS
    while words.encode() not in output.read_bytes():
        if job.poll() is not None or time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _look(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Look at each moment, or as soon as the looks before it leave room, and tell of each."""
    begun, looks = time.monotonic(), list[Look]()
    answered: dict[int, tuple[int, float]] = {}
    for number, moment in enumerate(order["moments"]):
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        _reap(looks, answered, begun, most=AT_ONCE - 1)
        looks.append(_ask(number, begun, order))
    _reap(looks, answered, begun, most=0)
    return [_told(look, *answered[look.pid]) for look in looks]


def _reap(looks: Sequence[Look], answered: dict[int, tuple[int, float]], begun: float, *, most: int) -> None:
    """Note the status and the time of looks that end, until at `most` so many have not."""
    while True:
        for look in looks:
            if look.pid not in answered and (ended := os.waitpid(look.pid, os.WNOHANG))[0]:
                answered[look.pid] = os.waitstatus_to_exitcode(ended[1]), time.monotonic() - begun
        if len(looks) - len(answered) <= most:
            return
        time.sleep(0.1)


def _ask(number: int, begun: float, order: Mapping[str, Any]) -> Look:
    """Ask, in a process of its own; the next question does not wait for the answer."""
    jobs: Sequence[str] = order["jobs"] or [""]
    job = jobs[number % len(jobs)]
    answer = Path(order["folder"], f"look{number}.json")
    options = [*([job] if job else []), *order["options"], "--json", "--output", str(answer)]
    options += ["--save", str(answer.with_suffix(""))]
    pid = os.fork()
    if pid == 0:
        _be_unhang(["diagnose", *options], answer.with_suffix(".err"))
    return Look(time.monotonic() - begun, job, pid, answer)


def _be_unhang(arguments: Sequence[str], output: Path) -> NoReturn:
    """Be the command, and never return."""
    status = 1
    try:
        written = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(written, 1)
        os.dup2(written, 2)
        sys.argv = ["unhang", *arguments]
        importlib.import_module("cli.main").main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - a fork must not go on as its parent would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _told(look: Look, status: int, after: float) -> dict[str, Any]:
    """Tell what matters in an answer."""
    told = {"asked_at": round(look.asked_at, 1), "answered_at": round(after, 1), "job": look.job, "status": status}
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
    for module in ("cli.main", "cli.commands.diagnose", "cli.sources.one_box"):
        importlib.import_module(module)
    gc.freeze()
    order_file = Path(sys.argv[1])
    result = run(json.loads(order_file.read_text()))
    order_file.with_name("result.json").write_text(json.dumps(result, indent=1))
    os._exit(0)
