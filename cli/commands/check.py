"""`unhang check`: is anything wrong in how a job was started?"""

from typing import TYPE_CHECKING

import click

from cli.options import choose_source, colour_option, job_argument, json_option, source_options, ssh_options
from cli.terminal import emit, emit_json, wants_colour, width

if TYPE_CHECKING:
    from collector.show.views import ChecksView

_NOTHING_WRONG, _WRONG, _RISKY, _CANNOT_TELL = 0, 10, 11, 12


@click.command(
    short_help="Check how a job was started.",
    epilog="""\b
Examples:
  unhang check                                  the only job on this machine
  unhang check slurm-4242 --collector http://head:8470
  unhang check --from looks/ --json | jq '.checks[].id'

Status: 0 nothing wrong (there may be notes), 10 something is wrong, 11 something is risky, 12 nothing could be
checked; 1 failed, 2 usage.""",
)
@job_argument
@source_options
@ssh_options
@json_option
@colour_option
@click.pass_context
def check(
    context: click.Context,
    job: str | None,
    as_json: bool,
    colour: str,
) -> None:
    """Check how JOB was started: ranks, meeting places, ports, interfaces, devices, versions, settings.

    Says of each thing that is wrong or risky on which ranks it was seen, why it matters, and the line to change.
    """
    source = choose_source()
    from cli.job_view import ask_view, tell_gaps
    from cli.sources.aspects import CHECKS
    from cli.sources.job_source import JobChoice
    from collector.show.text.checks import render_checks

    view = ask_view(source, CHECKS, JobChoice(job))
    if as_json:
        emit_json(view)
    else:
        emit(render_checks(view.checks, looked_at=view.looked_at, colour=wants_colour(colour), width=width()))
        tell_gaps(view, "settings")
    context.exit(_status(view))


def _status(view: "ChecksView") -> int:
    worst = {check.severity.value for check in view.checks}
    if "wrong" in worst:
        return _WRONG
    if "risky" in worst:
        return _RISKY
    return _NOTHING_WRONG if view.looked_at else _CANNOT_TELL
