"""Where webhooks may go: never to this machine or its network, unless the operator is on it too.

A URL is checked when it is given, and its addresses whenever it is used: a name may mean another
machine tomorrow. Every address must be allowed, and the connection goes to a checked one.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from millstream.core.errors import Code, Refused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME: Final = re.compile(
    r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?"
)
_NUMERIC_LABEL: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT_DEFAULT: Final = {"http": 80, "https": 443}
_PORT_FREE_MIN: Final = 1024

_DENIED: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier NAT, and cloud-internal services
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, and cloud metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
_GLOBAL_V6: Final = ipaddress.ip_network("2000::/3")
"""The only IPv6 range given out to the public; all else is local, mapped, or not in use."""
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_V4_COMPATIBLE: Final = ipaddress.ip_network("::/96")


class WebhookTarget(NamedTuple):
    """A webhook URL, taken apart."""

    is_tls: bool
    host: str
    """In lower case, without brackets."""
    port: int
    authority: str
    """What goes into the Host header."""
    resource: str
    """Path and query, for the request line."""
    is_local: bool
    """The URL itself says that the receiver is on this machine."""


class Guard(NamedTuple):
    """The rules that webhooks have to keep.

    ``may_be_local`` lets URLs that say so go to loopback; ``may_be_private`` lets every URL go to
    every address that is one machine's.
    """

    may_be_local: bool
    may_be_private: bool = False

    def check_url(self, url: str) -> WebhookTarget | Refused:
        """Return a webhook URL taken apart, or why it is not allowed."""
        target = _parse(url)
        if isinstance(target, str):
            return _reject(target)
        rule = self._broken_rule(target)
        return target if rule is None else _reject(rule)

    def broken_rule(self, target: WebhookTarget, address: Address) -> str | None:
        """Return why ``target`` must not be reached at ``address``, or None when it may."""
        plain = unwrap(address)
        if plain.is_unspecified or plain.is_multicast:
            return f"{address} is not one machine's address"
        if self.may_be_private:
            return None
        if target.is_local:
            is_fine = self.may_be_local and plain.is_loopback
            return None if is_fine else f"{address} is not a loopback address"
        return None if is_public(address) else f"{address} is not a public address"

    def _broken_rule(self, target: WebhookTarget) -> str | None:
        literal = literal_address(target.host)
        if target.is_local and not (self.may_be_local or self.may_be_private):
            return "receivers on this machine are taken only while the server listens on loopback"
        if literal is not None and (rule := self.broken_rule(target, literal)) is not None:
            return rule
        if not target.is_tls and not (target.is_local or self.may_be_private):
            return "it must start with https://"
        if target.is_local or self.may_be_private:
            return None
        if target.port != _PORT_DEFAULT["https"] and target.port < _PORT_FREE_MIN:
            return f"port {target.port} is not taken; use 443 or one from {_PORT_FREE_MIN} up"
        return None


def is_public(address: Address) -> bool:
    """Tell whether an address is a machine on the public Internet, also behind its wrapping."""
    plain = unwrap(address)
    if isinstance(plain, ipaddress.IPv6Address) and plain not in _GLOBAL_V6:
        return False
    if plain.is_multicast or not plain.is_global:
        return False
    return not any(plain in network for network in _DENIED if network.version == plain.version)


def unwrap(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    # ::1 and :: look like IPv4-compatible addresses and are none.
    if address in _NAT64 or (address in _V4_COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def literal_address(host: str) -> Address | None:
    """Return the address that a host is written as, or None when it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _parse(url: str) -> WebhookTarget | str:
    """Return a URL taken apart, or the rule that it breaks."""
    if not url.isascii() or not url.isprintable() or any(char in url for char in ' "<>\\^`{|}'):
        return "it must be plain ASCII, without spaces; encode other characters"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "it is not a URL"
    host = (parts.hostname or "").lower()
    if parts.scheme not in _PORT_DEFAULT or not host:
        return "it must be a URL such as https://worker.example/hook"
    if "@" in parts.netloc:
        return "it must not hold a user name or a password"
    if "#" in url:
        return "it must not have a fragment"
    if port == 0:
        return "port 0 is not taken"
    literal = literal_address(host)
    if literal is None:
        if len(host) > 253 or _NAME.fullmatch(host) is None:
            return f"{host!r} is not a host name"
        if _NUMERIC_LABEL.fullmatch(host.rstrip(".").rpartition(".")[2]):
            return f"{host!r} is an address in disguise; write it as four decimal numbers"
    elif "%" in host:
        return "an address must not have a zone"
    if port is None:
        port = _PORT_DEFAULT[parts.scheme]
    is_local = host == "localhost" or (literal is not None and unwrap(literal).is_loopback)
    resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookTarget(parts.scheme == "https", host, port, parts.netloc, resource, is_local)


def _reject(rule: str) -> Refused:
    return Refused(
        code=Code.WEBHOOK_URL_REJECTED, detail=f"webhook.url: {rule}", field="webhook.url"
    )
