"""`unhang notify`: a test alert to a real server, and the list of what a collector has sent."""

import json
from pathlib import Path

from collector.app import create_app, get_service
from collector.notify.receivers import WebhookReceiver
from collector.settings import CollectorSettings
from tests.build.processes.commands import unhang
from tests.build.services.incident_receivers import ROUTING_KEY, PagerDutyServer, served_receiver
from tests.build.services.services import running
from tests.unit.collector.keep.watched.test_incidents import draft
from tests.unit.collector.notify.files import pagerduty_file, webhook_file


def test_test_alert_says_that_it_is_one(tmp_path: Path) -> None:
    """It is triggered and, with --resolve, over; a refusal is an error that says why."""
    server = PagerDutyServer()
    with served_receiver(server):
        file = str(pagerduty_file(tmp_path, server.url))
        done = unhang("notify", "test", "pager", "--notify-file", file)
        assert done.status == 0 and "pager took the test alert" in done.err and "set page_url" in done.err
        (alert,) = server.alerts
        assert alert["triggers"][0]["summary"].startswith("TEST, nothing hangs: Hung: unhang-test:")
        assert unhang("notify", "test", "pager", "--notify-file", file, "--resolve").status == 0
        assert [each["state"] for each in server.alerts] == ["resolved"]
        (tmp_path / "key").write_text("0" * 32)
        refused = unhang("notify", "test", "pager", "--notify-file", file)
        assert refused.status == 1 and "HTTP 400: Event object is invalid" in refused.err
        unknown = unhang("notify", "test", "nobody", "--notify-file", file)
        assert unknown.status == 1 and "receivers: pager" in unknown.err
    down = unhang("notify", "test", "pager", "--notify-file", file)
    assert down.status == 1 and "refused" in down.err
    assert ROUTING_KEY not in done.err and "routing_key: ***" in refused.err


def test_messages_are_listed_and_incidents_say_who_was_not_told(tmp_path: Path) -> None:
    """As a table and as JSON; given up is said where incidents are listed."""
    settings = CollectorSettings(
        agents="node9",
        store=str(tmp_path / "store.sqlite3"),
        audit_log=tmp_path / "audit.jsonl",
        notify_file=webhook_file(tmp_path, "http://127.0.0.1:9"),
    )
    app = create_app(settings)
    with running(app, settings, app.state.audit) as service:
        store, url = get_service(app).store, service.plain_url("")
        store.deliveries.enter("gone", WebhookReceiver.changes)
        found = store.incidents.report(draft(), ["d"])
        store.deliveries.enter("gone", WebhookReceiver.changes)
        (lost,) = store.deliveries.claim(["gone"], most=1)
        store.deliveries.give_up(lost, "HTTP 410\x1b[2J")
        listed = unhang("notify", "list", "--receiver", "gone", "--collector", url)
        assert listed.status == 0 and "given_up" in listed.out and "\x1b" not in listed.out
        page = json.loads(unhang("notify", "list", "--json", "--state", "given_up", "--collector", url).out)
        assert [each["incident"] for each in page["deliveries"]] == [found.id]
        assert "(not delivered: gone)" in unhang("incidents", "--collector", url).out
        metrics = unhang("incidents", "--json", "--collector", url)
        assert json.loads(metrics.out)["incidents"][0]["undelivered_to"] == ["gone"]


def test_wrong_notify_file_ends_the_collector_in_one_sentence(tmp_path: Path) -> None:
    """Before it listens."""
    file = tmp_path / "notify.toml"
    file.write_text('[receivers.x]\ntype = "slack"\nurl_file = "slack"\n')
    store = str(tmp_path / "store.sqlite3")
    done = unhang("collector", "--agents", "node9", "--store", store, "--notify-file", str(file))
    assert done.status == 1 and "the receiver x in" in done.err and "cannot be read" in done.err
