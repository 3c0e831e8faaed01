"""Registrations that change nothing but times and digests, answered as they arrive: thousands of agents send them.

What reading any HTTP and FastAPI do for a request (headers, a task, layers, finding the route, dependencies, JSON to
dicts to models) takes several times as long as what a renewal needs, and a large cluster sends more than a hundred a
second. So those that are plain (`plain_requests.py`) are answered here, as the API's route does it:

1. Who asks must be known to the same files of tokens. Whoever may not register is left to the route.
2. The body is read as the route reads it, by the same model. One that is wrong in any way is left to the route, which
   says what is wrong with it.
3. An agent that is known by the same URL is renewed. A new one is left to the route, which looks into where it leads.
"""

from functools import lru_cache
from typing import Literal

from fastapi import FastAPI
from pydantic import ValidationError

from collector.agents.registration.registrants import parse_registrant, plain_sender
from collector.hostlists import AgentAddress
from collector.service import Service
from collector.settings import CollectorSettings
from shared.errors import UnhangError
from shared.json_bounds import has_halves
from shared.server.plain_requests import PlainRequest
from shared.server.tokens import TokenFile
from shared.wire.registration import Registration

_PATH = "/v1/agents/"
_LONGEST_HOST = 253


class Renewals:
    """Renewals of one collector. The API's route does the same, for all that is not plain."""

    def __init__(self, app: FastAPI, settings: CollectorSettings) -> None:
        """`app` is the application whose lifespan has the service."""
        self._app = app
        own, registrations = settings.token_file, settings.registration_token_file
        files = (
            None if own is None else TokenFile(own),
            None if registrations is None else TokenFile(registrations, may_bind=False),
        )
        self._tokens = tuple(file for file in files if file is not None)

    def answer(self, request: PlainRequest) -> bytes | None:
        """Return the lease of an agent that is renewed; None: it is not, and the route is to say what is the matter."""
        host = request.path.removeprefix(_PATH)
        if not request.path.startswith(_PATH) or "/" in host or not 0 < len(host) <= _LONGEST_HOST:
            return None
        service = self._app.state.service
        assert isinstance(service, Service)
        leases = service.inventory.leases
        if leases is None or has_halves(request.body):
            return None
        try:
            if not self._may_register(request.token):  # 1
                return None
            registration = Registration.model_validate_json(request.body)  # 2
            if registration.digest is not None:
                registration.digest.check()
            sender = plain_sender(request.client)
            address = _address(host, registration.url, registration.scheme, registration.port, sender)
        except (UnhangError, ValidationError):
            return None
        if not leases.holds(address):  # 3
            return None
        return service.renew(address, registration.digest).model_dump_json().encode()

    def _may_register(self, token: bytes | None) -> bool:
        for file in self._tokens:
            access = None if token is None else file.access_of(token)
            if access is None or access.is_bound or not access.may_look:
                return False
        return True


@lru_cache(maxsize=8192)
def _address(host: str, url: str | None, scheme: Literal["http", "https"], port: int, sender: str) -> AgentAddress:
    """Return what the same words meant the last time. Raises InvalidHostlist, which is not remembered."""
    own = Registration.model_construct(url=url, scheme=scheme, port=port)
    return parse_registrant(host, own, sender=sender)
