"""Extreme dates, numbers and cursors in URLs and forms never cause an error."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.test import Client

from checkpoints.enums import Role
from tests.integration.accounts.test_url_access import things
from tests.support.client_login import sign_in
from tests.support.exhaustive_mode import choose_each, mark_all_but_each
from tests.support.factories import make_user, make_workspace

pytestmark = pytest.mark.django_db

MOMENTS: Final = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "0001-01-02T00:00:00+00:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-14:00",
    "9999-12-31T23:59:59",
    "0000-01-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:00:00+23:59",
    "2026-01-01T00:00:00+00:00:59.999999",
    "2026-01-01",
    "-4713-01-01T00:00:00Z",
    "99999-01-01T00:00:00Z",
    "infinity",
    "-infinity",
    "\x00",
    "٢٠٢٦-٠١-٠١T٠٠:٠٠:٠٠Z",
    "9" * 5000,
)
DAYS: Final = ("0001-01-01", "9999-12-31", "9999-12-30", "0000-01-01", "2026-02-30", "٢٠٢٦-٠١-٠١", "1e999", "\x00")
#: Numbers at the limits of what a column holds: each parameter is given all of them.
SIZES: Final = ("0", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809")
#: What one parser refuses: each parameter is given some of them.
NO_NUMBERS: Final = ("-1", "1e9", "9" * 5000, "²", "1.5", "NaN", "\x00", "1_0")
NUMBERS: Final = (*SIZES, *NO_NUMBERS)
CURSORS: Final = (
    *("0001-01-01 00:00:00~1", "9999-12-31 23:59:59.999999~999999999999999999", "0001-01-01 00:00:00+14~1"),
    *("9999-12-31 23:59:59-14:00~1", "2026-02-30 00:00:00~1", "0000-00-00 00:00:00~0", "2026-01-01 00:00:00+23:59~1"),
    *("999999999999.999999~999999999999999999", "-1~1", "0.1~0", "a~b", "~", "٢٠٢٦-٠١-٠١ ٠٠:٠٠:٠٠~1", "20260101~1"),
    *("2026-W01-1 00~1", "2026-01-01 24:00:00~1", "2026-01-01T00:00:00.1234567~1"),
)
#: Address → its parameters, and what each of them takes.
PARAMETERS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "/review/outages/?tool=x&from={moment}&to={moment}": {"after": NUMBERS},
    "/review/news/": {"since": MOMENTS},
    "/review/": {"after": NUMBERS},
    "/review/?tab=decided": {"after": NUMBERS},
    "/review/?sort=deadline": {"after": NUMBERS},
    "/review/calls/{call}/": {"seen": NUMBERS, "answer": NUMBERS},
    "/sessions/": {
        **dict.fromkeys(("first", "last"), DAYS),
        **dict.fromkeys(("least", "most", "rows"), NUMBERS),
        "after": CURSORS,
    },
    "/sessions/?sort=started": {"first": DAYS, "last": DAYS, "after": CURSORS},
    "/sessions/?sort=cost": {"after": CURSORS},
    "/sessions/?q=look": {
        **dict.fromkeys(("before", "within", "rows", "newest", "then"), NUMBERS),
        "first": DAYS,
        "last": DAYS,
    },
    "/sessions/{session}/": dict.fromkeys(("v", "at", "before", "after", "since"), NUMBERS),
    "/sessions/{session}/?find=look": {"at": NUMBERS},
    "/sessions/{session}/jump/?to=day": {"day": DAYS, "at": NUMBERS},
    "/sessions/{session}/jump/?to=error": {"at": NUMBERS, "v": NUMBERS},
    "/sessions/{session}/messages/0/": {"v": NUMBERS},
    "/sessions/{session}/versions/": {"before": NUMBERS, "a": NUMBERS, "b": NUMBERS},
    "/sessions/{session}/compare/": dict.fromkeys(("a", "b", "with", "open", "other"), NUMBERS),
    "/sessions/{session}/calls/": {"before": NUMBERS},
    "/sessions/{session}/timeline/": {"from": MOMENTS, "to": MOMENTS, "row": NUMBERS},
    "/sessions/{session}/workflows/": {"after": (*NUMBERS, *(f"{number}.{number}" for number in NUMBERS))},
    "/sessions/{session}/peers/": dict.fromkeys(("join", "before", "after"), NUMBERS),
    "/sessions/{session}/peers/?join=1": {"after": NUMBERS},
    "/sessions/{session}/history/": dict.fromkeys(("event", "decision"), NUMBERS),
    "/sessions/{session}/history/?event=1": {"decision": NUMBERS},
    "/sessions/{session}/history/?event=1&decision=1": {"call": CURSORS},
    "/sessions/{session}/fork/": {"v": NUMBERS},
    "/calls/": {"first": DAYS, "last": DAYS, "after": CURSORS},
    "/calls/export/": {"first": DAYS, "last": DAYS},
    "/audit/": {"first": DAYS, "last": DAYS, "before": NUMBERS},
    "/audit/export/": {"first": DAYS, "last": DAYS},
    "/sessions/export/": {"first": DAYS, "last": DAYS, "least": NUMBERS},
    "/settings/notifications/log/": {"before": NUMBERS},
}
#: What a form names, beside what it needs.
FORMS: Final[dict[str, tuple[dict[str, str], dict[str, tuple[str, ...]]]]] = {
    "/review/calls/{call}/": ({"kind": "mark_failed", "reason": "x"}, {"revision": NUMBERS}),
    "/sessions/{session}/fork/": ({"session_id": "new"}, {"version": NUMBERS}),
    "/sessions/labels/": ({"label": "x", "what": "add"}, {"session": NUMBERS}),
    "/review/outages/settle/": (
        {"tool": "x", "reason": "x", "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
        {"call": (*NUMBERS, *(f"{number}.{number}.mark_failed" for number in NUMBERS)), "after": NUMBERS},
    ),
    "/review/outages/verify/": ({"tool": "x", "to": "2026-01-01T00:00:00Z"}, {"from": MOMENTS}),
}
PATHS: Final = (
    *("/review/calls/{n}/", "/review/evidence/{n}/", "/sessions/{n}/", "/sessions/{session}/messages/{n}/"),
    *("/sessions/{session}/messages/0/images/{n}/", "/sessions/{session}/messages/0/audio/{n}/"),
    *("/sessions/{session}/calls/{n}/", "/sessions/{n}/export/html/"),
)


@pytest.fixture
def reader(db: None) -> tuple[Client, dict[str, Any]]:
    named = things(make_workspace())
    return sign_in(Client(), make_user(role=Role.ADMIN)), named


def statuses(client: Client, requests: Iterator[tuple[str, str, dict[str, str]]]) -> dict[str, int]:
    client.raise_request_exception = False
    failed = {}
    for method, address, data in requests:
        response: Any = getattr(client, method)(address, data)
        if response.streaming:
            b"".join(response.streaming_content)
        if response.status_code >= 500:
            failed[f"{method} {address} {str(data)[:100]}"] = response.status_code
    return failed


def queries(named: dict[str, Any], address: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    path, _, fixed = address.format(**named, moment="2026-01-01T00:00:00Z").partition("?")
    kept = dict(pair.split("=") for pair in fixed.split("&")) if fixed else {}
    for number, (name, values) in enumerate(PARAMETERS[address].items()):
        for value in (*SIZES, *NO_NUMBERS[number % 4 :: 4]) if values is NUMBERS else values:
            yield "get", path, {**kept, name: value}
    # All at once.
    yield "get", path, kept | {name: values[-1] for name, values in PARAMETERS[address].items()}


@pytest.mark.parametrize("address", mark_all_but_each(4, PARAMETERS))
def test_extreme_query_parameters_are_handled(reader: tuple[Client, dict[str, Any]], address: str) -> None:
    client, named = reader
    assert statuses(client, queries(named, address)) == {}


def test_extreme_time_ranges_are_handled(reader: tuple[Client, dict[str, Any]]) -> None:
    client, named = reader
    pairs = choose_each(4, [(one, other) for one in MOMENTS for other in (one, MOMENTS[0], MOMENTS[3])])
    pages = ("/review/outages/", f"/sessions/{named['session']}/timeline/")
    asked = (("get", page, {"tool": "refund_card", "from": a, "to": b}) for page in pages for a, b in pairs)
    assert statuses(client, asked) == {}


@pytest.mark.parametrize("address", FORMS)
def test_extreme_form_values_are_handled(reader: tuple[Client, dict[str, Any]], address: str) -> None:
    client, named = reader
    needed, tried = FORMS[address]
    path = address.format(**named)
    asked = (("post", path, needed | {name: value}) for name, values in tried.items() for value in values)
    assert statuses(client, asked) == {}


@pytest.mark.parametrize("address", PATHS)
def test_extreme_numbers_in_urls_are_handled(reader: tuple[Client, dict[str, Any]], address: str) -> None:
    client, named = reader
    numbers = (number for number in NUMBERS if number.isascii() and number.isdigit())
    assert statuses(client, (("get", address.format(**named, n=number), {}) for number in numbers)) == {}


@pytest.mark.parametrize("moment", MOMENTS)
def test_outage_at_the_last_representable_time_is_refused(reader: tuple[Client, dict[str, Any]], moment: str) -> None:
    client, _ = reader
    response = client.get("/review/outages/", {"tool": "x", "from": moment, "to": moment})
    assert response.status_code in {200, 400}
    if response.status_code == 400:
        assert "This request is not valid" in response.content.decode()
