"""Lines that the demo prints about the events of its session."""

from pathlib import Path

import pytest

from checkpoints.enums import AuditKind
from checkpoints.models import AuditEvent
from examples.demo.demo_session_folder import DemoSession
from examples.demo.event_narration import EventNarrator
from tests.support.factories import THEN, make_call, make_session


@pytest.mark.django_db
def test_decision_is_asked_for_with_the_place_of_its_evidence(tmp_path: Path) -> None:
    session = make_session(session_id="order-17")
    call = make_call(session=session)
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=AuditKind.SESSION_NEEDS_REVIEW,
        actor="run 2",
        details="{}",
        created_at=THEN,
    )
    lines: list[str] = []
    EventNarrator(DemoSession(17, tmp_path), lines.append, "http://127.0.0.1:8000").print_new_events()
    (asked,) = [line.splitlines() for line in lines if "pauses until a person decides" in line]
    assert asked[1:] == [
        f"          Decide here: http://127.0.0.1:8000/review/calls/{call.pk}/",
        f"          What really happened is in the ledger: {tmp_path / 'ledger.jsonl'}",
    ]
