"""A real API server of Kubernetes over a real etcd, where somebody has a kube-apiserver; none installs by name.

There are no kubelets: pods are what is written into it, and run nowhere. Of the controllers there is none, so what they
would make, such as a namespace's service account, is written, too.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.build.processes.ports import free_port

_ADMIN = "an-administrator-of-the-tests"
_READY_SECONDS = 120.0


class ApiServer:
    """One server, whose data outlive it: it can be restarted."""

    def __init__(self, program: Path, folder: Path, etcd: str) -> None:
        self.url = f"https://127.0.0.1:{free_port()}"
        self.authority = folder / "certificates" / "apiserver.crt"
        self._program, self._folder, self._etcd = program, folder, etcd
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "administrators.csv").write_text(f"{_ADMIN},admin,admin,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", folder / "accounts.key", "2048"], check=True, capture_output=True)

    def start(self) -> None:
        """Run it, and wait until it is ready."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stderr=log)
        deadline = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            alive = self._process.poll() is None and time.monotonic() < deadline
            assert alive, (self._folder / "log").read_text()[-4000:]
            time.sleep(0.2)

    def stop(self) -> None:
        """Kill it: asked to end, it waits a minute for those who watch. What it was told stays in etcd."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Ask as an administrator; the answer is what the server says is there now."""
        with self._client() as client:
            answer = client.request(
                method, path, content=None if body is None else json.dumps(body), headers={"Content-Type": kind}
            )
        assert answer.is_success, answer.text
        return answer.json()

    def account(self, namespace: str, name: str, folder: Path) -> Path:
        """Return a folder as kubelet mounts it into a pod: the account's token, the server's CA, the namespace."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": None}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        folder.mkdir()
        (folder / "token").write_text(self.ask("POST", path, asked)["status"]["token"])
        (folder / "namespace").write_text(namespace)
        shutil.copy(self.authority, folder / "ca.crt")
        return folder

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=False, headers={"Authorization": f"Bearer {_ADMIN}"}, timeout=30)

    def _is_ready(self) -> bool:
        try:
            with self._client() as client:
                return client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def _command(self) -> list[str]:
        port, key = self.url.rpartition(":")[2], str(self._folder / "accounts.key")
        return [
            str(self._program),
            f"--etcd-servers={self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.authority.parent}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._folder / 'administrators.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
        ]


@contextmanager
def api_server(program: Path, folder: Path) -> Iterator[ApiServer]:
    """A server over an etcd of its own."""
    client, peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    etcd = ["etcd", f"--data-dir={folder / 'etcd'}", "--log-level=error"]
    etcd += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    etcd += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "etcd.log").open("ab"))
        stack.callback(stack.enter_context(subprocess.Popen(etcd, stdout=log, stderr=log)).terminate)
        server = ApiServer(program, folder, client)
        stack.callback(server.stop)
        server.start()
        yield server
