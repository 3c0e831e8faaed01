"""Where a service of ours listens, and who may connect: the same for agent and collector.

Apart from how it is served, for `unhang snapshot` reads an agent's settings on every host, and serves nothing.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings

MostConnections = Annotated[
    int,
    Field(
        ge=8,
        le=65_536,
        description="Most open connections. For one more, an idle connection of the address with the most is closed.",
    ),
]
MostConnectionsPerClient = Annotated[
    int,
    Field(
        ge=8,
        le=65_536,
        description="Of these, per address, or per /64 network of IPv6. For one more, an idle one of it is closed.",
    ),
]


class AccessSettings(BaseSettings):
    """Where a service listens, and to whom."""

    listen: str
    token_file: Path | None = Field(
        default=None,
        description="File of bearer tokens, one per line; callers must send one of them. Needed to listen beyond "
        "loopback, unless client certificates are asked for. Read again when it changes; refused where others may "
        "read it.",
    )
    tls_cert_file: Path | None = Field(
        default=None, description="Our certificate (PEM, with its chain): serve HTTPS. Read again when it changes."
    )
    tls_key_file: Path | None = Field(
        default=None, description="Its private key; by default in the certificate's file. Refused like a token file."
    )
    client_ca_file: Path | None = Field(
        default=None, description="CA certificates: callers must present a certificate signed by one of these."
    )
    client_names: str = Field(
        default="",
        description="Only callers whose certificate has one of these names (CN or SAN), separated by commas.",
    )
    allow_clients: str = Field(
        default="", description="Only callers from these addresses or networks, e.g. `10.0.0.0/8,192.168.1.5`."
    )
    allow_hosts: str = Field(
        default="",
        description="Further names or addresses by which callers may reach this service, separated by commas, e.g. "
        "that of a proxy in front of it. Without `token_file` or `client_ca_file` it answers only requests for these "
        "and for localhost.",
    )
    most_connections: MostConnections = 512
    most_connections_per_client: MostConnectionsPerClient = 256
    audit_log: Path | None = Field(
        default=None, description="File to which one JSON line is written for every inspection and every refusal."
    )
