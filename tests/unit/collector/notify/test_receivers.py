"""The notify file: what is wrong in it is said by name, and nothing that may be a secret is quoted."""

from pathlib import Path

import pytest

from collector.notify.receivers import Include, WebhookReceiver
from shared.errors import InvalidSettings, NotFound
from tests.build.services.incident_receivers import ROUTING_KEY
from tests.unit.collector.notify.files import OLD_SECRET, SECRET, read, write_notify_file, write_secret

FILE = """
page_url = "https://unhang.example"

[receivers.ops]
type = "alertmanager"
url = "http://alertmanager.example:9093/"
labels = {severity = "critical", team = "training"}
include = ["names"]

[receivers.pager]
type = "pagerduty"
routing_key_file = "key"

[receivers.bot]
type = "webhook"
url = "https://bot.example/hooks/unhang"
secret_file = "secret"
include = ["names", "headline", "stacks", "lines"]
"""
HOSTS = 'allow_hosts = ["alertmanager.example", "events.pagerduty.com", "bot.example"]'


def test_file_is_read_with_paths_beside_it(tmp_path: Path) -> None:
    """Each kind of receiver."""
    found = read(write_notify_file(tmp_path, FILE, head=HOSTS))
    assert list(found.receivers) == ["ops", "pager", "bot"]
    assert found.receiver("ops").destination() == "http://alertmanager.example:9093/api/v2/alerts"
    assert found.receiver("pager").destination() == "https://events.pagerduty.com/v2/enqueue"
    bot = found.receiver("bot")
    assert isinstance(bot, WebhookReceiver) and len(bot.secrets()) == 1 and bot.include == frozenset(Include)
    write_secret(tmp_path / "secret", f"{SECRET}\n# until Monday\n{OLD_SECRET}")
    assert len(bot.secrets()) == 2
    with pytest.raises(NotFound, match="nobody") as caught:
        found.receiver("nobody")
    assert "bot, ops, pager" in caught.value.advice


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[receivers.x", "is not TOML"),
        ("other = 1", "'other' in the notify file"),
        ('[receivers.Pager]\ntype = "webhook"\nurl = "https://bot.example"\nsecret_file = "secret"', "lower-case"),
        ('[receivers.x]\ntype = "carrier-pigeon"', "'receivers.x.type' in the notify file"),
        ('[receivers.x]\ntype = "pagerduty"\nrouting_key = "hush-hush"', "'receivers.x.routing_key"),
        ('[receivers.x]\ntype = "pagerduty"\nrouting_key_file = "nothing"', "cannot be read"),
        ('[receivers.x]\ntype = "pagerduty"\nrouting_key_file = "secret"', "no integration key"),
        ('[receivers.x]\ntype = "webhook"\nurl = "https://bot.example"\nsecret_file = "key"', "whsec_"),
        (
            '[receivers.x]\ntype = "webhook"\nurl = "https://other.example"\nsecret_file = "secret"',
            "'other.example' is not",
        ),
        ('[receivers.x]\ntype = "webhook"\nurl = "https://bot.example.evil"\nsecret_file = "secret"', "not allowed"),
        (
            '[receivers.x]\ntype = "webhook"\nurl = "https://a:hush-hush@bot.example"\nsecret_file = "secret"',
            "not that",
        ),
        (
            '[receivers.x]\ntype = "webhook"\nurl = "file:///etc/passwd"\nsecret_file = "secret"',
            "not that of a receiver",
        ),
        ('[receivers.x]\ntype = "pagerduty"\nurl = "http://bot.example"\nrouting_key_file = "key"', "in the clear"),
        ('[receivers.x]\ntype = "alertmanager"\nurl = "http://bot.example"\nlabels = {"a-b" = "c"}', "names of labels"),
        ('[receivers.x]\ntype = "alertmanager"\nurl = "http://bot.example"\ninclude = ["everything"]', "include.0'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    """Where it stands, and what to do; never the value."""
    file = write_notify_file(tmp_path, text, head='allow_hosts = ["bot.example", "events.pagerduty.com"]')
    with pytest.raises(InvalidSettings) as caught:
        read(file)
    shown = f"{caught.value} {caught.value.advice}"
    assert said in shown, shown
    assert "hush-hush" not in shown and ROUTING_KEY not in shown and SECRET not in shown


def test_secrets_that_others_may_read_are_refused(tmp_path: Path) -> None:
    """As token files are."""
    file = write_notify_file(tmp_path, FILE, head=HOSTS)
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(InvalidSettings, match=r"receiver pager .*accessible to others"):
        read(file)


def test_absent_file(tmp_path: Path) -> None:
    """It is named."""
    with pytest.raises(InvalidSettings, match=r"notify\.toml cannot be read"):
        read(tmp_path / "notify.toml")
