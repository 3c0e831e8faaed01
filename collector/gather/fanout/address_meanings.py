"""What an address leads to: the IPv4 address that one of IPv6 holds, and what a cloud has at it."""

import ipaddress

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

_LAST_32 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "::/96",  # IPv4-compatible, RFC 4291 2.5.5.1
            "::ffff:0:0/96",  # IPv4-mapped
            "::ffff:0:0:0/96",  # IPv4-translated, RFC 2765
            "64:ff9b::/96",  # NAT64, RFC 6052
            "64:ff9b:1::/48",  # NAT64 of a site, RFC 8215, mostly with its prefix of 96 bits
        ),
    )
)
_OF_A_SITE = _LAST_32[-1]
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""RFC 5214: the first half of the interface's number, then the IPv4 address."""

_METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.169.0/24",  # EC2, Google, Azure, Oracle, OpenStack, DigitalOcean, IBM, Hetzner, Vultr
            "169.254.170.0/24",  # credentials of ECS and EKS
            "169.254.0.23/32",  # Tencent
            "169.254.42.42/32",  # Scaleway
            "100.100.100.200/32",  # Alibaba
            "100.96.0.96/32",  # Volcengine, BytePlus
            "100.80.80.80/32",  # UCloud
            "168.63.129.16/32",  # Azure's WireServer
            "192.0.0.0/24",  # Oracle Cloud Classic has 192.0.0.192; no host is among these, RFC 6890
            "fd00:ec2::/32",  # EC2, EKS
            "fd20:ce::254/128",  # Google
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "fd00:42::42/128",  # Scaleway
            "fd00:a9fe:a9fe::1/128",  # Akamai
            "fd00:100::100:200/128",  # Alibaba
            "fe80::a9fe:a9fe/128",  # OpenStack
        ),
    )
)


def parse_ip(text: str) -> IP | None:
    """Read an address as it is written, without the link's name behind `%`; None where it is none."""
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def embedded(address: IP) -> tuple[ipaddress.IPv4Address, ...]:
    """Return the IPv4 addresses that an address of IPv6 may lead to, as translators and tunnels read it."""
    if isinstance(address, ipaddress.IPv4Address) or int(address) <= 1:
        return ()
    number, found = int(address), []
    if any(address in network for network in _LAST_32) or number >> 32 & 0xFFFF_FFFF in _ISATAP:
        found.append(number & 0xFFFF_FFFF)
    if address in _OF_A_SITE:  # RFC 6052 2.2: with a prefix of 48 bits, around the eight that are nought
        found.append((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF)
    known = tuple(map(ipaddress.IPv4Address, found))
    return (*known, *filter(None, (address.sixtofour, address.teredo and address.teredo[1])))


def is_metadata(address: IP) -> bool:
    """Does a cloud tell machines about themselves there, credentials included? No agent is at such an address."""
    return any(each in network for each in (address, *embedded(address)) for network in _METADATA)


def is_near(address: IP) -> bool:
    """Is it on this machine or on its own link, or does it mean several hosts?"""
    return any(
        each.is_loopback
        or each.is_link_local
        or each.is_unspecified
        or each.is_multicast
        or each in _THIS_NETWORK
        or each == _BROADCAST
        for each in (address, *embedded(address))
    )


_THIS_NETWORK, _BROADCAST = ipaddress.ip_network("0.0.0.0/8"), ipaddress.IPv4Address("255.255.255.255")
