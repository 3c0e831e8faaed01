"""`unhang preflight`: try the nodes before the job, or after a hang, and name the bad ones."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from cli.command_table import command
from cli.options import collector_at, hosts_and_way
from cli.terminal import answer, note, width

if TYPE_CHECKING:
    from cli.preflight.place import NodePlace
    from cli.preflight.session import PreflightPlan
    from cli.sources.remote import Remote
    from cli.sources.ssh_command import Way
    from shared.answer.preflight import PreflightReport

STATUS = {"sound": 0, "bad_nodes": 10, "cannot_tell": 12}


@command("preflight")
@click.pass_context
def preflight(
    context: click.Context,
    python: str | None,
    backend: str,
    coordinator: str | None,
    node: int | None,
    nodes: int | None,
    token_file: Path | None,
    master_port: int | None,
    deadline: float,
    trial_seconds: float,
    start_seconds: float,
    size: int | None,
    slow_factor: float,
    out: Path | None,
    collector: str | None,
    collector_token_file: Path | None,
    over_stdio: bool,
    as_json: bool,
) -> None:
    """Try the nodes of a job with small jobs of their own, and name the bad nodes and links.

    Runs under your launcher, one task on each node, or over ssh: it starts the job's own Python and PyTorch there. Each
    trial is a process group with a hard timeout. The first node coordinates and prints the report.
    """
    from cli.preflight.board import Limits
    from cli.preflight.place import Said, find_place
    from cli.preflight.session import PreflightPlan

    limits = Limits(deadline, trial_seconds, min(start_seconds, deadline), size, slow_factor)
    wanted = PreflightPlan(backend, master_port or _master_port(), limits)
    if over_stdio:
        _serve_over_stdio(node, nodes, python)
        return
    over = hosts_and_way()
    place = None if over is not None else find_place(os.environ, Said(node, nodes, coordinator))
    asked = collector if place is None or place.coordinates else None
    ending = _Ending(out, None if asked is None else collector_at(asked, collector_token_file), as_json)
    if over is not None:
        _finish(context, _tried_over(over[0], over[1], python, wanted), ending)
    elif place is not None:
        report = _tried_here(place, python, token_file, wanted)
        if report is not None and place.coordinates:
            _finish(context, report, ending)


def _tried_over(hosts: tuple[str, ...], way: "Way", python: str | None, wanted: "PreflightPlan") -> "PreflightReport":
    from cli.preflight.launch import over_ssh

    return over_ssh(hosts, way, ["preflight", "--over-stdio", *(["--python", python] if python else [])], wanted)


def _tried_here(
    place: "NodePlace", python: str | None, token_file: Path | None, wanted: "PreflightPlan"
) -> "PreflightReport | None":
    from cli.preflight.launch import Launch, read_token, take_part

    if place.spare:
        return None
    token = read_token(os.environ, token_file, alone=place.nodes == 1)
    return take_part(Launch(place, _chosen(python), token), wanted)


def _chosen(python: str | None) -> str:
    from cli.preflight.runner_process import default_python

    return python or default_python()


class _Ending(NamedTuple):
    """What is done with the report."""

    out: Path | None
    collector: "Remote | None"
    as_json: bool


def _serve_over_stdio(node: int | None, nodes: int | None, python: str | None) -> None:
    from cli.preflight.launch import serve_over_stdio
    from cli.preflight.place import NodePlace

    if node is None or nodes is None:
        raise click.UsageError("--over-stdio needs --node and --nodes")
    serve_over_stdio(NodePlace(node, nodes, "", 0), _chosen(python))


def _master_port() -> int:
    from cli.preflight.session import DEFAULT_MASTER_PORT

    said = os.environ.get("MASTER_PORT", "")
    return int(said) if said.isascii() and said.isdecimal() and 0 < int(said) < 65_536 else DEFAULT_MASTER_PORT


def _finish(context: click.Context, report: "PreflightReport", ending: _Ending) -> None:
    from cli.tables.preflight import render_preflight

    if ending.out is not None:
        _write(report, ending.out)
    if ending.collector is not None:
        _send(report, ending.collector)
    answer(report, ending.as_json, partial(render_preflight, width=width()))
    context.exit(STATUS[report.verdict.value])


def _send(report: "PreflightReport", collector: "Remote") -> None:
    """Send the result; where that fails, the report is still printed, and the status is still its."""
    from cli.sources.incidents import keep_preflight
    from shared.errors import UnhangError

    try:
        note(f"kept by the collector as preflight {keep_preflight(collector, report)}")
    except UnhangError as error:
        note(f"the collector does not keep the result: {error}")


def _write(report: "PreflightReport", out: Path) -> None:
    from cli.sources.bundle import write_whole
    from shared.answer.preflight import NodeState
    from shared.errors import InvalidSettings

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettings(f"{out} cannot be made: {error.strerror}") from error
    files = {
        "good_nodes": "".join(f"{host}\n" for host in report.hosts(NodeState.GOOD)),
        "bad_nodes": "".join(f"{host}\n" for host in report.hosts(NodeState.BAD)),
        "report.json": report.model_dump_json(indent=2) + "\n",
    }
    for name, text in files.items():
        content = text.encode("utf-8", "backslashreplace")
        write_whole(out / name, lambda to, content=content: to.write(content))  # type: ignore[misc]
    note(f"written to {out}")
