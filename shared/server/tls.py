"""TLS of both services, with certificates of clients where asked for, all of it from files.

Files are read again when they change: a certificate is renewed, and an authority taken out, without a restart, for
new connections. TLS 1.3 alone, for both ends are ours; and nothing of a session is kept, because one that is resumed
is not looked at again: it would outlive its certificate.
"""

import logging
import ssl
from asyncio import sslproto
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shared.errors import InvalidSettings
from shared.server.secret_files import Stamp, read_secret, stamp_of

_log = logging.getLogger(__name__)


HUNG_UP = "hung up: does it accept our certificate? its audit log gives the reason"
"""What is seen of a server that refuses a client's certificate: asyncio closes without telling (TLS 1.3)."""


class TlsFiles(NamedTuple):
    """Where our certificate lies (PEM, with what leads to the authority), its key, and the authorities to believe.

    The key may be in the certificate's file. For a server the authorities are those of clients; for a client those of
    servers, and without any the machine's own.
    """

    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None

    @property
    def named(self) -> tuple[Path, ...]:
        """The files that there are."""
        return tuple(file for file in self if file is not None)


class _Tls:
    """A context made from files, and made again when they change."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._stamps()
        self._context = self._make()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. While changed files are unusable, the last good ones stay in use."""
        try:
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._context = self._make()
                _log.info("read certificates again")
        except InvalidSettings as error:
            _log.error("the certificates read before are kept: %s", error)
        return self._context

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(map(_stamp, self._files.named))

    def _make(self) -> ssl.SSLContext:
        raise NotImplementedError


class ServerTls(_Tls):
    """A service's certificate, and which clients it accepts. Raises InvalidSettings where the files cannot be used."""

    def __init__(self, files: TlsFiles, client_names: Iterable[str] = ()) -> None:
        if files.certificate is None:
            raise InvalidSettings(
                "TLS needs a certificate of this service",
                advice="set --tls-cert-file, and --tls-key-file unless the key is in the same file",
            )
        self._names = frozenset(name.casefold() for name in client_names)
        if self._names and files.authorities is None:
            raise InvalidSettings(
                "client names are taken from certificates, but none are requested", advice="set --client-ca-file too"
            )
        super().__init__(files)

    @property
    def asks_for_certificates(self) -> bool:
        """Must clients show a certificate?"""
        return self._files.authorities is not None

    def admits(self, names: Iterable[str]) -> bool:
        """May a client with these names in its certificate ask? Without a list every certificate will do."""
        return not self._names or any(name.casefold() in self._names for name in names)

    def _make(self) -> ssl.SSLContext:
        context = _context(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        _load_own(context, self._files)
        if self._files.authorities is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            _load_authorities(context, self._files.authorities)
        return context


class ClientTls(_Tls):
    """Which certificates of services we trust, and our own. Raises InvalidSettings where the files cannot be used.

    A client keeps one context. So a renewed certificate is loaded into it, and new authorities are added; removed ones
    are trusted until the program restarts.
    """

    def __init__(self, files: TlsFiles) -> None:
        if files.key is not None and files.certificate is None:
            raise InvalidSettings("a key needs its certificate", advice="name the certificate too")
        self._kept: ssl.SSLContext | None = None
        super().__init__(files)

    def _make(self) -> ssl.SSLContext:
        context = self._kept or _context(ssl.PROTOCOL_TLS_CLIENT)
        if self._files.authorities is not None:
            _load_authorities(context, self._files.authorities)
        elif self._kept is None:
            context.load_default_certs()
        if self._files.certificate is not None:
            _load_own(context, self._files)
        self._kept = context
        return context


def keep_buffers_small() -> None:
    """Let connections over TLS that begin from now on, in asyncio, read by 32 KiB: of 256 KiB, thousands fill memory.

    asyncio makes that buffer with each connection, and has no other way to say how large; a record of TLS is 16 KiB.
    """
    sslproto.SSLProtocol.max_size = 32 * 1024


def server_tls(files: TlsFiles, client_names: Iterable[str] = ()) -> ServerTls | None:
    """Return the TLS that the settings ask for, None for none. Raises InvalidSettings."""
    names = tuple(client_names)
    return ServerTls(files, names) if files.named or names else None


def names_of(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names in a peer's certificate, common name first, as `ssl.SSLSocket.getpeercert` gives it."""
    # {'subject': ((('commonName', 'collector'),),), 'subjectAltName': (('DNS', 'head'), ('IP Address', '10.0.0.1'))}
    if not certificate:
        return ()
    subject = (pair for parts in certificate.get("subject", ()) for pair in parts)
    common = (value for kind, value in subject if kind == "commonName")
    other = (value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI", "IP Address"))
    return tuple(dict.fromkeys((*common, *other)))


def explain_tls(error: ssl.SSLError) -> str:
    """Say in words why TLS failed, as seen from the end that reports it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message}"
    reason = (error.reason or str(error)).lower()
    return _WORDS.get(reason, reason.replace("_", " "))


_WORDS = {
    "peer_did_not_return_a_certificate": "no certificate was presented",
    "http_request": "the client used plain HTTP; this service requires TLS",
    "wrong_version_number": "the other side did not use TLS",
    "tlsv13_alert_certificate_required": "it requires a certificate",
    "sslv3_alert_certificate_expired": "it says that our certificate has expired",
    "tlsv1_alert_unknown_ca": "it does not trust the signer of our certificate",
    "unexpected_eof_while_reading": "the connection broke off in the handshake",
}
"""OpenSSL's reasons, in lower case, as Python gives them."""


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.certificate is not None
    key = files.key or files.certificate
    read_secret(key, "private key")
    try:
        # An encrypted key would make OpenSSL ask for its password on the terminal; an empty one just fails.
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise InvalidSettings(
            f"certificate {files.certificate} with key {key} cannot be used: {_why(error)}",
            advice="both must be matching PEM files, the key without a password",
        ) from error


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise InvalidSettings(
            f"the authorities in {path} cannot be used: {_why(error)}", advice="name a PEM file of CA certificates"
        ) from error


def _stamp(path: Path) -> Stamp:
    try:
        return stamp_of(path)
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}", advice="name a PEM file") from error


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return str(getattr(error, "strerror", None) or error)
