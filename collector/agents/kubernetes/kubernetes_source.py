"""Agents in the pods of a DaemonSet, and the pods of jobs, according to Kubernetes' API server.

Pods are listed and then watched: a Role with `list` and `watch` on `pods` in each namespace is enough, and one with
`list` alone will do. What happens when a watch ends is in `watch.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from collector.agents.agent_source import PodPlace, Sighting, SourceReading, address_at
from collector.agents.kubernetes.api import WATCH_SECONDS, PodApi, PodScope
from collector.agents.kubernetes.watch import PodView
from collector.concurrency.tasks import end
from collector.gather.failures import NoAnswer
from shared.errors import InvalidHostlist, InvalidSettings
from shared.missing import Missing, Reason

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts a pod's own token, the API server's CA and the namespace."""

_MOST_NAMESPACE_BYTES = 65_536
_MOST_TOLD = 20
_SETTLE_SECONDS = 0.2
"""Shortest time between two reports: changes come in bursts, as when a job of thousands of pods starts."""
_SHARE_OF_AGENTS = 0.8
"""Of the deadline: a list of jobs' pods that takes longer must not cost the agents."""


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
        period_seconds: float = 15.0,
        deadline_seconds: float = 5.0,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        """`job_namespaces` may hold `*`, which takes a ClusterRole. Raises InvalidSettings."""
        server = PodApi(
            api or _own_api(environment), account, deadline_seconds=deadline_seconds, watch_seconds=watch_seconds
        )
        own = namespace or _own_namespace(account)
        others = ("*",) if "*" in job_namespaces else tuple(dict.fromkeys(job_namespaces))
        self._agent_url = agent_url
        self._period_seconds = period_seconds
        self._deadline_seconds = deadline_seconds
        self._agents = PodView(server, PodScope(own, selector), period_seconds=period_seconds)
        self._jobs = [PodView(server, PodScope(each), period_seconds=period_seconds) for each in others]

    async def read(self) -> SourceReading:
        """List the pods. Raises NoAnswer; where only jobs' pods cannot be had, that is `missing`."""
        ends_at = asyncio.get_running_loop().time() + _SHARE_OF_AGENTS * self._deadline_seconds
        await self._agents.refresh()
        for view in self._jobs:
            try:
                async with asyncio.timeout_at(ends_at):
                    await view.refresh()
            except TimeoutError:
                _fail(view, NoAnswer(Reason.TIMED_OUT, "no list in time"))
            except NoAnswer as error:
                _fail(view, error)
        return self._reading()

    async def follow(self, tell: Callable[[SourceReading], None]) -> None:
        """Report each change, forever. Raises NoAnswer where the agents' pods can neither be watched nor listed."""
        work = [self._agents.keep(), *map(self._keep, self._jobs)]
        telling = [self._tell_changes(view, tell) for view in (self._agents, *self._jobs)]
        tasks = [asyncio.create_task(each, name="kubernetes") for each in (*work, *telling)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end(*tasks)

    async def _keep(self, view: PodView) -> None:
        while True:
            try:
                await view.keep()
            except NoAnswer as error:
                _fail(view, error)
            await asyncio.sleep(self._period_seconds)

    async def _tell_changes(self, view: PodView, tell: Callable[[SourceReading], None]) -> None:
        while True:
            await view.changed.wait()
            view.changed.clear()
            tell(self._reading())
            await asyncio.sleep(_SETTLE_SECONDS)

    def _reading(self) -> SourceReading:
        agents, unusable = self._sightings()
        missing = (*_not_running(self._agents.pods.values()), *unusable)
        troubles = tuple(view.trouble for view in self._jobs if view.trouble is not None)
        pods = tuple(pod for view in self._jobs for pod in view.pods.values())
        return SourceReading(tuple(agents), (*missing, *troubles), pods=pods)

    def _sightings(self) -> tuple[list[Sighting], list[Missing]]:
        """Return the agents. A pod with an invalid node or address is left out, and only that."""
        found: list[Sighting] = []
        unusable: list[Missing] = []
        for pod in self._agents.pods.values():
            if pod.address is None or not pod.runs:
                continue
            try:
                address = address_at(pod.address, self._agent_url, name=pod.node or pod.name)
            except InvalidHostlist as error:
                unusable.append(Missing(source=self.name, reason=Reason.UNREADABLE, detail=str(error)))
                continue
            found.append(Sighting(address, self.name, {"namespace": pod.namespace, "pod": pod.name}))
        return found, unusable[:_MOST_TOLD]


def _fail(view: PodView, error: NoAnswer) -> None:
    view.fail(error, what=f"pods of jobs in namespace {view.scope.namespace}")


def _not_running(agents: Iterable[PodPlace]) -> list[Missing]:
    """Report nodes whose agent is not running."""
    stuck = [pod for pod in agents if not pod.runs and pod.phase not in ("Succeeded", "Failed")]
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
            "this collector does not run in a pod, and no API server is set", advice="set kubernetes_api to its URL"
        )
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"


def _own_namespace(account: Path) -> str:
    try:
        with (account / "namespace").open("rb") as opened:
            return opened.read(_MOST_NAMESPACE_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise InvalidSettings(
            "the namespace of the agents' pods is unknown", advice="set kubernetes_namespace"
        ) from error
