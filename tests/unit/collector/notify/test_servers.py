"""The servers of the tests are right: the official clients are content with them, and they refuse what is wrong."""

import base64
import ssl
from pathlib import Path

import pagerduty
import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.webhook import WebhookClient

from tests.build.services.certificates import Authority
from tests.build.services.incident_receivers import (
    ROUTING_KEY,
    SLACK_CHANNEL,
    SLACK_PATH,
    SLACK_TOKEN,
    PagerDutyServer,
    SlackServer,
    served_receiver,
)


def test_pagerduty_client_is_content(tmp_path: Path) -> None:
    """An alert is triggered, triggered again, acknowledged and resolved; after that it is another one."""
    server = PagerDutyServer()
    authority = Authority(tmp_path)
    trusted = ssl.create_default_context(cafile=authority.file)
    with served_receiver(server, authority.sign("127.0.0.1")):
        client = pagerduty.EventsApiV2Client(ROUTING_KEY, base_url=server.url, verify=trusted)
        for _ in range(2):
            assert client.trigger("down", "node1", dedup_key="k") == "k"
        client.acknowledge("k")
        assert [(each["state"], len(each["triggers"])) for each in server.alerts] == [("acknowledged", 2)]
        client.resolve("k")
        client.trigger("down", "node1", dedup_key="k")
        assert [each["state"] for each in server.alerts] == ["resolved", "triggered"]
        for wrong in ({"severity": "bad"}, {"summary": "x" * 1025}, {"source": ""}):
            with pytest.raises(pagerduty.HttpError):
                client.trigger("down", "node1", payload=wrong)
        client.close()


def test_slack_client_is_content() -> None:
    """With text and blocks; too many, too long or unknown ones are refused."""
    server = SlackServer()
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "x"}}
    with served_receiver(server):
        client = WebhookClient(server.url + SLACK_PATH)
        assert client.send(text="hello", blocks=[section]).body == "ok"
        assert client.send(text="").body == "no_text"
        assert client.send(text="x", blocks=[section] * 51).body == "invalid_blocks"
        long = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}
        assert client.send(text="x", blocks=[long]).body == "invalid_blocks"
        long = {"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}
        assert client.send(text="x", blocks=[long]).body == "invalid_blocks"
        assert (
            WebhookClient(server.url + "/services/" + base64.b16encode(b"x").decode()).send(text="x").status_code == 404
        )


def test_slack_api_client_is_content() -> None:
    """A message is answered with its time, a reply names that, and refusals have their words."""
    server = SlackServer()
    with served_receiver(server):
        client = WebClient(SLACK_TOKEN, base_url=f"{server.url}/api/")
        first = client.chat_postMessage(channel=SLACK_CHANNEL, text="hello")
        client.chat_postMessage(channel=SLACK_CHANNEL, text="again", thread_ts=first["ts"])
        assert [each.get("thread_ts") for each in server.posted.values()] == [None, first["ts"]]
        for wrong, word in (
            ({"channel": "C9"}, "channel_not_found"),
            ({"thread_ts": "1"}, "thread_not_found"),
            ({"token": "x"}, "invalid_auth"),
        ):
            with pytest.raises(SlackApiError, match=word):
                client.chat_postMessage(**{"channel": SLACK_CHANNEL, "text": "x", **wrong})
