"""Messages of a form that a site's package knows: a function of the group `unhang.receivers` (docs/plugins.md)."""

from collections.abc import Mapping

from collector.notify.notice import Notice
from collector.notify.outgoing import Outgoing
from collector.notify.receivers import SiteReceiver
from shared.errors import InvalidSettings, quoted
from shared.plugins import RECEIVERS, plugins


def compose_message_of_site(receiver: SiteReceiver, notice: Notice) -> Outgoing:
    """Return the request about one change. Raises InvalidSettings where the package fails: the message waits."""
    plugin, secret = plugins(RECEIVERS).usable[receiver.type], receiver.secret()
    try:
        body, headers = plugin.call(notice, secret, dict(receiver.options))
        if not isinstance(body, bytes) or not isinstance(headers, Mapping):
            given = f"{type(body).__name__} and {type(headers).__name__}"
            raise TypeError(f"it must return bytes and a mapping of headers, and returned {given}")
    except Exception as error:  # its text may quote what is secret
        tells = isinstance(error, KeyError | TypeError) and not (secret and secret in str(error))
        said = f" {quoted(str(error))}" if tells else ""
        why = f"{plugin.package} cannot compose a message: {type(error).__name__}{said}"
        raise InvalidSettings(why, advice="see its documentation, or `options` of this receiver") from error
    texts = {str(name): str(value) for name, value in headers.items()}
    return Outgoing(receiver.destination(), body, texts, secrets=(secret,) if secret else ())
