"""Which network addresses a webhook may reach. Pure: no name is looked up here.

The lists are our own and not `ipaddress.is_global`, whose results differ between patch releases.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Reach(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"  # of this machine or its networks: only where the operator allows it
    NEVER = "never"


def _networks(text: str) -> list[Network]:
    return [ip_network(each) for each in text.split()]


# Loopback, private use, what providers and overlay networks share, benchmarking, unique local.
PRIVATE = _networks(
    "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15 ::1 fc00::/7"
)
# Where clouds tell any program on a machine its credentials; some are outside link-local.
METADATA = _networks("100.100.100.200 168.63.129.16 fd00:ec2::/32 fd20:ce::/32")
# "This network", link-local with most metadata services, protocol assignments, documentation,
# relays of 6to4, multicast, reserved and broadcast; in IPv6 all that is not global unicast.
NEVER = _networks(
    "0.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.51.100.0/24"
    " 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 2001::/23 2001:db8::/32 2002::/16 3fff::/20"
)
GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")


def reach(address: Address) -> Reach:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return reach(address.ipv4_mapped)
        if address in NAT64:
            # How IPv6-only networks see public IPv4; for others the prefix must not be used.
            inner = reach(IPv4Address(int(address) & 0xFFFFFFFF))
            return inner if inner is Reach.PUBLIC else Reach.NEVER
    if _within(address, METADATA) or _within(address, NEVER):
        return Reach.NEVER
    if _within(address, PRIVATE):
        return Reach.PRIVATE
    if isinstance(address, IPv6Address) and address not in GLOBAL_UNICAST:
        return Reach.NEVER
    return Reach.PUBLIC


def all_allowed(addresses: list[Address], *, allow_private: bool) -> bool:
    """Every address of a name counts: which of them is used is not ours to choose."""
    allowed = {Reach.PUBLIC, Reach.PRIVATE} if allow_private else {Reach.PUBLIC}
    return bool(addresses) and all(reach(each) in allowed for each in addresses)


def literal(host: str) -> Address | None:
    """The address that a host is written as, in the usual form; None when it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _within(address: Address, networks: list[Network]) -> bool:
    return any(address in network for network in networks if network.version == address.version)
