"""Certificate authorities and what they sign, made anew for each run of the tests."""

import datetime
from pathlib import Path
from typing import NamedTuple

import trustme

from shared.server.tls import TlsFiles


class Signed(NamedTuple):
    """A certificate and its key, as one file each."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority with a folder to write into."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._ca, self._folder = trustme.CA(), folder
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def sign(self, *names: str, file: str = "", expired: bool = False) -> Signed:
        """Sign a certificate for these names; the first is its common name too."""
        now = datetime.datetime.now(datetime.UTC)
        ends = now - datetime.timedelta(days=1) if expired else now + datetime.timedelta(days=1)
        begins = now - datetime.timedelta(days=9)
        made = self._ca.issue_cert(*names, common_name=names[0], not_before=begins, not_after=ends)
        stem = file or names[0]
        signed = Signed(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        signed.certificate.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        signed.key.touch(mode=0o600)
        signed.key.write_bytes(made.private_key_pem.bytes())
        return signed

    def files(self, signed: Signed | None = None) -> TlsFiles:
        """Show `signed`, and believe this authority."""
        return TlsFiles(*(signed or (None, None)), self.file)
