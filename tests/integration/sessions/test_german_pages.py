"""German pages: formats of numbers, amounts and dates, and coordinates of drawings."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import translation

from checkpoints.db import clock
from checkpoints.enums import ActorKind, CallStatus, DecisionKind, Role
from harness_site.core.formatting import format_day, format_duration
from harness_site.core.rendering.text_shortening import format_byte_size
from harness_site.sessions import money_and_count_formatting
from tests.support.factories import THEN, make_call, make_decision, make_message, make_run, make_session, make_user

pytestmark = pytest.mark.django_db
GERMAN = {"Accept-Language": "de"}


@pytest.mark.parametrize(("language", "words"), [
    ("en", ["1,839", "$0.06", "$1,234.50", "+1,200", "2 (0.4 %)", "3.4 s", "5.2 MB", "4 Mar"]),
    ("de", ["1.839", "0,06 $", "1.234,50 $", "+1.200", "2 (0,4 %)", "3,4 s", "5,2 MB", "4. März"]),
])  # fmt: skip
def test_numbers_amounts_and_dates_are_localized(language: str, words: list[str]) -> None:
    with translation.override(language):
        assert words == [
            money_and_count_formatting.format_count(1839),
            money_and_count_formatting.format_money(Decimal("0.06")),
            money_and_count_formatting.format_money(Decimal("1234.5")),
            money_and_count_formatting.format_signed_number(1200),
            money_and_count_formatting.format_count_with_share(2, 500),
            format_duration(3.4),
            format_byte_size(5_200_000),
            format_day(THEN.date()),
        ]


@pytest.mark.parametrize("page", ["", "timeline/"])
def test_coordinates_of_drawings_are_not_localized(client: Client, page: str) -> None:
    session = make_session()
    make_run(session=session, started_at=THEN, heartbeat_at=THEN + timedelta(seconds=9))
    make_message(session=session)
    for number in range(3):
        since = THEN + timedelta(seconds=1.7 * number)
        until = since + timedelta(seconds=0.9)
        status = CallStatus.COMPLETED
        make_call(
            session=session, call_id=f"c{number}", status=status, issued_at=since, settled_at=until, result="done"
        )
    client.force_login(make_user(name="dora", role=Role.ADMIN))
    html = client.get(f"/sessions/{session.pk}/{page}", headers=GERMAN).content.decode()
    assert 'lang="de"' in html
    drawings = "".join(re.findall(r"<svg class=\"drawing.*?</svg>", html, re.DOTALL))
    assert re.search(r'<rect class="life[^>]* x="[\d.]+"', drawings)
    assert re.findall(r' (?:x|y|width|height|cx|cy|d|transform)="[^"]*\d,\d[^"]*"', drawings) == []


def test_list_of_keys_is_in_the_language_of_each_reader(client: Client) -> None:
    client.force_login(make_user(name="dora", role=Role.ADMIN))
    titles = [
        re.search(r'<h2 id="keys-title">(.*?)</h2>', client.get("/sessions/", headers=headers).content.decode())
        for headers in ({}, GERMAN, {})
    ]
    assert [title and title[1] for title in titles] == ["Keys", "Tasten", "Keys"]


def test_call_trace_has_german_quotation_marks(client: Client) -> None:
    session = make_session()
    call = make_call(session=session, args={}, interrupted_at=clock.now(), error_type="Timeout", side_effects="mutate")
    make_decision(
        call=call, kind=DecisionKind.PROBE_UNKNOWN, actor="hook", actor_kind=ActorKind.HOOK, reason="no answer"
    )
    client.force_login(make_user())
    html = client.get(f"/review/calls/{call.pk}/", headers=GERMAN).content.decode()
    assert "„no answer“" in html
    assert "“no answer”" not in html
    assert "<dd>ändert oder löscht etwas außerhalb der Sitzung (verändert)</dd>" in html
