"""Requests to user-supplied URLs reach public addresses only."""

import ipaddress
import socket

import pytest
from pytest_django.fixtures import Settings

from harness_site.notifications import safe_http
from harness_site.notifications.safe_http import AddressRefused
from tests.integration.notifications.conftest import Start

INSIDE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.9",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 - nothing listens
    "224.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "192.0.0.1",
    "192.0.0.9",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.7",
    "240.0.0.1",
    "255.255.255.255",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1::808:808",
    "64:ff9b::a00:1",
    "::10.0.0.1",
    "::8.8.8.8",
    "::ffff:0:10.0.0.1",
    "::ffff:0:8.8.8.8",
    "::5efe:10.0.0.1",
    "2a00:1450::5efe:10.0.0.1",
    "2a00:1450::200:5efe:192.168.0.1",
    "2002:808:808::1",
    "2001:0:808:808::1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "5f00::1",
    "4000::1",
    "fec0::1",
]
PUBLIC = [
    "8.8.8.8",
    "192.0.1.1",
    "2606:4700:4700::1111",
    "2a00:1450:4001:82a::200e",
    "2a00:1450::5efe:8.8.8.8",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("address", INSIDE)
def test_internal_addresses_are_refused(address: str) -> None:
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(AddressRefused, match="inside this network"):
        safe_http.post_to_public_address(f"https://{host}/", b"{}", {})


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection itself is not made."""
    tried: list[str] = []

    def connect(place: tuple[str, int], *_: object) -> socket.socket:
        tried.append(place[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(ConnectionRefusedError):
        safe_http.post_to_public_address(f"https://{host}/", b"{}", {})
    assert [ipaddress.ip_address(one) for one in tried] == [ipaddress.ip_address(address)]


def test_checked_address_is_used_for_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves differently a moment later does not change the connection."""
    answers = iter(["8.8.8.8", "127.0.0.1"])
    tried: list[str] = []

    def resolve(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    def connect(place: tuple[str, int], *_: object) -> socket.socket:
        tried.append(place[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ConnectionRefusedError):
        safe_http.post_to_public_address("https://hooks.example.com/", b"{}", {})
    assert tried == ["8.8.8.8"]


@pytest.mark.parametrize(
    "address",
    ["https://localhost/", "https://2130706433/", "https://0x7f.1/", "https://127.1/"],
)
def test_names_and_other_spellings_of_internal_addresses_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused, match="inside this network"):
        safe_http.post_to_public_address(address, b"{}", {})


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "not a complete address"),
        ("https://", "not a complete address"),
        ("https://exa mple.com/", "not a complete address"),
        ("https://example.com/\r\nHost: x", "not a complete address"),
        ("https://[::1", "not an address"),
        ("https://example.com:99999/", "not an address"),
        ("https://example.com:0/", "not a complete address"),
        ("https://name:word@example.com/", "name and a password"),
        ("http://example.com/", "has to begin with https://"),
        ("http://127.0.0.1:8000/", "has to begin with https://"),
        ("ftp://example.com/", "has to begin with https://"),
        ("file:///etc/passwd", "not a complete address"),
        ("javascript:alert(1)", "not a complete address"),
    ],
)
def test_invalid_urls_are_refused(address: str, said: str) -> None:
    with pytest.raises(AddressRefused, match=said):
        safe_http.parse_webhook_url(address)


@pytest.mark.parametrize("address", ["https://example.com/in?key=1", "https://[2001:db8::1]:8443/", "https://1.1.1.1"])
def test_valid_urls_are_accepted(address: str) -> None:
    assert safe_http.parse_webhook_url(address).geturl() == address


def test_loopback_is_allowed_in_development(web: Start) -> None:
    receiver = web()
    assert safe_http.post_to_public_address(receiver.address, b"{}", {"Harness-Event": "test"}) == 200
    assert receiver.messages[0]["headers"]["Host"] == f"127.0.0.1:{receiver.port}"


def test_other_internal_addresses_are_refused_in_development(settings: Settings) -> None:
    settings.DEBUG = True
    for address in ("http://10.0.0.1/", "http://example.com/"):
        with pytest.raises(AddressRefused, match="https"):
            safe_http.parse_webhook_url(address)
    with pytest.raises(AddressRefused, match="inside this network"):
        safe_http.post_to_public_address("https://10.0.0.1/", b"{}", {})


def test_operator_may_allow_a_host_name(settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["localhost"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.close()
        # It was allowed to try.
        with pytest.raises(ConnectionRefusedError):
            safe_http.post_to_public_address(f"https://localhost:{port}/", b"{}", {})
