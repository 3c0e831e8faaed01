"""A network of hosts: one switch, a cable or two to each host, and what can go wrong with a cable."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.system.e2e.hosts import END_SECONDS, Host

_WIRE = Path(__file__).with_name("wire.py")


class Network:
    """Hosts by name, all on one switch, each known to all by its name. To be used in a `with`.

    With `data` each has an interface eth1 in a network of its own, too: that is where its name leads.
    """

    def __init__(self, *names: str, directory: Path, data: bool = False) -> None:
        self.addresses = {name: f"10.77.3.{number}" for number, name in enumerate(names, start=1)}
        self.data = {name: f"10.77.4.{number}" for number, name in enumerate(names, start=1)} if data else {}
        self.hosts: dict[str, Host] = {}
        self._directory = directory
        self._stack = ExitStack()
        self._switch: Host | None = None

    def __enter__(self) -> Self:
        """Start all hosts and connect them. Raises NoHosts."""
        with self._stack:
            etc = self._write_etc()
            self._switch = self._stack.enter_context(Host("switch", etc=etc))
            for lan in ("lan", "lan-eth1"):
                self._switch.ip(f"link add name {lan} type bridge", f"link set {lan} up")
            for name in self.addresses:
                self.hosts[name] = self._stack.enter_context(Host(name, etc=etc))
                self._connect(name, "eth0", self.addresses[name])
                if self.data:
                    self._connect(name, "eth1", self.data[name])
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End all of it."""
        self._stack.close()

    @property
    def switch(self) -> Host:
        """The host between all others."""
        assert self._switch is not None
        return self._switch

    @contextmanager
    def unplugged(self, name: str, nic: str = "eth0") -> Iterator[None]:
        """A host whose cable is out."""
        self.switch.ip(f"link set {_port(name, nic)} down")
        try:
            yield
        finally:
            self.switch.ip(f"link set {_port(name, nic)} up")

    @contextmanager
    def bad_cable(
        self,
        name: str,
        nic: str = "eth0",
        *,
        loss: float = 0.0,
        delay_seconds: float = 0.0,
        largest: int = 65_536,
        ways: str = "both",
    ) -> Iterator[None]:
        """A host whose cable loses frames, all large ones, or is slow. Its connections stay.

        `ways`: in which direction frames are lost, `both`, or `in` for those to the host.
        """
        near, far, between = (f"{word}-{name}-{nic[-1]}" for word in ("near", "far", "bad"))
        port, lan = _port(name, nic), _lan(nic)
        command = self.switch.on_network(sys.executable, "-I", "-S", str(_WIRE))
        with subprocess.Popen(
            (*command, near, far, str(loss), str(delay_seconds), str(largest), ways),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as wire:
            try:
                assert wire.stdout is not None and wire.stdout.readline() == "ready\n"
                self.switch.ip(
                    f"link add name {between} type bridge",
                    f"link set {near} master {between} up",
                    f"link set {far} master {lan} up",
                    f"link set {between} up",
                    f"link set {port} master {between}",
                )
                yield
                assert wire.poll() is None, "the bad cable has ended by itself"
            finally:
                self.switch.ip(f"link set {port} master {lan}")
                wire.kill()
                wire.wait(END_SECONDS)
                self.switch.ip(f"link delete {between}")

    def _write_etc(self) -> Path:
        """Write who is called what. Nobody asks a name server: there is none, and each question would take seconds."""
        etc = self._directory / "etc"
        etc.mkdir()
        lines = [
            "127.0.0.1 localhost",
            *(f"{address} {name}" for name, address in (self.data or self.addresses).items()),
        ]
        (etc / "hosts").write_text("".join(f"{line}\n" for line in lines))
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
        return etc

    def _connect(self, name: str, nic: str, address: str) -> None:
        host, port = self.hosts[name], _port(name, nic)
        self.switch.ip(
            f"link add {port} type veth peer name {nic} netns {host.pid}", f"link set {port} master {_lan(nic)} up"
        )
        host.ip(f"address add {address}/24 dev {nic}", f"link set {nic} up")


def _port(name: str, nic: str) -> str:
    return f"port-{name}" if nic == "eth0" else f"{nic}-{name}"


def _lan(nic: str) -> str:
    return "lan" if nic == "eth0" else f"lan-{nic}"
