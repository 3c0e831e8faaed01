"""Agents in the pods of a DaemonSet, and the pods of jobs, as Kubernetes' API server tells of them.

Asks for lists of pods and for nothing else: a Role with `list` on `pods` in each namespace is enough. The token of the
service account is read before each question, because Kubernetes renews it.
"""

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from collector.discovery.http_sd import fetch
from collector.discovery.own_thread import OwnThread
from collector.discovery.pods import Pod, PodList, parse_pods
from collector.discovery.sightings import MOST_SIGHTINGS, PodPlace, Reading, Sighting, address_at
from collector.failures import NoAnswer
from shared.errors import InvalidSettings
from shared.missing import Missing, Reason

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's own token, the API server's CA and the namespace."""

_PAGE = 500
_MOST_PAGE_BYTES = 67_108_864
_MOST_TOKEN_BYTES = 65_536
_MOST_TOLD = 20


class KubernetesPods:
    """The pods with a label in one namespace, which are agents, and all pods of some others, which may be ranks."""

    name = "kubernetes"

    def __init__(
        self,
        selector: str,
        *,
        agent_url: str,
        environment: Mapping[str, str],
        namespace: str = "",
        job_namespaces: Sequence[str] = (),
        api: str = "",
        account: Path = ACCOUNT,
    ) -> None:
        """`job_namespaces` may hold `*`, which takes a ClusterRole. Raises InvalidSettings."""
        self._selector = selector
        self._agent_url = agent_url
        self._api = (api or _own_api(environment)).rstrip("/")
        self._account = account
        self._namespace = namespace or _own_namespace(account)
        self._job_namespaces = tuple(dict.fromkeys(job_namespaces))
        self._tls = _tls(account / "ca.crt") if self._api.startswith("https:") else None
        self._thread = OwnThread("kubernetes-token")

    async def read(self) -> Reading:
        """List the pods. Raises NoAnswer; where only jobs' pods cannot be had, that is `missing`."""
        token = await self._thread.run(self._token)
        agents = await self._list(self._namespace, token, self._selector)
        pods: list[PodPlace] = []
        missing = [*_not_running(agents)]
        for namespace in ("*",) if "*" in self._job_namespaces else self._job_namespaces:
            try:
                pods.extend(pod.place() for pod in await self._list(namespace, token))
            except NoAnswer as error:
                detail = f"pods of jobs in namespace {namespace}: {error}"
                missing.append(Missing(source=self.name, reason=error.reason, detail=detail))
        return Reading(tuple(self._sighting(pod) for pod in agents if pod.runs), tuple(missing), pods=tuple(pods))

    def _sighting(self, pod: Pod) -> Sighting:
        where = pod.place()
        assert pod.status.pod_ip is not None
        address = address_at(pod.status.pod_ip, self._agent_url, name=where.node or where.name)
        return Sighting(address, self.name, {"namespace": where.namespace, "pod": where.name})

    async def _list(self, namespace: str, token: str, selector: str = "") -> list[Pod]:
        """Read all pages."""
        within = "" if namespace == "*" else f"/namespaces/{quote(namespace, safe='')}"
        asked = {"limit": str(_PAGE), **({"labelSelector": selector} if selector else {})}
        found: list[Pod] = []
        while True:
            page = await self._page(f"{self._api}/api/v1{within}/pods?{urlencode(asked)}", token)
            found.extend(page.items)
            if len(found) > MOST_SIGHTINGS:
                raise NoAnswer(Reason.REFUSED, f"there are more than {MOST_SIGHTINGS} pods")
            if not page.metadata.continue_ or not page.items:
                return found
            asked["continue"] = page.metadata.continue_

    async def _page(self, url: str, token: str) -> PodList:
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "Authorization": f"Bearer {token}"}
        return parse_pods(await fetch(url, headers=headers, tls=self._tls, most_bytes=_MOST_PAGE_BYTES))

    def _token(self) -> str:
        try:
            with (self._account / "token").open("rb") as opened:
                token = opened.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise NoAnswer(Reason.NOT_PERMITTED, f"the token of the service account cannot be read: {why}") from error
        if not token.isprintable():
            raise NoAnswer(Reason.UNREADABLE, "the token of the service account is no token")
        return token


def _not_running(agents: Sequence[Pod]) -> list[Missing]:
    """Tell of nodes whose agent does not run."""
    stuck = [pod.place() for pod in agents if not pod.runs and pod.status.phase not in ("Succeeded", "Failed")]
    return [
        Missing(
            source="kubernetes",
            reason=Reason.NOT_FOUND,
            detail=f"no agent on node {each.node}: pod {each.name} is {each.phase} {each.reason}".rstrip(),
        )
        for each in stuck[:_MOST_TOLD]
    ]


def _own_api(environment: Mapping[str, str]) -> str:
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise InvalidSettings(
            "this collector runs in no pod, and no API server is named", advice="set kubernetes_api to its URL"
        )
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"


def _own_namespace(account: Path) -> str:
    try:
        with (account / "namespace").open("rb") as opened:
            return opened.read(_MOST_TOKEN_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise InvalidSettings(
            "it is not known in which namespace the agents' pods are", advice="set kubernetes_namespace"
        ) from error


def _tls(authority: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(authority) if authority.exists() else None)
    except OSError as error:
        raise InvalidSettings(f"the API server's CA in {authority} cannot be used") from error
