"""Links to the site's own logs and dashboards: what a job is called leads nowhere else, and no mistake passes."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.notify.links import PLACES, links_of
from collector.notify.notify_file import read_notify_file
from shared.answer.incidents import SiteLink
from shared.errors import InvalidSettings
from tests.build.jobs.incidents import draft

NOW = datetime(2026, 11, 22, 21, tzinfo=UTC)
TEMPLATES = {
    "Logs": "https://logs.example/jobs/{job}?host={node}&from={since}&to={until}",
    "GPUs": "http://[::1]:3000/d/gpus?rank={rank}&from={since_ms}&to={until_ms}#top",
}


def linked(job: str = "llama/7b&x", **more: object) -> tuple[SiteLink, ...]:
    """The links of an incident."""
    times = {"opened_at": "2026-11-22T20:00:00.000Z", "still_since": "2026-11-22T19:59:00.000Z"}
    return links_of(TEMPLATES, draft(job).model_copy(update={**times, **more}), NOW)


def test_values_are_filled_in_quoted() -> None:
    """Of an open incident the time until now, of one that is over until its end."""
    assert [each.url for each in linked()] == [
        "https://logs.example/jobs/llama%2F7b%26x?host=node1&from=2026-11-22T19%3A59%3A00.000Z&to=2026-11-22T21%3A00%3A00Z",
        "http://[::1]:3000/d/gpus?rank=3&from=1795377540000&to=1795381200000#top",
    ]
    over = linked(resolved_at="2026-11-22T20:30:00.000Z")
    assert parse_qs(urlsplit(over[0].url).query)["to"] == ["2026-11-22T20:30:00.000Z"]
    assert [each.title for each in linked(hosts=(), culprits=())] == []


@given(st.text(max_size=600))
def test_no_name_leads_elsewhere(job: str) -> None:
    """Whatever a job is called, its link stays at its host, in its folder and without another parameter."""
    for link in linked(job):
        parts, plain = urlsplit(link.url), urlsplit(TEMPLATES[link.title])
        assert (parts.scheme, parts.netloc, parts.fragment) == (plain.scheme, plain.netloc, plain.fragment)
        assert parts.path.count("/") == plain.path.count("/") and not parts.path.endswith(("/.", "/.."))
        assert parse_qs(parts.query, keep_blank_values=True).keys() == parse_qs(plain.query).keys()
        assert link.url.isascii() and link.url.isprintable() and " " not in link.url


@pytest.mark.parametrize(
    "template",
    [
        "https://{job}.example/",
        "https://logs.example{job}/",
        "https://logs.example:{rank}/",
        "javascript:alert(1)//{job}",
        "//logs.example/{job}",
        "https://user@logs.example/{job}",
        "https://logs.example/{secret}",
        "https://logs.example/{job",
        "https://logs.example/{}",
        "https://logs.example/{{job}}",
        'https://logs.example/"><script>',
        "https://logs.example/ {job}",
        "https:///{job}",
        "https://logs.example\\@evil.example/{job}",
    ],
)
def test_templates_that_are_refused(tmp_path: Path, template: str) -> None:
    """At the start of the collector, with the place of the mistake."""
    file = tmp_path / "notify.toml"
    file.write_text(f"[links]\nLogs = '{template}'\n")
    with pytest.raises(InvalidSettings, match="links"):
        read_notify_file(file)


def test_file_of_links_alone(tmp_path: Path) -> None:
    """All that can be filled in may stand in one."""
    file = tmp_path / "notify.toml"
    file.write_text(
        "[links]\nAll = 'https://logs.example/?" + "&".join(f"{each}={{{each}}}" for each in PLACES) + "'\n"
    )
    assert read_notify_file(file).links.keys() == {"All"}
