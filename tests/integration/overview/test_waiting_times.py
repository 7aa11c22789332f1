"""How long calls waited for the decisions of people."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F
from django.test import Client

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.enums import AuditKind
from checkpoints.exceptions import ApprovalRequired
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Decision
from harness_site.overview import period_totals
from harness_site.search import hourly_call_and_decision_sums
from harness_site.search.models import DecisionSums
from tests.integration.overview.started_sessions_and_settled_calls import load_totals
from tests.integration.search.conftest import complete
from tests.support.factories import make_call, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_waiting_time_ends_with_the_decision_of_a_person() -> None:
    now = datetime.now(UTC)
    for minutes, actor_kind, kind, final in (
        (1, "person", "approve", True),
        (2, "person", "mark_failed", True),
        (60, "token", "confirm_landed", True),
        (600, "hook", "probe_landed", True),
        (600, "person", "approve_rerun", False),
    ):
        since = now - timedelta(minutes=minutes)
        asked = {"issued_at": since} if kind == "approve" else {"interrupted_at": since}
        call = make_call(session=make_session(), **asked)  # type: ignore[arg-type]
        Decision.objects.create(
            session=call.session, tool_call=call, kind=kind, actor_kind=actor_kind, actor="a", final=final, revision=1
        )
    complete()
    found = load_totals("period=24h").waits
    assert found.decisions == 3 == sum(DecisionSums.objects.filter(hourly=False).values_list("decisions", flat=True))
    assert found.median == pytest.approx(120, rel=0.1)
    assert found.p95 == pytest.approx(3600, rel=0.1)
    assert load_totals("first=2001-01-01&last=2001-01-02").waits.median is None


@pytest.mark.django_db(transaction=True)
def test_waiting_time_of_a_call_that_has_run_begins_with_the_request_for_its_approval(cp: SyncCheckpointer) -> None:
    """The time of its start replaces the time of the request, which only the audit trail has then."""
    registry = ToolRegistry()
    registry.tool(requires_approval=True, name="send_note")(lambda text: f"sent: {text}")
    with suppress(ApprovalRequired), cp.session("s", "Send a note", registry=registry) as session:
        session.dispatch("send_note", {"text": "a"}, 'call "1"')
    request = AuditEvent.objects.get(kind=AuditKind.APPROVAL_REQUESTED)
    AuditEvent.objects.filter(pk=request.pk).update(created_at=F("created_at") - timedelta(minutes=10))
    request.pk, request.details = None, to_canonical_json({"call_id": "another call", "tool": "send_note"})
    request.save(force_insert=True)
    cp.approve_call("s", 'call "1"', actor="alice", reason="Right.", revision=1)
    with cp.session("s", registry=registry) as session:
        session.dispatch("send_note", {"text": "a"}, 'call "1"')
    complete()
    assert load_totals("period=24h").waits.median == pytest.approx(600, rel=0.1)


def test_waiting_time_classes_are_accurate_to_a_tenth() -> None:
    for seconds in (0, 1, 5, 59, 3600, 86_400 * 30):
        wait = hourly_call_and_decision_sums.convert_seconds_to_wait_class(seconds)
        assert hourly_call_and_decision_sums.convert_wait_class_to_seconds(wait) == pytest.approx(
            max(seconds, 1), rel=0.1
        )


def test_median_of_the_waiting_times_has_two_units(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_session()
    monkeypatch.setattr(
        period_totals, "compute_waiting_times_from_class_counts", lambda _: period_totals.WaitingTimes(2, 290.0, 299.0)
    )
    assert "Time to decide4 min 50 smedian95 % within 4 min 59 s" in visible_text(reader.get("/overview/"))
