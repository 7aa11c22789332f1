"""Takeovers and approval requests from the audit trail."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Session
from harness_site.sessions.timeline.selectors import takeover_approval_verification_and_handover_events
from harness_site.sessions.timeline.selectors.call_handovers_between_people import HandOver
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import (
    LIMIT,
    ApprovalQuestion,
    ProbeRequest,
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
    found = takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(session.pk)
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
    assert takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(
        session.pk
    ).takeovers == {1: Takeover(1, THEN, None)}


@pytest.mark.parametrize("actor", ["somebody", "run x", "run 1 and more", "run " + "9" * 30])
def test_events_without_a_run_are_omitted(actor: str) -> None:
    session = make_session()
    event(session, AuditKind.TAKEOVER, actor, "{}")
    assert (
        takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(session.pk)
        == RunEvents()
    )


def claim_and_release(session: Session, call_id: str, step: int, times: int) -> None:
    """Record that carol has claimed and released a call many times."""
    details = to_canonical_json({"call_id": call_id, "step": step})
    kinds = [AuditKind.CLAIMED, AuditKind.RELEASED] * times
    AuditEvent.objects.bulk_create(
        AuditEvent(
            workspace=session.workspace,
            session=session,
            kind=kind,
            actor_kind=ActorKind.PERSON,
            actor="carol",
            details=details,
            created_at=THEN,
        )
        for kind in kinds
    )


def test_claims_of_calls_leave_takeovers_and_requests_found() -> None:
    session = make_session()
    event(session, AuditKind.TAKEOVER, "run 1", "{}")
    event(session, AuditKind.APPROVAL_REQUESTED, "run 2", '{"call_id":"c"}')
    event(session, AuditKind.VERIFY_REQUESTED, "alice", '{"call_id":"c","step":3}')
    claim_and_release(session, "c", 3, LIMIT)
    found = takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(session.pk)
    assert found == RunEvents(
        takeovers={1: Takeover(1, THEN, None)},
        asked={"c": [ApprovalQuestion(2, THEN)]},
        probes={("c", 3): [ProbeRequest("alice", THEN)]},
    )


@pytest.mark.parametrize("call_id", ["c", "100%_\\", 'a "quoted" \n é'])
def test_hand_overs_of_a_call_are_found_beside_many_claims_of_others(call_id: str) -> None:
    session = make_session()
    details = {"call_id": call_id, "step": 3, "to_member": "bob"}
    event(session, AuditKind.HANDED_OVER, "alice", to_canonical_json(details))
    for other, step in ((call_id, 4), (call_id, 33), (f"{call_id}2", 3), ("other", 3)):
        claim_and_release(session, other, step, LIMIT // 2 + 1)
    claim_and_release(make_session(), call_id, 3, 1)
    event(session, AuditKind.RELEASED, "alice", to_canonical_json({"call_id": call_id, "step": 3}), 5)
    with CaptureQueriesContext(connection) as queries:
        found = takeover_approval_verification_and_handover_events.load_handovers_of_call(session.pk, call_id, 3)
    assert found == [
        HandOver("handed", "alice", "bob", THEN),
        HandOver("taken_back", "alice", "bob", THEN + timedelta(seconds=5)),
    ]
    assert len(queries) == 1
