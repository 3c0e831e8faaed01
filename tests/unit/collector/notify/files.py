"""Notify files for tests, with the secrets that they name."""

import base64
from pathlib import Path

from collector.notify.notify_file import NotifyFile, read_notify_file
from tests.build.services.incident_receivers import ROUTING_KEY, SLACK_CHANNEL, SLACK_PATH, SLACK_TOKEN

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes !!!").decode()
OLD_SECRET = "whsec_" + base64.b64encode(b"the secret that came before that").decode()


def write_secret(file: Path, text: str) -> Path:
    """Write a file that nobody else may read."""
    file.touch(mode=0o600)
    file.write_text(f"{text}\n")
    return file


def write_notify_file(folder: Path, text: str, *, head: str = 'allow_hosts = ["127.0.0.1"]') -> Path:
    """Write a notify file; `secret`, `key` and `slack` beside it are the secrets that it may name."""
    write_secret(folder / "secret", SECRET)
    write_secret(folder / "key", ROUTING_KEY)
    file = folder / "notify.toml"
    file.write_text(f"{head}\n{text}\n")
    return file


def webhook_file(folder: Path, url: str, more: str = "", *, name: str = "bot") -> Path:
    """A file with one webhook."""
    receiver = f'[receivers.{name}]\ntype = "webhook"\nurl = "{url}/hook"\nsecret_file = "secret"\n{more}'
    return write_notify_file(folder, receiver)


def pagerduty_file(folder: Path, url: str, more: str = "") -> Path:
    """A file with PagerDuty as `pager`."""
    receiver = f'[receivers.pager]\ntype = "pagerduty"\nurl = "{url}"\nrouting_key_file = "key"\n{more}'
    return write_notify_file(folder, receiver)


def slack_file(folder: Path, url: str, more: str = "") -> Path:
    """A file with Slack as `chat`."""
    write_secret(folder / "slack", url + SLACK_PATH)
    return write_notify_file(folder, f'[receivers.chat]\ntype = "slack"\nurl_file = "slack"\n{more}')


def slack_app_file(folder: Path, url: str, more: str = "", *, channel: str = SLACK_CHANNEL) -> Path:
    """A file with an app of Slack's as `chat`."""
    write_secret(folder / "token", SLACK_TOKEN)
    receiver = f'type = "slack"\ntoken_file = "token"\nchannel = "{channel}"\nurl = "{url}"'
    return write_notify_file(folder, f"[receivers.chat]\n{receiver}\n{more}")


def alertmanager_file(folder: Path, url: str, more: str = "") -> Path:
    """A file with Alertmanager as `ops`."""
    receiver = f'[receivers.ops]\ntype = "alertmanager"\nurl = "{url}"\nlabels = {{severity = "critical"}}\n{more}'
    return write_notify_file(folder, receiver)


def read(file: Path) -> NotifyFile:
    """Read it as the collector does."""
    return read_notify_file(file)
