"""Messages of a form that a site's package knows: a function of the group `unhang.receivers` (docs/plugins.md)."""

from collections.abc import Mapping

from collector.notify.notice import Notice
from collector.notify.outgoing import Outgoing
from collector.notify.receivers import SiteReceiver
from shared.errors import InvalidSettings
from shared.plugins import RECEIVERS, plugins


def compose_message_of_site(receiver: SiteReceiver, notice: Notice) -> Outgoing:
    """Return the request about one change. Raises InvalidSettings where the package fails: the message waits."""
    plugin, secret = plugins(RECEIVERS).usable[receiver.type], receiver.secret()
    try:
        body, headers = plugin.call(notice, secret, dict(receiver.options))
        if not isinstance(body, bytes) or not isinstance(headers, Mapping):
            raise TypeError("it must return the body, bytes, and a mapping of headers")
    except Exception as error:
        why = f"{plugin.package} cannot compose a message: {type(error).__name__}"
        raise InvalidSettings(why, advice="see its documentation") from error
    texts = {str(name): str(value) for name, value in headers.items()}
    return Outgoing(receiver.destination(), body, texts, secrets=(secret,) if secret else ())
