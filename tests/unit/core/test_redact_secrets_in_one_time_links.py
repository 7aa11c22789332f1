"""Logs do not hold the secrets of links that work once."""

import logging
from io import StringIO
from urllib.parse import quote

import pytest
from django.http import QueryDict
from django.urls import reverse
from uvicorn.config import LOGGING_CONFIG
from uvicorn.logging import AccessFormatter

from harness_site.core.log_formatter_and_filter import OneEntryFormatter
from harness_site.core.redact_secrets_in_one_time_links import (
    copy_config_with_access_log_filter,
    hide_secrets_in_one_time_links,
)

SECRET = "invite_fqiNf0BF7Fd6lZR3:1vXz-_"
NAMES = (
    "harness_accounts:first-account",
    "harness_accounts:sign-in-link",
    "harness_accounts:invitation",
    "harness_notifications:confirm-address",
)


@pytest.mark.parametrize("name", NAMES)
def test_entry_of_the_site_hides_the_secret(name: str) -> None:
    path = reverse(name, args=[SECRET])
    record = logging.LogRecord("django.request", logging.WARNING, "", 0, "Gone: %s", (f"/harness{path}",), None)
    written = OneEntryFormatter("%(message)s").format(record)
    assert written == f"Gone: /harness{path.replace(SECRET, '…')}"


@pytest.mark.parametrize("name", NAMES)
def test_secret_in_the_query_of_another_address_is_hidden(name: str) -> None:
    query = QueryDict(mutable=True)
    query["next"], query["process"] = reverse(name, args=[SECRET]), "login"
    hidden = hide_secrets_in_one_time_links(f"/accounts/login/passkey/?{query.urlencode()}")
    assert hidden == f"/accounts/login/passkey/?{query.urlencode().replace(quote(SECRET), '…')}"


@pytest.mark.parametrize("name", NAMES)
def test_access_log_hides_the_secret(name: str) -> None:
    path, written = reverse(name, args=[SECRET]), StringIO()
    config = copy_config_with_access_log_filter(LOGGING_CONFIG, "warning")
    [filter_name] = config["handlers"]["access"]["filters"]
    handler = logging.StreamHandler(written)
    handler.setFormatter(AccessFormatter(config["formatters"]["access"]["fmt"], use_colors=False))
    handler.addFilter(config["filters"][filter_name]["()"]())
    request = ("127.0.0.1:4711", "GET", f"{path}?next=/", "1.1", 200)
    handler.handle(logging.LogRecord("access", logging.INFO, "", 0, '%s - "%s %s HTTP/%s" %d', request, None))
    assert SECRET not in written.getvalue()
    assert f"GET {path.replace(SECRET, '…')}?next=/ HTTP/1.1" in written.getvalue()
    assert [config["loggers"][f"uvicorn.{name}"]["level"] for name in ("error", "access")] == ["WARNING", "INFO"]
    assert "filters" not in LOGGING_CONFIG["handlers"]["access"]
