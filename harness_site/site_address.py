"""Public address of the site, for links in messages and invitations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest

LOCAL_HOSTS: Final[frozenset[str]] = frozenset({"127.0.0.1", "localhost", "[::1]"})
_SCHEMES: Final = ("http", "https")
#: Host name or address of a URL.
HOST_NAME: Final = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_EXAMPLE: Final = "HARNESS_ADDRESS=https://harness.example.org"


def validate_and_strip_site_address(text: str) -> str:
    """Return the address `text` without a trailing slash; empty for an empty text.

    Raises `ImproperlyConfigured` with a sentence that names what is wrong and an example.
    """
    address = text.strip().rstrip("/")
    if address and (problem := describe_address_problem(address)):
        raise ImproperlyConfigured(f"HARNESS_ADDRESS is {text.strip()!r}: {problem}")
    return address


def describe_address_problem(address: str) -> str:
    """Describe why `address` cannot begin a link to the site; empty if it can."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return f"it has no scheme. Begin it with https:// or http://, for example {_EXAMPLE}"
    if scheme.lower() not in _SCHEMES:
        return f"browsers do not open {scheme}://. Begin it with https:// or http://, for example {_EXAMPLE}"
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    except ValueError:
        host, parts = "", urlsplit("")
    if not HOST_NAME.fullmatch(host):
        return f"its host name is missing or not valid. Use a form such as {_EXAMPLE}"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return f"it has a path. Give scheme and host alone, for example {_EXAMPLE}"
    return ""


def is_http_url(text: str) -> bool:
    """Return whether `text` begins with `http://` or `https://` and a host name."""
    return is_http_url_with_host(text, HOST_NAME)


def is_http_url_with_host(text: str, form: re.Pattern[str]) -> bool:
    """Return whether `text` begins with `http://` or `https://` and a host of the given form."""
    try:
        parts = urlsplit(text)
        host = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(form.fullmatch(host))


def guess_site_address(allowed_hosts: Sequence[str], *, https: bool) -> str:
    """Guess the address of the site from its first public host name."""
    public_hosts = [
        host for host in allowed_hosts if host not in LOCAL_HOSTS and "*" not in host and not host.startswith(".")
    ]
    return f"{'https' if https else 'http'}://{public_hosts[0] if public_hosts else '127.0.0.1:8000'}"


def format_default_allowed_hosts(address: str) -> str:
    """List the hosts to allow for a site at `address`, comma-separated: its own, and this machine for probes."""
    host = urlsplit(address).hostname or ""
    return ",".join(dict.fromkeys(["127.0.0.1", "localhost", *([host] if host else [])]))


def is_address_configured() -> bool:
    """Return False if `settings.SITE_ADDRESS` is only a guess from the allowed hosts."""
    return not getattr(settings, "SITE_ADDRESS_IS_GUESSED", False)


def is_guessed_address_local() -> bool:
    """Return True if no address is configured and none could be guessed from the allowed hosts."""
    return not is_address_configured() and urlsplit(settings.SITE_ADDRESS).hostname in LOCAL_HOSTS


def build_absolute_url(path: str, request: HttpRequest | None = None) -> str:
    """Return the absolute URL of a path of this site.

    It begins with the configured address. Without one it begins with the address of `request`, which the allowed hosts
    limit, and without a request with the guessed address.
    """
    if request is None or is_address_configured():
        return f"{settings.SITE_ADDRESS}{path}"
    return request.build_absolute_uri(path)
