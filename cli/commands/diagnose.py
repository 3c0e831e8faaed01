"""`unhang diagnose`: which rank, why, what now."""

import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from cli.command_table import command
from cli.options import choose_source, source_words
from cli.terminal import emit, emit_json, note, redraw, wants_colour, width
from shared.shell_commands import copyable

if TYPE_CHECKING:
    from cli.sources.job_source import JobSource, JudgedJob, Wanted
    from shared.answer.diagnosis import Diagnosis

_WATCH_SECONDS = 5.0
"""Between two verdicts that are shown one over the other."""

STATUS = {"not_hung": 0, "hung": 10, "died": 10, "slow": 11, "cannot_tell": 12}
"""Exit status by verdict; an API, like the words."""


@command("diagnose")
@click.pass_context
def diagnose(
    context: click.Context,
    job: str | None,
    as_json: bool,
    markdown: bool,
    looks: int | None,
    interval: float | None,
    timeout: float | None,
    patience: float | None,
    native: str | None,
    watch: bool,
    output: Path | None,
    page: Path | None,
    save: Path | None,
    colour: str,
    verbose: bool,
) -> None:
    """Find the rank that hangs JOB, where it is now, and what proves it.

    Looks at the ranks on this machine, or on hosts over ssh, or asks a collector, or reads files. JOB may be left
    out where there is only one. Needs the right to trace the ranks: the same user, root, or CAP_SYS_PTRACE.
    """
    if as_json and markdown:
        raise click.UsageError("--json and --markdown cannot be combined")
    if watch and (context.meta["--from"], output, page, save) != (None, None, None, None):
        raise click.UsageError(
            "--watch shows a live job: it cannot be combined with --from, --output, --html or --save"
        )
    if page is not None:
        import_module("jinja2")  # of an extra: whoever lacks it hears so before the look
    source = choose_source()
    from cli.sources.job_source import Wanted

    wanted, form = Wanted(job, looks, interval, timeout, native, patience), _Form(as_json, markdown, colour)
    if watch:
        _watch(source, wanted, form)
    verdict = _judge(source, wanted, verbose=verbose)
    if save is not None:
        _save(verdict, save)
    diagnosis = _asked_here(verdict)
    if page is not None:
        _write_page(verdict, diagnosis, page)
    _show(diagnosis, form, output)
    context.exit(STATUS[verdict.diagnosis.verdict.value])


class _Form(NamedTuple):
    """How a verdict is written."""

    as_json: bool
    markdown: bool
    colour: str


def _watch(source: "JobSource", wanted: "Wanted", form: _Form) -> NoReturn:
    """Show one verdict after the other. Ends by an error, such as that the job is gone, or by a signal."""
    wanted = replace(wanted, keep=False)
    while True:
        diagnosis = _asked_here(_judge(source, wanted, verbose=False))
        redraw(_rendered(diagnosis, form, colour=wants_colour(form.colour)).removesuffix("\n"))
        time.sleep(_WATCH_SECONDS)


def _judge(source: "JobSource", wanted: "Wanted", *, verbose: bool) -> "JudgedJob":
    from cli.errors import named_job_needed
    from cli.progress import told_progress

    with told_progress(verbose=verbose) as progress, named_job_needed(wanted.job):
        return source.diagnose(wanted, progress)


def _asked_here(verdict: "JudgedJob") -> "Diagnosis":
    """Return it with steps that ask the way that was asked now."""
    from shared.answer.follow_up import asked_through

    return asked_through(verdict.diagnosis, *source_words())


def _save(verdict: "JudgedJob", place: Path) -> None:
    kept = verdict.save(place)
    again = copyable("unhang", "diagnose", "--from", str(kept))
    note(f"kept in {kept}" + ("" if again is None else f"; judge it again: {again}"))


def _show(diagnosis: "Diagnosis", form: _Form, output: Path | None) -> None:
    if form.as_json and output is None:
        emit_json(diagnosis)
        return
    painted = wants_colour(form.colour) and (output is None or form.colour == "always")
    text = _rendered(diagnosis, form, colour=painted)
    if output is None:
        emit(text)
        return
    _write(output, text)
    note(f"written to {output}")


def _write_page(verdict: "JudgedJob", diagnosis: "Diagnosis", file: Path) -> None:
    from collector.show.html.page import render_report
    from collector.show.html.report import report_of

    _write(file, render_report(report_of(verdict.kept().model_copy(update={"diagnosis": diagnosis}))))
    note(f"page written to {file}")


def _write(file: Path, text: str) -> None:
    from cli.sources.bundle import write_whole

    write_whole(file, lambda to: to.write(text.encode("utf-8", "backslashreplace")))


def _rendered(diagnosis: "Diagnosis", form: _Form, *, colour: bool) -> str:
    if form.as_json:
        return diagnosis.model_dump_json(by_alias=True) + "\n"
    if form.markdown:
        from collector.show.text.markdown import render_markdown

        return render_markdown(diagnosis)
    from collector.show.text.text import render_text

    return render_text(diagnosis, colour=colour, width=width())
