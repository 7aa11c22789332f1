"""Times and addresses that the session pages have on paper."""

import re
from datetime import timedelta

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.models import Session
from tests.support.factories import THEN, make_call, make_checkpoint, make_messages
from tests.support.page_text import get_session_page, visible_text

pytestmark = pytest.mark.django_db


def test_exact_time_has_milliseconds_where_the_time_on_the_screen_has(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    make_call(session=session, status=CallStatus.COMPLETED, settled_at=THEN + timedelta(milliseconds=40))
    page = reader.get(f"/sessions/{session.pk}/timeline/").content.decode()
    started = re.findall(r'started"><time datetime="[^"]+" title="([^"]+)"[^>]*>([^<]+)<', page)
    assert ("2025-03-04 10:42:07.118 UTC", "2025-03-04 10:42:07.118") in started
    message = re.findall(r'title="([^"]+)" data-time="at"', get_session_page(reader, session))
    assert message
    assert not any("." in title for title in message)


def test_head_of_a_printed_session_has_its_address(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    page = visible_text(reader.get(f"/sessions/{session.pk}/timeline/?since=1"))
    assert f"http://testserver/sessions/{session.pk}/timeline/?since=1 · Printed by alice, as of " in page


def test_update_of_a_part_keeps_the_address_of_the_page(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver/sessions/{session.pk}/"}
    page = visible_text(reader.get(f"/sessions/{session.pk}/?since=0", headers=headers))
    assert f"http://testserver/sessions/{session.pk}/ · Printed by alice, as of " in page


def test_paper_has_times_in_the_zone_that_the_page_names(session: Session, reader: Client) -> None:
    reader.cookies["harness_zone"] = "Europe/Berlin"
    call = make_call(session=session, status=CallStatus.INTERRUPTED, interrupted_at=THEN)
    page = reader.get(f"/review/calls/{call.pk}/").content.decode()
    assert "Europe/Berlin" in page.partition("Printed by alice, as of")[2][:200]
    times = re.findall(r'<time [^>]*data-time="(?:ago|at|clock|due)"', page)
    assert any('data-paper="2025-03-04 11:42:07 +01:00"' in time for time in times)
    assert [time for time in times if "data-paper=" not in time] == []
