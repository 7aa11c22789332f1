"""HTTP requests to user-supplied addresses, with protection against SSRF and slow receivers.

A host name is resolved at the moment of the request, addresses inside the network are refused, and the connection goes
to exactly the address that was checked.
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
from django.utils.translation import gettext_lazy as _

from harness_site.core.translatable_stored_sentence import StoredSentence

#: Timeouts in seconds: of each step, and of the whole request.
STEP: Final = 10.0
WHOLE: Final = 15.0
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
#: Networks that Python may classify as global but IANA's special-purpose registries assign to protocols, tunnels,
#: relays and documentation.
_SPECIAL_IPV4: Final = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4")))
_SPECIAL_IPV6: Final = tuple(
    map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
#: All IPv6 addresses that are assigned as global unicast.
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
#: NAT64 prefix; the IPv4 address is in the last 32 bits.
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
#: ISATAP interface identifiers (RFC 5214) that precede an embedded IPv4 address.
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})


_ADDRESS_INSIDE: Final = _(
    "%(host)s is inside this network. Enter an address on the internet, or ask the operator of this installation to "
    "allow %(host)s in HARNESS_WEBHOOK_HOSTS."
)
_NAME_OF_ADDRESS_INSIDE: Final = _(
    "%(host)s leads to %(address)s, inside this network. Enter an address on the internet, or ask the operator of this "
    "installation to allow %(host)s in HARNESS_WEBHOOK_HOSTS."
)


class AddressRefused(Exception):
    """Refusal of an address; the message is shown to the user, and is a lazy translation or a `StoredSentence`."""


def parse_webhook_url(address: str) -> SplitResult:
    """Validate the form of a webhook's address and split it, without resolving its host. Raises `AddressRefused`."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise AddressRefused(
            _("This is not an address. Enter a complete one, such as https://example.com/path.")
        ) from error
    if not host or port == 0 or any(ord(letter) <= 32 or ord(letter) > 126 for letter in address):
        raise AddressRefused(_("This is not a complete address. Enter one such as https://example.com/path."))
    if parts.username or parts.password:
        raise AddressRefused(_("An address with a name and a password in it cannot be used. Enter it without them."))
    if parts.scheme == "http" and settings.DEBUG and _is_loopback_host(host):
        return parts
    if parts.scheme != "https":
        raise AddressRefused(_("The address has to begin with https://"))
    return parts


def require_public_url(address: str) -> None:
    """Validate a webhook's address as each request to it does. Raises `AddressRefused`.

    A host that cannot be resolved is accepted: it may exist by the time of the request.
    """
    parts = parse_webhook_url(address)
    with suppress(OSError, UnicodeError):
        _resolve_public_addresses(str(parts.hostname), parts.port or _DEFAULT_PORTS[parts.scheme])


def post_to_public_address(address: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send `body` by POST; return the status of the response. Redirects are not followed.

    Raises `AddressRefused`, and `OSError` or `HTTPException` if there is no response.
    """
    parts = parse_webhook_url(address)
    connection = _CheckedConnection(parts)
    # The timeout per step does not stop a server that sends single bytes slowly.
    watchdog = threading.Timer(WHOLE, connection.shut_down_socket)
    watchdog.start()
    try:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connection.request("POST", path, body, dict(headers))
        return connection.getresponse().status
    finally:
        watchdog.cancel()
        connection.close()


class _CheckedConnection(http.client.HTTPConnection):
    """Connection to a checked address that presents the requested host name."""

    def __init__(self, parts: SplitResult) -> None:
        self._secure = parts.scheme == "https"
        self.default_port = _DEFAULT_PORTS[parts.scheme]
        super().__init__(str(parts.hostname), parts.port or self.default_port, timeout=STEP)

    def connect(self) -> None:
        problem: OSError | None = None
        for address in _resolve_public_addresses(self.host, self.port):
            try:
                self.sock = socket.create_connection((address, self.port), STEP)
                break
            except OSError as error:
                problem = error
        else:
            raise problem or OSError("The name has no address.")
        if self._secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

    def shut_down_socket(self) -> None:
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def _resolve_public_addresses(host: str, port: int) -> list[str]:
    """Resolve a host name. Raises `AddressRefused` if any of its addresses is not public."""
    addresses = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if host.lower() not in settings.WEBHOOK_HOSTS and not (settings.DEBUG and all(map(_is_loopback_host, addresses))):
        for address in addresses:
            if not _is_public_address(address):
                sentence = _ADDRESS_INSIDE if host == address else _NAME_OF_ADDRESS_INSIDE
                raise AddressRefused(StoredSentence.build(sentence, host=host, address=address))
    return addresses


def _is_loopback_host(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_public_address(text: str) -> bool:
    """Return True for an address of the public internet."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # also an address with an interface name
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return _is_public_ipv4(address)
    embedded = _extract_embedded_ipv4(address)
    if embedded is not None and not _is_public_ipv4(embedded):
        return False
    if address.ipv4_mapped is not None or address in _TRANSLATED:
        return True
    return address in _UNICAST and address.is_global and not any(address in network for network in _SPECIAL_IPV6)


def _is_public_ipv4(address: ipaddress.IPv4Address) -> bool:
    is_special = address.is_multicast or address.is_reserved or any(address in network for network in _SPECIAL_IPV4)
    return address.is_global and not is_special


def _extract_embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 address to which a router may forward, or None."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    interface = int(address) & 0xFFFF_FFFF_FFFF_FFFF
    if address in _TRANSLATED or interface >> 32 in _ISATAP:
        return ipaddress.IPv4Address(interface & 0xFFFF_FFFF)
    return None
