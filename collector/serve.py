"""Run the collector until a signal."""

import logging
import os
import socket
from contextlib import nullcontext

from collector.app import create_app
from collector.concurrency import gc_pauses as garbage
from collector.keep.store import Store
from collector.notify.notify_file import read_notify_file
from collector.service import agent_tls, make_inventory
from collector.settings import CollectorSettings
from shared.errors import InvalidSettings
from shared.server.addresses import Address, parse_address
from shared.server.lifecycle.service_manager import ServiceManager
from shared.server.lifecycle.stop_signals import StopSignals
from shared.server.run import Server, open_guard, service_config
from shared.server.tokens import TokenFile

_log = logging.getLogger(__name__)
_UNWATCHED = (
    "no job is watched, and no incident raised: agents may not register here (--registration-seconds 60, and "
    "--collectors on each agent)"
)


def serve(settings: CollectorSettings, stop: StopSignals | None = None) -> None:
    """Serve until SIGINT or SIGTERM. Raises InvalidSettings before anything is opened that cannot be used.

    `stop` notes signals already; without it they are noted from here on.
    """
    with StopSignals() if stop is None else nullcontext(stop) as noting:
        manager = ServiceManager.of_process(os.environ)
        app = create_app(settings)
        guard = open_guard(settings, app.state.audit, at_once=app.state.renewals.answer)
        _check(settings)
        noting.check()
        listening = _bind(settings.listen)
        config = service_config(app, guard, manager, log_config=None)
        _log_to_stderr()
        garbage.set_up()
        noting.check()
        _log.info("serving on %s://%s", guard.scheme, Address(*listening.getsockname()[:2]))
        if settings.detect and not settings.watches:
            _log.log(logging.INFO if settings.notify_file is None else logging.WARNING, _UNWATCHED)
        with listening:
            Server(config, guard, noting, manager, ending=app.state.ending).run(sockets=[listening])


def _log_to_stderr() -> None:
    """One line per diagnosis and per trouble; the lines of each request to an agent or of a bot would drown them."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in ("httpx", "mcp"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _check(settings: CollectorSettings) -> None:
    """Find what is wrong while it can still be said in one sentence."""
    make_inventory(settings)
    for file in (settings.token_file, settings.agent_token_file):
        if file is not None:
            TokenFile(file).tokens()
    if settings.registration_token_file is not None:
        TokenFile(settings.registration_token_file, may_bind=False).tokens()
    agent_tls(settings)
    if settings.notify_file is not None:
        read_notify_file(settings.notify_file)
    Store(settings.store).close()


def _bind(listen: str) -> socket.socket:
    address = parse_address(listen)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise InvalidSettings(
            f"cannot listen on {listen}: {error.strerror}", advice="name another address with --listen"
        ) from error
    return listening
