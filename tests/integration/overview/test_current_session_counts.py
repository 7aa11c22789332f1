"""The numbers of sessions as they are now: running, orphaned, ready to resume, paused."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from checkpoints.enums import RunStatus, SessionStatus
from checkpoints.models import Session
from harness_site.overview import current_session_counts
from tests.integration.overview.started_sessions_and_settled_calls import make_started_session
from tests.support.factories import make_run, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_current_counts_are_up_to_date() -> None:
    make_run(session=make_session())
    make_run(session=make_session(), lease=timedelta(hours=-1))
    make_run(session=make_session(), owner=False, status=RunStatus.LOST)
    make_run(session=make_session(), owner=False, status=RunStatus.RELEASED)
    resumed = make_session()
    make_run(session=resumed, owner=False, status=RunStatus.LOST)
    make_run(session=resumed, owner=False, status=RunStatus.RELEASED, number=2)
    make_session()
    for status in set(SessionStatus) - {SessionStatus.ACTIVE}:
        make_session(status=status)
    make_session(workspace=make_workspace(slug="other"))
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert [str(each) for each in (found.running, found.stalled, found.ready, found.paused)] == ["1", "2", "1", "2"]


def test_counts_stop_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_session_counts, "LIMIT", 2)
    for _ in range(3):
        make_run(session=make_session(), owner=False, status=RunStatus.LOST)
        make_session(status=SessionStatus.PAUSED)
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert (str(found.stalled), str(found.paused)) == ("2+", "2+")


def test_running_sessions_are_counted_beside_many_idle_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_session_counts, "LIMIT", 2)
    for lease in (timedelta(hours=1), timedelta(hours=-1)):
        make_run(session=make_session(), lease=lease)
    for _ in range(3):
        make_session()
    found = current_session_counts.load_current_session_counts(make_workspace().pk)
    assert (str(found.running), str(found.stalled)) == ("1", "1+")


def test_decided_sessions_that_nothing_continues_are_named_with_their_agents(reader: Client) -> None:
    now = datetime.now(UTC)
    for agent, minutes in (("desk", 40), ("desk", 30), ("mail", 20), ("fast", 2)):
        session = make_session(agent=agent, status=SessionStatus.READY)
        Session.objects.filter(pk=session.pk).update(updated_at=now - timedelta(minutes=minutes))
    page = reader.get("/overview/")
    text = visible_text(page)
    assert "3 sessions are decided but no process has continued them for more than 15 minutes" in text
    assert "Start their agents again, or tell the people who run them: desk 2, mail 1" in text
    assert 'href="/sessions/?status=ready&amp;agent=mail">mail</a>' in page.content.decode()
    assert "fast" not in text.partition("Start their agents")[2].partition("Now")[0]
    Session.objects.update(updated_at=now)
    assert "no process has continued" not in visible_text(reader.get("/overview/"))


def test_sessions_with_lost_runs_are_counted_beside_the_orphaned_ones(reader: Client) -> None:
    """A session that lost a run and went on is no orphan, but the loss has happened."""
    now = datetime.now(UTC)
    resumed, earlier = make_started_session(0, agent="desk"), make_started_session(3, agent="desk")
    for session, ended in ((resumed, now), (resumed, now), (earlier, now - timedelta(days=3))):
        make_run(session=session, owner=False, status=RunStatus.LOST, ended_at=ended)
    for session in (resumed, earlier, make_started_session(0, agent="mail")):
        make_run(session=session, owner=False, status=RunStatus.RELEASED, ended_at=now)
    make_run(session=make_session(workspace=make_workspace(slug="other")), status=RunStatus.LOST, ended_at=now)
    numbers = {"period=24h": 1, "period=7d": 2, "period=7d&agent=desk": 2, "period=7d&agent=mail": 0}
    for query, number in numbers.items():
        page = reader.get(f"/overview/?{query}")
        assert (page.context["present"].stalled.number, page.context["lost"].number) == (0, number), query
        links = re.findall(r'href="(/sessions/[?]lost=1[^"]*)">(\d+) sessions? lost a run in', page.content.decode())
        if not number:
            assert not links
            assert "no session lost a run in 7 days" in visible_text(page)
            continue
        ((link, shown),) = links
        assert int(shown) == number
        listed = reader.get(link.replace("&amp;", "&"))
        assert listed.context["page"].total == number, query
        assert 'name="lost" value="1" checked' in listed.content.decode()


def test_sessions_that_are_ready_to_resume_are_counted(reader: Client) -> None:
    make_started_session(2, status=SessionStatus.READY)
    make_started_session(0, status=SessionStatus.READY, quarantined_at=datetime.now(UTC))
    Session.objects.update(updated_at=datetime.now(UTC) - timedelta(hours=5))
    response = reader.get("/overview/")
    assert "Ready to resume1oldest 5 h ago" in visible_text(response)
    assert 'href="/sessions/?status=ready"' in response.content.decode()
    assert reader.get("/sessions/?status=ready").context["page"].total == 1
