"""HTTP requests to addresses that people typed: only where such an address may lead, and only for a while.

A site stands inside a network that others do not reach. An address that leads back into it is refused, by what its name
means at the moment of the request, and the connection goes to exactly what was checked.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

#: Seconds: for each step, and for all of it.
STEP: Final = 10.0
WHOLE: Final = 15.0
#: Networks that are not the public internet although Python may take them for global: IANA's registries of
#: special-purpose addresses give them to protocols, tunnels, relays and documentation.
_SPECIAL_IPV4: Final = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4")))
_SPECIAL_IPV6: Final = tuple(
    map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
#: All IPv6 addresses that are given out as global unicast.
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
#: Where a translator (NAT64) leads to the IPv4 address at the end.
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
#: What stands before an IPv4 address at the end where it is tunnelled to (ISATAP, RFC 5214).
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})


class AddressRefused(Exception):
    """The message is a sentence for who typed the address."""


def checked(address: str) -> SplitResult:
    """The parts of an address that a webhook may have. Raises `AddressRefused`."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise AddressRefused("This is not an address.") from error
    if not host or port == 0 or any(ord(letter) <= 32 or ord(letter) > 126 for letter in address):
        raise AddressRefused("This is not a complete address: https://example.com/path")
    if parts.username or parts.password:
        raise AddressRefused("An address with a name and a password in it is not taken.")
    if parts.scheme == "http" and settings.DEBUG and _local(host):
        return parts
    if parts.scheme != "https":
        raise AddressRefused("The address has to begin with https://")
    return parts


def post(address: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send `body`; returns the status of the answer, whatever it is. Redirects are not followed.

    Raises `AddressRefused`, and `OSError` or `HTTPException` where nobody answered.
    """
    parts = checked(address)
    connection = _Connection(parts)
    # Whoever sends one byte now and then would otherwise hold this up for ever.
    watchdog = threading.Timer(WHOLE, connection.cut)
    watchdog.start()
    try:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connection.request("POST", path, body, dict(headers))
        return connection.getresponse().status
    finally:
        watchdog.cancel()
        connection.close()


class _Connection(http.client.HTTPConnection):
    """Goes to an address that was checked, and shows the name that was asked for."""

    def __init__(self, parts: SplitResult) -> None:
        self._secure = parts.scheme == "https"
        self.default_port = 443 if self._secure else 80
        super().__init__(str(parts.hostname), parts.port or self.default_port, timeout=STEP)

    def connect(self) -> None:
        problem: OSError | None = None
        for address in _addresses(self.host, self.port):
            try:
                self.sock = socket.create_connection((address, self.port), STEP)
                break
            except OSError as error:
                problem = error
        else:
            raise problem or OSError("The name has no address.")
        if self._secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def _addresses(host: str, port: int) -> list[str]:
    """What a name means now. Raises `AddressRefused` where any of it lies inside."""
    found = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if host.lower() not in settings.WEBHOOK_HOSTS and not (settings.DEBUG and all(map(_local, found))):
        for address in found:
            if not _public(address):
                raise AddressRefused(
                    f"{host} leads to {address}, inside this network. Whoever runs this installation may allow it: "
                    "HARNESS_WEBHOOK_HOSTS."
                )
    return found


def _local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _public(text: str) -> bool:
    """Whether an address is one of the public internet; anything else leads somewhere else, or nowhere."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # also an address with the name of an interface
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return _public_ipv4(address)
    embedded = _embedded_ipv4(address)
    if embedded is not None and not _public_ipv4(embedded):
        return False
    if address.ipv4_mapped is not None or address in _TRANSLATED:
        return True
    return address in _UNICAST and address.is_global and not any(address in network for network in _SPECIAL_IPV6)


def _public_ipv4(address: ipaddress.IPv4Address) -> bool:
    special = address.is_multicast or address.is_reserved or any(address in network for network in _SPECIAL_IPV4)
    return address.is_global and not special


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address at the end of an IPv6 address that some router would send it to."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    interface = int(address) & 0xFFFF_FFFF_FFFF_FFFF
    if address in _TRANSLATED or interface >> 32 in _ISATAP:
        return ipaddress.IPv4Address(interface & 0xFFFF_FFFF)
    return None
