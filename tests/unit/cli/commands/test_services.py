"""`unhang agent` and `unhang collector`: settings from flags and environment, and both at work."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import httpx
import pytest
from click.testing import CliRunner
from pydantic_settings import BaseSettings

from agent.settings import AgentSettings
from cli.commands.services import agent, collector
from cli.main import unhang as unhang_group
from cli.settings import read_agent_settings
from collector.settings import CollectorSettings
from shared.answer.diagnosis import Diagnosis
from shared.errors import InvalidSettings
from tests.build.processes.commands import FIRST, Job, command, environment, unhang
from tests.build.processes.ports import free_port
from tests.build.processes.warm import Forked, start


@pytest.mark.parametrize(("chosen", "settings"), [(agent, AgentSettings), (collector, CollectorSettings)])
def test_each_setting_is_a_flag(chosen: click.Command, settings: type[BaseSettings]) -> None:
    """Nothing can be set that the command line cannot set, and no flag sets nothing."""
    assert {option.name for option in chosen.params} == set(settings.model_fields)


@pytest.mark.parametrize(("chosen", "settings"), [(agent, AgentSettings), (collector, CollectorSettings)])
def test_help_tells_the_real_defaults(chosen: click.Command, settings: type[BaseSettings]) -> None:
    """A default that changes in the settings changes in the help."""
    for option in chosen.params:
        assert isinstance(option, click.Option)
        default = settings.model_fields[option.name or ""].default
        if isinstance(default, bool):
            assert f"[default: {'yes' if default else 'no'}]" in (option.help or "")
        elif isinstance(default, float | int) and default < 10_000:
            assert f"[default: {default:g}]" in (option.help or "")
        if isinstance(default, str) and default:
            assert f"[default: {default}]" in (option.help or "")


@pytest.mark.parametrize("chosen", [agent, collector])
def test_flags_that_are_not_given_say_nothing(chosen: click.Command) -> None:
    """Of the two of a pair, too: else no variable could."""
    assert {*chosen.make_context(str(chosen.name), []).params.values()} == {None}


def test_flags_win_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not given as a flag comes from the environment."""
    monkeypatch.setenv("UNHANG_AGENT_LISTEN", "127.0.0.1:1")
    monkeypatch.setenv("UNHANG_AGENT_HOST_NAME", "node07")
    settings = read_agent_settings({"listen": "127.0.0.1:2", "host_name": None})
    assert (settings.listen, settings.host_name) == ("127.0.0.1:2", "node07")


def test_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that does nothing is worse than an error."""
    monkeypatch.setenv("UNHANG_AGENT_LISTN", "x")
    with pytest.raises(InvalidSettings, match="UNHANG_AGENT_LISTN") as caught:
        read_agent_settings()
    assert "UNHANG_AGENT_LISTEN" in caught.value.advice


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["agent", "--listen", "0.0.0.0:0"], "without authentication"),
        (["agent", "--listen", "nonsense"], "HOST:PORT"),
        (["agent", "--only-ranks", "x"], "only_ranks"),
        (["agent", "--beat-seconds", "-1"], "beat_seconds"),
        (["agent", "--token-file", "{gone}"], "cannot be read"),
        (["collector", "--listen", "0.0.0.0:0"], "without authentication"),
        (["collector", "--agents", "node[1-"], "node["),
        (["collector", "--agents-file", "{gone}"], "cannot be read"),
        (["collector", "--deadline", "soon"], "deadline_seconds"),
    ],
)
def test_settings_that_cannot_be_used(arguments: list[str], said: str, tmp_path: Path) -> None:
    """One sentence and status 1, before anything listens."""
    result = CliRunner(env={"XDG_STATE_HOME": str(tmp_path)}).invoke(
        unhang_group, [text.replace("{gone}", str(tmp_path / "gone")) for text in arguments]
    )
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert "Traceback" not in result.stderr


Process = subprocess.Popen[bytes] | Forked


@contextmanager
def service(*arguments: str, port: int, log: Path, env: dict[str, str], executed: bool = True) -> Iterator[Process]:
    """Run a service until the block ends; it must then end by SIGTERM without complaint."""
    words, variables = (*arguments, "--listen", f"127.0.0.1:{port}"), environment(env)
    with log.open("wb") as output:
        streams = [output.fileno()] * 2
        process: Process = (
            subprocess.Popen(command(*words), env=variables, stdout=output, stderr=output)
            if executed
            else start(words, environment=variables, streams=streams)
        )
    try:
        _wait_until_well(process, port, log)
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)


def _wait_until_well(process: Process, port: int, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2.0, verify=False, trust_env=False).is_success:
                return
        except httpx.RemoteProtocolError:
            return  # it listens, and speaks TLS
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"it did not come up: {log.read_text()}")


class Both(NamedTuple):
    """An agent and its collector: where they listen, and the token that both ask for."""

    agent: str
    collector: str
    token: Path


@pytest.fixture(scope="module")
def both(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Both services. There is a loop for them to take which takes nobody's requests."""
    tmp_path = tmp_path_factory.mktemp("both")
    (tmp_path / "uvloop.py").write_text("raise RuntimeError('uvloop was taken')\n", encoding="ascii")
    path = {"PYTHONPATH": str(tmp_path)}
    token = tmp_path / "token"
    token.write_text("s3cret\n", encoding="ascii")
    token.chmod(0o600)
    ports = free_port(), free_port()
    known = ("--token-file", str(token))
    asks = (
        "--agents",
        f"127.0.0.1:{ports[0]}",
        "--agent-token-file",
        str(token),
        "--store",
        str(tmp_path / "s.sqlite3"),
    )
    with (
        service(
            "agent", "--host-name", "node07", *known, port=ports[0], log=tmp_path / "a.log", env={**job.env, **path}
        ),
        service("collector", *known, *asks, port=ports[1], log=tmp_path / "c.log", env=path),
    ):
        yield Both(*(f"http://127.0.0.1:{port}" for port in ports), token)


@pytest.mark.slow
def test_agent_and_collector_together(both: Both, tmp_path: Path) -> None:
    """Both services, asked by every command; they end by SIGTERM with status 0, as service managers like it."""
    here = {"UNHANG_COLLECTOR": both.collector}
    refused = unhang("jobs", env=here)
    assert refused.status == 1
    assert "--token-file" in refused.err
    here["UNHANG_TOKEN_FILE"] = str(both.token)
    assert "node07" in unhang("jobs", env=here).out
    done = unhang("diagnose", "--json", "--interval", "0.2", "--save", str(tmp_path / "kept"), env=here)
    assert done.status == 12, done.err
    assert Diagnosis.model_validate_json(done.out).coverage.with_stacks == 2
    (bundle,) = (tmp_path / "kept").iterdir()
    assert unhang("diagnose", "--from", str(bundle)).status == 12
    for name in ("stacks", "fds", "logs", "sequences"):
        view = unhang(name, "--rank", str(FIRST), env=here)
        assert view.status == 0, view.err
    assert "wait_for_quota" in unhang("stacks", "--format", "folded", env=here).out
    unknown = unhang("diagnose", "nope", env=here)
    assert (unknown.status, unknown.out) == (1, "")
    assert "nope" in unknown.err


def test_loop_of_others_is_not_taken(both: Both) -> None:
    """uvicorn takes uvloop where it finds it; our protocol needs asyncio's own transports, and answered nothing."""
    for address in (both.agent, both.collector):
        assert httpx.get(f"{address}/healthz", trust_env=False).status_code == 200
