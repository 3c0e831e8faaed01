"""Several jobs and none named: a mistake in the call, told with the names to choose from."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from cli.terminal import escape
from shared.errors import InvalidInput


@contextmanager
def named_job_needed(job: str | None) -> Iterator[None]:
    """Turn the complaint that several jobs are there into one about the call, where no job was named."""
    try:
        yield
    except InvalidInput as error:
        if job is not None or type(error) is not InvalidInput:
            raise
        raise click.UsageError(escape(f"{error}; {error.advice}: name it as JOB")) from error
