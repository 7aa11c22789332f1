"""Takeovers and approval requests from the audit trail."""

from datetime import timedelta

import pytest

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, Session
from harness_site.sessions.timeline.selectors import takeovers_and_requests_from_audit_trail
from harness_site.sessions.timeline.selectors.takeovers_and_requests_from_audit_trail import (
    ApprovalQuestion,
    RunEvents,
    Takeover,
)
from tests.support.factories import THEN, make_session

pytestmark = pytest.mark.django_db


def event(session: Session, kind: AuditKind, actor: str, details: str, seconds: float = 0) -> None:
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=kind,
        actor_kind=ActorKind.MACHINE,
        actor=actor,
        details=details,
        created_at=THEN + timedelta(seconds=seconds),
    )


def test_takeovers_and_approval_requests_are_found_by_run_and_call() -> None:
    session = make_session()
    event(session, AuditKind.TAKEOVER, "run 1", '{"last_seen":"2025-03-04T10:42:00+00:00"}')
    event(session, AuditKind.APPROVAL_REQUESTED, "run 2", '{"call_id":"c","tool":"pay"}', 1)
    event(session, AuditKind.APPROVAL_REQUESTED, "run 2", '{"call_id":"c","tool":"pay"}', 9)
    event(make_session(), AuditKind.TAKEOVER, "run 7", "{}")
    found = takeovers_and_requests_from_audit_trail.load_takeovers_approval_and_probe_requests(session.pk)
    assert found.takeovers == {1: Takeover(1, THEN, THEN - timedelta(seconds=7, milliseconds=118))}
    first, second = (ApprovalQuestion(2, THEN + timedelta(seconds=seconds)) for seconds in (1, 9))
    assert found.asked == {"c": [first, second]}
    assert found.find_last_approval_request("c", THEN + timedelta(seconds=5)) == first
    assert found.find_last_approval_request("c", THEN) is None
    assert found.find_last_approval_request("d", THEN + timedelta(seconds=5)) is None


@pytest.mark.parametrize("details", ["damaged", "[]", "{}", '{"last_seen":7}', '{"last_seen":"soon"}'])
def test_takeover_with_unreadable_details_is_found(details: str) -> None:
    session = make_session()
    event(session, AuditKind.TAKEOVER, "run 1", details)
    assert takeovers_and_requests_from_audit_trail.load_takeovers_approval_and_probe_requests(session.pk).takeovers == {
        1: Takeover(1, THEN, None)
    }


@pytest.mark.parametrize("actor", ["somebody", "run x", "run 1 and more", "run " + "9" * 30])
def test_events_without_a_run_are_omitted(actor: str) -> None:
    session = make_session()
    event(session, AuditKind.TAKEOVER, actor, "{}")
    assert takeovers_and_requests_from_audit_trail.load_takeovers_approval_and_probe_requests(session.pk) == RunEvents()
