"""Readers of the settings that list hosts or origins, which report a value that could equal none."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from django.core.exceptions import ImproperlyConfigured

from harness_site import env
from harness_site.site_address import HOST_NAME, is_http_url_with_host

#: Host name in an origin, where `*.` stands for any subdomain.
_HOST_PATTERN: Final = re.compile(rf"(?:\*\.)?(?:{HOST_NAME.pattern})")


def read_host_names_or_collect_problem(name: str, default: str = "") -> list[str]:
    """Return the host names of a comma-separated setting.

    One with a scheme, a port or a path would equal no host of a request. It is kept for `env.raise_collected_problems`,
    and the list is then empty.
    """
    return _read_list_or_collect_problem(
        name,
        default,
        _is_host_name,
        "List names of hosts, without scheme, port and path, and with a comma between two, for example "
        f"{name}=harness.example.org,10.0.0.5",
    )


def read_origins_or_collect_problem(name: str) -> list[str]:
    """Return the origins of a comma-separated setting.

    One without a scheme or with a path would equal no origin of a request. It is kept for
    `env.raise_collected_problems`, and the list is then empty.
    """
    return _read_list_or_collect_problem(
        name,
        "",
        _is_origin,
        f"List origins with their scheme and without a path, and with a comma between two, for example "
        f"{name}=https://harness.example.org",
    )


def _read_list_or_collect_problem(name: str, default: str, is_valid: Callable[[str], bool], hint: str) -> list[str]:
    def read_and_validate_list() -> list[str]:
        values = env.read_list_setting(name, default)
        wrong = next((value for value in values if not is_valid(value)), None)
        if wrong is not None:
            raise ImproperlyConfigured(f"{name} has {wrong!r}. {hint}")
        return values

    nothing: list[str] = []
    return env.read_or_collect_problem(read_and_validate_list, nothing)


def _is_host_name(text: str) -> bool:
    if text == "*" or HOST_NAME.fullmatch(text):
        return True
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


def _is_origin(text: str) -> bool:
    return is_http_url_with_host(text, _HOST_PATTERN) and text.count("/") == 2 and not set(text) & {"?", "#"}
