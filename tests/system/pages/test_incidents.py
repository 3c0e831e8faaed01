"""Incidents and the states of watched jobs in a browser: listed, found again, answered, and renewed as they happen."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.align.expected import Expected
from collector.app import create_app
from collector.keep.store import Store
from collector.settings import CollectorSettings
from shared.answer.words import Cause, Kind
from shared.wire.snapshot import Identity
from tests.build.agents.fake_agents import JOB
from tests.build.agents.served_agents import served, whole_job
from tests.build.jobs.hostile import EVIL
from tests.build.jobs.incidents import draft
from tests.build.jobs.judged import judged
from tests.build.services.services import Service, running
from tests.system.pages.browser import Browser
from tests.system.pages.test_collector import address, foreign_page, kept, quiet
from tests.unit.collector.judge.trails.test_by_trails import HANDLER, SERVICE, at, other, waiting
from tests.unit.collector.keep.test_preflights import result as preflight_result

pytestmark = [pytest.mark.slow, pytest.mark.steady, pytest.mark.needs("chromium", "chromedriver", "npm")]


PLAIN = EVIL.replace("\ud800", "")  # JSON, by which agents tell of jobs, carries no half characters


class Watching:
    """A collector that watches jobs, whose store is at hand."""

    def __init__(self, service: Service, store: Store, diagnosis: str) -> None:
        self.service, self.store, self.diagnosis = service, store, diagnosis

    def tell(self, *still: float) -> None:
        """Register an agent whose four ranks have stood still for so long."""
        count = len(still)
        told: dict[str, Any] = {"job": JOB, "world_size": 4, "ranks": list(range(count)), "still": list(still)}
        told |= {"idle": list(still), "pending": [True] * count, "group": [0] * count, "sequence": [9] * count}
        body = {"url": "http://127.0.0.1:9", "digest": {"jobs": [told | {"groups": ["0"]}]}}
        answer = httpx.put(self.service.plain_url("/v1/agents/node9"), json=body, timeout=60.0, trust_env=False)
        assert answer.status_code == 200, answer.text


@pytest.fixture
def watching(browser: Browser, tmp_path: Path) -> Iterator[Watching]:
    """It has one diagnosis of which rank 1 is the culprit, and no incident yet."""
    tmp_path.chmod(0o700)
    file = tmp_path / "store.sqlite3"
    diagnosis = kept(file, 1)
    with served(whole_job()) as url:
        files = {"store": file, "audit_log": tmp_path / "audit.jsonl"}
        settings = CollectorSettings(agents=url, registration_seconds=600.0, deadline_seconds=1.0, **files)
        app = create_app(settings)
        with running(app, settings, app.state.audit) as service:
            store = Store(file)
            try:
                yield Watching(service, store, diagnosis)
            finally:
                store.close()
                browser.open("about:blank")  # a page that follows what happens holds its connection


def test_an_incident_is_acknowledged_and_called_a_false_alarm(browser: Browser, watching: Watching) -> None:
    """By who types in a name; the answers are those of its last diagnosis, and need no scrolling. Its age moves."""
    times = {"still_since": "2026-01-01T00:00:00Z", "times_out_at": "2026-01-01T00:10:00Z"}
    found = draft("sim").model_copy(update={"gpus": 64, **times})
    id = watching.store.incidents.report(found, [watching.diagnosis]).id
    here = address(watching.service, f"/incidents/{id}")
    browser.open(here)
    answers = browser.all(".answer")
    assert [answer.text.splitlines()[0].lower() for answer in answers] == ["which rank", "where", "why", "what now"]
    assert all(answer.rect["y"] + answer.rect["height"] <= 768 for answer in answers)
    assert "rank 1" in browser.text(".who") and "its DataLoader" in browser.text(".why")
    assert browser.one(".waiting").rect["y"] < 768 and "for rank 1" in browser.text(".waiting")
    about = browser.text(".about")
    assert all(each in about for each in ("holds 64 GPUs", "GPU-hours lost", "its operations time out at "))
    browser.script("document.querySelector('[data-since]').textContent = 'not yet'")
    browser.wait("/^[0-9.]+ h$/.test(document.querySelector('[data-since]').textContent)")
    assert f"--collector {address(watching.service, '')} " in browser.text(".now code")
    browser.resize(390, 844)
    first = browser.one(".now button.copy")
    assert first.is_displayed() and first.rect["y"] + first.rect["height"] <= 844
    browser.resize()
    browser.one("input[name=by]").send_keys("ann")
    browser.one("input[name=note]").send_keys("cordoned node1")
    browser.one("main form button").click()
    browser.wait("document.querySelector('.badge.acknowledged') !== null")
    assert "ann" in browser.text("#past tbody tr") and "cordoned node1" in browser.text("#past tbody tr")
    quiet(browser, watching.service)
    said = f"form button[formaction='/incidents/{id}"
    browser.one("input[name=note]").send_keys("its cable is loose")
    browser.one(f"{said}/comment']").click()
    browser.wait("document.querySelector('#past').textContent.includes('loose')")
    browser.one(f"{said}/false-alarm']").click()
    browser.wait("document.querySelector('.badge.false_alarm') !== null")
    assert not browser.all(f"{said}/false-alarm']")
    quiet(browser, watching.service)
    history = [change.kind.value for change in watching.store.incidents.get(id).history]
    assert history == ["opened", "acknowledged", "commented", "false_alarm"]


def test_jobs_that_a_file_server_holds_name_each_other(browser: Browser, watching: Watching) -> None:
    """Those of other causes, and those that are over, are not among them."""
    report = watching.store.incidents.report
    stored = {"cause": Cause.FILESYSTEM}
    one, _, over = (report(draft(job).model_copy(update=stored), []) for job in ("one", "two", "over"))
    report(draft("by itself"), [])
    watching.store.incidents.resolve(over.id, note="the job has gone on")
    browser.open(address(watching.service, f"/incidents/{one.id}"))
    assert browser.text(".together").startswith("1 other job with the same cause now")
    assert [link.text for link in browser.all(".together a")] == ["two"]
    quiet(browser, watching.service)
    browser.open(address(watching.service, f"/incidents/{over.id}"))
    assert not browser.all(".together")


def test_a_job_that_waits_for_another_shows_the_chain_to_its_root(browser: Browser, watching: Watching) -> None:
    """Above the fold: from who waits first to the incident of the job that holds it, which that one is part of."""
    whose = Identity(job="rollout", rank=0, host="node1", pid=SERVICE)
    looks = waiting({2: at("socket", SERVICE)}, [other(SERVICE, HANDLER, identity=whose)])
    answer = judged(looks).model_copy(update={"id": "b" * 8, "made_at": "2026-01-01T00:00:00Z"})
    watching.store.save(answer, Expected(job="sim"), looks)
    watching.store.incidents.report(draft("rollout", headline="Hung: rank 1 of it sleeps"), [watching.diagnosis])
    id = watching.store.incidents.report(draft("sim").model_copy(update={"roots": ("job rollout",)}), [answer.id]).id
    browser.open(address(watching.service, f"/incidents/{id}"))
    links = [link.text.splitlines()[0] for link in browser.all(".chain li")]
    assert [link.split(" wait")[0] for link in links[:2]] == ["ranks 0-1,3", "rank 2"]
    assert links[2].startswith("rank 0 of job rollout (pid 700)") and "score" in browser.text(".chain li:nth-child(3)")
    assert links[3] == "job rollout Hung: rank 1 of it sleeps"
    below = browser.one(".chain").rect
    assert below["y"] + below["height"] <= 800 and "Part of the incident of rollout" in browser.text(".together")
    quiet(browser, watching.service)
    browser.open(address(watching.service, f"/diagnoses/{answer.id}"))
    assert browser.one(".chain a").get_attribute("href").endswith("/incidents?job=rollout")
    quiet(browser, watching.service)


def test_an_incident_is_silenced_and_the_silence_ended(browser: Browser, watching: Watching) -> None:
    """All of its job, for two hours, and why; on a phone as well."""
    id = watching.store.incidents.report(draft("sim", host="node7"), [watching.diagnosis]).id
    browser.open(address(watching.service, f"/incidents/{id}"))
    browser.resize(390, 844)
    try:
        browser.one("input[name=note]").send_keys("new checkpoints")
        for name, value in (("of", "job"), ("hours", "2")):
            browser.script(f"document.querySelector('select[name={name}]').value = '{value}'")
        browser.script(f"document.querySelector(`button[formaction='/incidents/{id}/silence']`).click()")
        browser.wait("document.querySelector('#say').textContent.includes('new checkpoints')")
        assert browser.script("return document.documentElement.scrollWidth") <= 390
        quiet(browser, watching.service)
        (silence,) = watching.store.silences.list()
        assert {each.name: each.value for each in silence.matchers} == {"job": "sim", "user": "1000"}
        browser.script(f"document.querySelector(`form[action='/incidents/{id}/unsilence'] button`).click()")
        browser.wait("document.querySelector('input[name=silence]') === null")
        assert watching.store.silences.list()[0].status.state == "expired"
    finally:
        browser.resize()


def test_incidents_are_found_again(browser: Browser, watching: Watching) -> None:
    """By job, node, kind, cause and state; also on a narrow and dark screen."""
    reports = watching.store.incidents.report
    first = reports(draft("llama", host="node7"), [])
    reports(draft("moe", kind=Kind.P2P_DEADLOCK), [])
    watching.store.incidents.resolve(first.id, note="the job has ended")
    for query, headlines in (
        ("", 2),
        ("job=llama", 1),
        ("node=node7", 1),
        ("kind=p2p_deadlock", 1),
        ("cause=user_code&state=resolved", 1),
        ("state=open&kind=p2p_deadlock", 1),
        ("state=open&node=node7", 0),
        ("cause=gpu_fault", 0),
    ):
        browser.open(address(watching.service, f"/incidents?{query}"))
        assert len(browser.all("tbody tr")) == headlines, query
    browser.open(address(watching.service, "/incidents"))
    quiet(browser, watching.service)
    browser.resize(360, 740, dark=True)
    try:
        for path in ("/incidents", f"/incidents/{first.id}", "/", "/compare"):
            browser.open(address(watching.service, path))
            assert browser.script("return document.documentElement.scrollWidth") <= 360, path
            quiet(browser, watching.service)
    finally:
        browser.resize()


def test_preflights_are_shown_by_node(browser: Browser, watching: Watching) -> None:
    """On a page of their own, and beside the diagnoses that name the node; what they say is text."""
    hint = "<img src=x onerror=1> check its cable"
    found = preflight_result()
    told = found.findings[0].model_copy(update={"hint": hint})
    watching.store.preflights.save(found.model_copy(update={"findings": (told,)}))
    watching.store.preflights.save(preflight_result("all 3 nodes are sound", bad=()))
    browser.open(address(watching.service, "/"))
    browser.one("nav a[href='/preflights']").click()
    assert [row.text.splitlines()[0] for row in browser.all("tbody tr")] == [
        "BAD NODES all 3 nodes are sound",
        "BAD NODES 1 bad node of 3: n2",
    ]
    browser.one("tbody tr:last-child summary").click()
    assert hint in browser.text("tbody tr:last-child") and not browser.all("img")
    quiet(browser, watching.service)
    browser.one("tbody tr:last-child a[href='/preflights?node=n2']").click()
    assert "n2 took part in 2 preflights shown here: good in 1, bad in 1" in browser.text("main")
    browser.one("main p a").click()
    browser.wait("location.pathname == '/diagnoses'")
    assert "Preflights of n2" in browser.text("#preflights h2") and len(browser.all("#preflights tbody tr")) == 2
    quiet(browser, watching.service)
    browser.resize(360, 740, dark=True)
    try:
        for path in ("/preflights", "/diagnoses?node=n2"):
            browser.open(address(watching.service, path))
            assert browser.script("return document.documentElement.scrollWidth") <= 360, path
            quiet(browser, watching.service)
    finally:
        browser.resize()


def test_the_first_page_shows_what_happens_as_it_happens(browser: Browser, watching: Watching) -> None:
    """A job comes to be watched, and stands still; an incident opens, and is over. The focus stays where it was."""
    browser.open(address(watching.service, "/"))
    assert browser.text("#open p") == "None."
    browser.script("document.querySelector('#jobs button').focus()")
    watching.tell(0.0, 0.0, 0.0, 0.0)
    browser.wait("document.querySelector('#jobs .state') !== null")
    assert browser.focused("textContent").startswith("Diagnose now")
    id = watching.store.incidents.report(draft(JOB), [watching.diagnosis]).id
    browser.wait("document.querySelector('#open li a') !== null")
    assert browser.text("#open li").startswith("OPENED Hung: rank 3")
    assert re.search(r"for \d+ s", browser.text("#jobs tbody td:nth-of-type(2)"))
    for query, rows in (("q=SIM", 0), (f"q={JOB}", 1), ("state=running", 1), ("state=hung", 0)):
        browser.open(address(watching.service, f"/?{query}"))
        assert len(browser.all("#jobs tbody tr")) == rows, query
    browser.open(address(watching.service, "/"))
    quiet(browser, watching.service)
    watching.store.incidents.resolve(id, note="the job has gone on")
    browser.wait("document.querySelector('#open li a') === null")
    assert browser.complaints() == []


def test_what_a_user_types_is_not_lost(browser: Browser, watching: Watching) -> None:
    """Others are heard of meanwhile."""
    id = watching.store.incidents.report(draft("sim"), [watching.diagnosis]).id
    browser.open(address(watching.service, f"/incidents/{id}"))
    browser.one("input[name=note]").send_keys("half a sen")
    watching.store.incidents.report(draft("sim"), ["another"])
    browser.wait("document.querySelectorAll('#past tbody tr').length == 2")
    assert browser.focused("value") == "half a sen"


def test_hostile_incidents_are_text(browser: Browser, watching: Watching) -> None:
    """Names, notes and triggers that are markup; nothing of it becomes an element or a script."""
    found = draft(PLAIN, host=PLAIN[:60], headline=PLAIN).model_copy(update={"trigger": PLAIN})
    id = watching.store.incidents.report(found, []).id
    watching.store.incidents.acknowledge(id, by="<b onclick=1>", note="</td><script>alert(1)</script>")
    for path in ("/", "/incidents", f"/incidents/{id}"):
        browser.open(address(watching.service, path))
        assert "</script><img src=x onerror=1>" in browser.script("return document.body.textContent")
        assert browser.all("img, iframe, object, [onerror], [onclick], [style]") == []
        assert len(browser.all("script:not([type])")) == 1
        quiet(browser, watching.service)


def test_another_site_cannot_say_anything_to_an_incident(browser: Browser, watching: Watching) -> None:
    """Its form is refused, as one that starts a diagnosis is."""
    id = watching.store.incidents.report(draft("sim"), []).id
    form = address(watching.service, f"/incidents/{id}/false-alarm")
    with foreign_page(f'<form method="post" action="{form}"><button id="do">do</button></form>') as elsewhere:
        browser.open(elsewhere)
        browser.one("#do").click()
        browser.wait("document.body.textContent.includes('another site')")
    assert watching.store.incidents.get(id).state.value == "opened"


def test_errors_and_progress_are_pages(browser: Browser, watching: Watching) -> None:
    """An incident that is over cannot be acknowledged; one that is not there; a diagnosis that is being made."""
    id = watching.store.incidents.report(draft("sim"), []).id
    watching.store.incidents.false_alarm(id)
    for path in (f"/incidents/{id[:-1]}", "/diagnoses/none", f"/compare?left={watching.diagnosis}"):
        browser.open(address(watching.service, path))
        assert browser.one("h1").is_displayed() and browser.violations() == [], path
    browser.open(address(watching.service, "/"))
    browser.one("#jobs tbody button").click()
    browser.wait("location.pathname.startsWith('/diagnoses/')")
    if browser.all("[data-run]"):
        assert browser.violations() == []
    browser.wait("document.querySelector('.who') !== null")
    assert browser.violations() == []
