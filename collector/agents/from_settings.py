"""The ways of finding agents that the settings ask for."""

from collections.abc import Iterator, Mapping

from collector.agents.agent_source import HOST, AgentSource, address_at
from collector.agents.directory import Directory
from collector.agents.dns import NamedAgents
from collector.agents.file_sd import FileTargets
from collector.agents.http_sd import HttpTargets
from collector.agents.kubernetes.kubernetes_source import KubernetesPods
from collector.agents.registration.registered import Leases
from collector.agents.site_finder import SiteFinder
from collector.agents.slurm import SlurmNodes
from collector.agents.static_list import StaticInventory
from collector.settings import CollectorSettings
from shared.errors import InvalidSettings, UnhangError, quoted
from shared.plugins import FINDERS, plugins


def make_directory(settings: CollectorSettings, environment: Mapping[str, str]) -> Directory:
    """Return the agents that the settings name, by all ways; nothing is asked yet. Raises InvalidSettings."""
    try:
        _check_agent_url(settings.agent_url)
        return Directory(
            StaticInventory([settings.agents], file=settings.agents_file),
            tuple(_sources(settings, environment)),
            leases=Leases(settings.registration_seconds) if settings.registration_seconds > 0 else None,
            period_seconds=settings.discovery_seconds,
            deadline_seconds=settings.discovery_deadline_seconds,
        )
    except UnhangError as error:
        raise InvalidSettings(str(error), advice=error.advice) from error


def _sources(settings: CollectorSettings, environment: Mapping[str, str]) -> Iterator[AgentSource]:
    url = settings.agent_url
    for pattern in _words(settings.file_sd):
        yield FileTargets(pattern)
    for address in _words(settings.http_sd):
        yield HttpTargets(address, token_file=settings.http_sd_token_file)
    for name in _words(settings.dns):
        yield NamedAgents(
            name, agent_url=url, server=settings.dns_server, deadline_seconds=settings.discovery_deadline_seconds
        )
    if settings.slurm:
        yield SlurmNodes(agent_url=url, environment=environment)
    if settings.kubernetes:
        yield KubernetesPods(
            settings.kubernetes,
            agent_url=url,
            environment=environment,
            namespace=settings.kubernetes_namespace,
            job_namespaces=_words(settings.kubernetes_job_namespaces),
            api=settings.kubernetes_api,
            account=settings.kubernetes_account,
            period_seconds=settings.discovery_seconds,
            deadline_seconds=settings.discovery_deadline_seconds,
        )
    for plugin in plugins(FINDERS).usable.values():
        yield SiteFinder(plugin, agent_url=url)


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(text.replace(",", " ").split()))


def _check_agent_url(template: str) -> None:
    if HOST not in template:
        raise InvalidSettings(
            f"agent_url {quoted(template)} does not say where the host's name goes",
            advice="write it as http://{host}:8471",
        )
    address_at("node1", template)
