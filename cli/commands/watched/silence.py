"""`unhang silence`: tell nobody of some incidents for a while."""

import getpass
import re

import click

from cli.command_table import command
from cli.options import choose_collector
from cli.terminal import answer, note

# job=llama   host!=node07   job=~llama-.*   kind!~rank_.*
_MATCHER = re.compile(r"(?P<name>\w{1,64})(?P<how>=~|!~|!=|=)(?P<value>.*)", re.DOTALL)
_DURATION = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@command("silence")
def silence(
    matchers: tuple[str, ...],
    as_json: bool,
    duration: str,
    comment: str,
    by: str | None,
    listing: bool,
    expire: str | None,
) -> None:
    """Send no messages about incidents whose labels match: job, user, kind, cause, certainty, host, rank, group or key.

    LABEL=VALUE is equal, LABEL!=VALUE is not, LABEL=~PATTERN and LABEL!~PATTERN match text with . .* .+ and |.
    """
    if sum((bool(matchers), listing, expire is not None)) != 1:
        raise click.UsageError("give matchers, or --list, or --expire ID")
    if matchers and not comment:
        raise click.UsageError("say why with --comment")
    seconds, chosen = _seconds(duration), [_matcher(text) for text in matchers]
    remote = choose_collector()
    from cli.sources.incidents import expire_silence, list_silences, put_silence
    from cli.tables.incidents import silences_table

    if expire is not None:
        expire_silence(remote, expire)
        note(f"{expire} has ended")
        return
    if chosen:
        id = put_silence(remote, chosen, seconds=seconds, by=by or getpass.getuser(), comment=comment)
        note(f"silenced for {duration}; end it with: unhang silence --expire {id}")
    answer(list_silences(remote), as_json, lambda page: silences_table(page.silences))


def _seconds(text: str) -> int:
    found = _DURATION.fullmatch(text)
    if found is None or not int(found["count"]):
        raise click.BadParameter("write it as 30m, 2h or 1d", param_hint="--for")
    return int(found["count"]) * _UNITS[found["unit"]]


def _matcher(text: str) -> dict[str, object]:
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise click.BadParameter("write it as LABEL=VALUE", param_hint="LABEL=VALUE")
    how = found["how"]
    return {"name": found["name"], "value": found["value"], "isRegex": "~" in how, "isEqual": "!" not in how}
