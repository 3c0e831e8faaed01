"""What is said: as much of a job as is asked for, hostile text as text, and each service's limits."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from collector.notify.notice import Notice, make_notice
from collector.notify.notify_file import NotifyFile
from collector.notify.outgoing import Outgoing
from collector.notify.receivers import Include
from collector.notify.send import compose
from shared.answer.action import Action
from shared.answer.diagnosis import Culprit, Diagnosis, Finding, LogEvidence, Place, StackClass
from shared.answer.incidents import Fingerprint, Incident, IncidentChange, IncidentChangeKind, IncidentEvent, SiteLink
from shared.answer.words import Act, Certainty, Kind, Verdict
from tests.build.services.incident_receivers import PagerDutyServer, Received, ReceiverServer, SlackServer
from tests.unit.collector.keep.watched.test_incidents import draft
from tests.unit.collector.notify.files import (
    OLD_SECRET,
    SECRET,
    alertmanager_file,
    pagerduty_file,
    read,
    slack_file,
    webhook_file,
    write_secret,
)

EVIL = "<!channel> *x* `rm` <https://evil.example|click> & \x1b[2J\n\u202e\ud800 @here"
ALL = frozenset(Include)
AT = "2026-11-22T20:00:00.000Z"
URL = "http://127.0.0.1:9"
KINDS = {"bot": webhook_file, "pager": pagerduty_file, "chat": slack_file, "ops": alertmanager_file}


def incident(text: str) -> Incident:
    """An incident in which everything that may come from a job or a person is this text."""
    found = draft(text, host=text)
    fingerprint = Fingerprint(job=text, user=text, kind=found.kind, culprits="3", group=text, sequence=7)
    more = {
        "id": "0195a1c8-7b31-7b3f-a2d6-a3933daff891",
        "user": text,
        "owner": text,
        "place": text,
        "before": 2,
        "action": Action(do=Act.FREE, text=text, reason=text, command=text, host=text),
        "headline": text,
        "fingerprint": fingerprint,
        "key": fingerprint.key,
        "diagnoses": ("0195a1c8-7b31-7b3f-a2d6-a3933daff892",),
        "links": (SiteLink(title="Logs", url="https://logs.example/?job=x"),),
        "history": (IncidentChange(at=AT, kind=IncidentChangeKind.ACKNOWLEDGED, by=text, note=text),),
        "culprits": (Culprit(rank=3, host=text),),
    }
    return found.model_copy(update=more)


def diagnosis(text: str) -> Diagnosis:
    """A diagnosis that is as bad, and large."""
    frames = tuple(Place(function=text, file=text, line=n) for n in range(300))
    lines = tuple(LogEvidence(ranks="3", text=text, line=text) for _ in range(50))
    finding = Finding(kind=Kind.RANK_NOT_JOINED, certainty=Certainty.PROVEN, evidence=lines)
    classes = (StackClass(ranks="0-3", frames=frames), StackClass(ranks="4", frames=(Place(function="no", file="no"),)))
    return Diagnosis(verdict=Verdict.HUNG, headline=text, findings=(finding,), stack_classes=classes)


def event_of(text: str, kind: IncidentChangeKind = IncidentChangeKind.OPENED) -> IncidentEvent:
    """The event of such an incident."""
    return IncidentEvent(id=7, at=AT, kind=kind, incident=incident(text))


def noticed(
    text: str, include: frozenset[Include] = ALL, kind: IncidentChangeKind = IncidentChangeKind.OPENED
) -> Notice:
    """What is said of it."""
    page = "https://unhang.example/"
    opening = event_of(text)
    return make_notice(event_of(text, kind), opening, include, diagnosis=diagnosis(text), page_url=page)


def files(folder: Path) -> dict[str, NotifyFile]:
    """A file with one receiver of each kind."""
    return {name: read(make(folder, URL)) for name, make in KINDS.items()}


def sent_to_all(folder: Path, notice: Notice) -> dict[str, Outgoing]:
    """What each kind of receiver is sent."""
    return {name: compose(file.receiver(name), notice, source="/unhang") for name, file in files(folder).items()}


def received(outgoing: Outgoing, path: str) -> Received:
    """It, as it arrives."""
    return Received(path, {name.lower(): value for name, value in outgoing.headers.items()}, outgoing.body, time.time())


def refusals(requests: dict[str, Outgoing]) -> dict[str, Any]:
    """What the services' rules are not content with."""
    pager = PagerDutyServer().judge(received(requests["pager"], "/v2/enqueue"))
    slack = SlackServer().judge(received(requests["chat"], requests["chat"].url.removeprefix(URL)))
    return {name: answer for name, answer in (("pager", pager), ("chat", slack)) if answer[0] not in (200, 202)}


def test_by_default_who_is_on_call_knows_which_job_which_node_and_what(tmp_path: Path) -> None:
    """A file without `include`: names and headline in one sentence and in the details, no stack and no line."""
    began = incident("Hush").model_copy(
        update={"job": "llama-7b", "hosts": ("node07",), "headline": "Hung: rank 3 sleeps"}
    )
    event = IncidentEvent(id=7, at=AT, kind=IncidentChangeKind.OPENED, incident=began)
    sent = {}
    for name, file in files(tmp_path).items():
        receiver = file.receiver(name)
        notice = make_notice(
            event, event, receiver.include, diagnosis=diagnosis("Stack"), page_url="https://unhang.example"
        )
        sent[name] = json.loads(compose(receiver, notice, source="/unhang").body)
        assert "Stack" not in json.dumps(sent[name]), name
    summary = "Hung: llama-7b: rank 3 sleeps (on node07; rank_not_joined proven; cause user_code; act free)"
    link = "https://unhang.example/incidents/0195a1c8-7b31-7b3f-a2d6-a3933daff891"
    (alert,) = sent["ops"]
    assert alert["annotations"]["summary"] == summary and alert["annotations"]["description"] == began.headline
    assert (alert["labels"]["job"], alert["labels"]["host"], alert["labels"]["rank"]) == ("llama-7b", "node07", "3")
    pager, bot = sent["pager"], sent["bot"]["data"]
    assert pager["payload"]["summary"] == sent["chat"]["text"] == bot["summary"] == summary
    assert (pager["payload"]["source"], pager["payload"]["group"]) == ("node07", "llama-7b")
    assert alert["generatorURL"] == pager["client_url"] == bot["link"] == link
    last = [block["text"]["text"] for block in sent["chat"]["blocks"][-3:-1]]
    assert last == [f"<{link}|Incident, with what to do now>", "<https://logs.example/?job=x|Logs>"]
    assert [each["href"] for each in pager["links"]] == [link, *bot["links"].values()]
    assert alert["annotations"]["link_logs"] == bot["links"]["Logs"]


def test_with_an_empty_include_nothing_of_a_job_is_sent(tmp_path: Path) -> None:
    """No name, no headline, no stack and no line; the fault, the ranks and where to look are there."""
    for kind in (IncidentChangeKind.OPENED, IncidentChangeKind.ACKNOWLEDGED, IncidentChangeKind.RESOLVED):
        for name, request in sent_to_all(tmp_path, noticed("Hush", frozenset(), kind)).items():
            assert b"hush" not in request.body.lower(), name
    for name, request in sent_to_all(tmp_path, noticed("Hush", frozenset())).items():
        for told in (b"rank_not_joined", b"user_code", b"proven", b"0195a1c8-7b31-7b3f-a2d6-a3933daff891"):
            assert told in request.body, name


@pytest.mark.parametrize(
    ("include", "marks"),
    [
        (Include.NAMES, {"names"}),
        (Include.HEADLINE, {"headline"}),
        (Include.STACKS, {"stacks"}),
        (Include.LINES, {"lines"}),
    ],
)
def test_what_is_asked_for_is_sent_alone(tmp_path: Path, include: Include, marks: set[str]) -> None:
    """Each part by itself; a stack is that of the culprit, with its innermost frames."""
    data = json.loads(sent_to_all(tmp_path, noticed("Hush", frozenset({include})))["bot"].body)["data"]
    assert {"names", "headline", "stacks", "lines"} & data.keys() == marks
    if include is Include.STACKS:
        assert data["stacks"][0].startswith("ranks 3\n") and data["stacks"][0].endswith("Hush:299")
    if include is Include.NAMES:
        assert data["names"]["job"] == data["names"]["host"] == data["names"]["by"] == "Hush"


def test_hostile_text_is_text(tmp_path: Path) -> None:
    """No mention, link or format in Slack; no control characters anywhere; whole JSON."""
    requests = sent_to_all(tmp_path, noticed(EVIL))
    assert refusals(requests) == {}
    for name, request in requests.items():
        shown = json.dumps(json.loads(request.body.decode("ascii")), ensure_ascii=False)
        assert "\x1b" not in shown and "\\u001b" not in shown and "\u202e" not in shown and "\ud800" not in shown, name
    message = json.loads(requests["chat"].body)
    for text in (message["text"], *(block["text"]["text"] for block in message["blocks"][1:])):
        ours = r"https://unhang\.example/incidents/[0-9a-f-]+\|Incident, with what to do now>"
        assert re.findall(rf"<(?!{ours}|https://logs\.example/\?job=x\|Logs>)", text) == []
        outside = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
        assert text is message["text"] or ("channel" not in outside and "*x*" not in outside and "@here" not in outside)
    assert message["unfurl_links"] is message["unfurl_media"] is False


@settings(max_examples=25, deadline=None)
@given(text=st.text(st.characters(codec=None), max_size=40), times=st.sampled_from([1, 3, 60, 4000]))
def test_any_text_fits(tmp_path_factory: pytest.TempPathFactory, text: str, times: int) -> None:
    """Limits of PagerDuty and of Slack's blocks, for names of any length in any characters."""
    folder = tmp_path_factory.mktemp("any")
    requests = sent_to_all(folder, noticed((text or "x") * times))
    assert refusals(requests) == {}
    assert all(len(request.body) < 300_000 for request in requests.values())


def test_webhook_is_a_cloudevent_signed_as_standard_webhooks(tmp_path: Path) -> None:
    """The official packages are content; what was changed is refused, and a second attempt has the same id."""
    (file,) = [file for name, file in files(tmp_path).items() if name == "bot"]
    write_secret(tmp_path / "secret", f"{SECRET}\n{OLD_SECRET}")
    notice = noticed(EVIL)
    request = compose(file.receiver("bot"), notice, source="https://unhang.example")
    for secret in (SECRET, OLD_SECRET):
        Webhook(secret).verify(request.body, dict(request.headers))
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(request.body + b" ", dict(request.headers))
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(request.body, {**request.headers, "webhook-id": "another"})
    again = compose(file.receiver("bot"), notice, source="https://unhang.example")
    assert (again.headers["webhook-id"], again.body) == (request.headers["webhook-id"], request.body)
    assert "." not in request.headers["webhook-id"]
    event = from_http(HTTPMessage(dict(request.headers), request.body), JSONFormat())
    assert event.get_id() == request.headers["webhook-id"]
    assert (event.get_type(), event.get_subject()) == ("unhang.incident.opened", notice.incident)
    assert event.get_source() == "https://unhang.example"
    data = event.get_data()
    assert isinstance(data, dict) and data["kind"] == "rank_not_joined"
    assert len(request.body) < 300_000


def test_what_is_told_of_a_change(tmp_path: Path) -> None:
    """PagerDuty's actions by one key; Alertmanager's labels stay those of the beginning, and `endsAt` is the end."""
    wanted = {
        IncidentChangeKind.OPENED: "trigger",
        IncidentChangeKind.REOPENED: "trigger",
        IncidentChangeKind.ACKNOWLEDGED: "acknowledge",
        IncidentChangeKind.RESOLVED: "resolve",
        IncidentChangeKind.FALSE_ALARM: "resolve",
    }
    for kind, action in wanted.items():
        requests = sent_to_all(tmp_path, noticed("demo", ALL, kind))
        event = json.loads(requests["pager"].body)
        assert (event["event_action"], event["dedup_key"]) == (action, incident("demo").key)
        assert ("payload" in event) is (action == "trigger")
        (alert,) = json.loads(requests["ops"].body)
        assert (alert["endsAt"] == AT) is (action == "resolve")
        assert alert["labels"]["severity"] == "critical" and alert["labels"]["job"] == "demo"
    changed = incident("demo").model_copy(update={"certainty": Certainty.SUSPECTED})
    later = IncidentEvent(id=8, at=AT, kind=IncidentChangeKind.RESOLVED, incident=changed)
    assert make_notice(later, event_of("demo"), ALL).labels["certainty"] == "proven"


def test_job_that_died_as_a_whole_is_not_said_to_hang() -> None:
    """It was not found hung; what of it is over is said as of every other."""
    dead = incident("demo").model_copy(update={"headline": "Died: ranks 0-3 were killed by signal 9", "died": True})
    said = {}
    for kind in (IncidentChangeKind.OPENED, IncidentChangeKind.REOPENED, IncidentChangeKind.RESOLVED):
        event = IncidentEvent(id=7, at=AT, kind=kind, incident=dead)
        notice = make_notice(event, event, ALL)
        said[kind] = notice.summary.partition(" (")[0]
        assert "ung" not in notice.title
    assert list(said.values()) == [
        f"{word}: demo: ranks 0-3 were killed by signal 9" for word in ("Died", "Died again", "Resolved")
    ]


def test_nothing_secret_is_shown_of_a_request(tmp_path: Path) -> None:
    """Logs and errors may hold its representation."""
    for request in sent_to_all(tmp_path, noticed("demo")).values():
        shown = repr(request)
        assert "127.0.0.1" not in shown and "R0123" not in shown and "services" not in shown
    assert ReceiverServer().received == []
