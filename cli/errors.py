"""Several jobs and none named, or files in the place of a job: mistakes in the call, each told with what to type."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import click

from cli.terminal import escape
from shared.errors import InvalidInput

# 2 jobs are there: slurm-4242, --output=x        2 jobs are there: '-o x', b
_LIKE_AN_OPTION = re.compile(r" '?-")


@contextmanager
def named_job_needed(job: str | None) -> Iterator[None]:
    """Turn the complaint that several jobs are there into one about the call, where no job was named.

    Raises UsageError where `job` is a path to what is there: files are read with `--from`.
    """
    if job is not None and "/" in job and Path(job).exists():
        raise click.UsageError(f"{escape(job)} is no job, but files: read them with --from {escape(quote(job))}")
    try:
        yield
    except InvalidInput as error:
        if job is not None or type(error) is not InvalidInput:
            raise
        behind = ", behind -- if its name begins with a dash" if _LIKE_AN_OPTION.search(str(error)) else ""
        raise click.UsageError(escape(f"{error}; {error.advice}, as JOB{behind}")) from error
