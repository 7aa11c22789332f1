"""Rows that were changed outside the library are not shown; other pages still work."""

import pytest
from django.db import models
from django.test import Client

from checkpoints.formats import to_canonical_json
from checkpoints.models import Checkpoint, Decision, Message, Session, ToolCall
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_messages,
    make_run,
    make_session,
    make_user,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def session(settings: object) -> Session:
    settings.HARNESS_SEAL_KEY = "5e" * 32  # type: ignore[attr-defined]
    session = make_session(session_id="origin")
    make_run(session=session)
    make_messages(session=session, texts=["The lamp is broken.", "I am sorry."])
    return session


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user())
    return client


@pytest.mark.parametrize("column", ["body", "role", "created_at", "chain", "row_seal"])
def test_altered_message_is_not_shown(session: Session, reader: Client, column: str) -> None:
    assert "The lamp is broken." in visible_text(reader.get(f"/sessions/{session.pk}/"))
    first, second = Message.objects.order_by("position")
    forged = {"body": second.body.replace("sorry", "glad"), "created_at": first.created_at.replace(year=2020)}
    models.QuerySet(Message).filter(pk=second.pk).update(**{column: forged.get(column, getattr(first, column))})
    response = reader.get(f"/sessions/{session.pk}/")

    if column == "role" and first.role == second.role:
        raise AssertionError("the test changes nothing")
    assert response.status_code == 409
    assert f"Row {second.pk} (message 1) of the table checkpoints_message is not as it was written." in visible_text(
        response
    )
    assert "glad" not in response.content.decode()
    other = make_session(session_id="other")
    assert reader.get(f"/sessions/{other.pk}/").status_code == 200


@pytest.mark.parametrize("position", [2, 3], ids=["prompt", "permission mode"])
def test_altered_prompt_or_permission_mode_before_the_window_is_not_shown(
    session: Session, reader: Client, position: int
) -> None:
    make_message(session=session, text="Mend it.", role="user")
    source = {"context": {"permission_mode": "plan"}}
    body = {"role": "assistant", "blocks": [{"kind": "text", "text": "Yes."}], "source": source}
    make_message(session=session, body=body)
    make_messages(session=session, texts=["word"] * 60)
    metadata = {"import": {"format": "codex"}, "permission_modes": ["plan", "bypass"]}
    Session.objects.filter(pk=session.pk).update(metadata=to_canonical_json(metadata))
    make_checkpoint(session=session)
    text = visible_text(reader.get(f"/sessions/{session.pk}/?v=1"))
    assert ("Mend it." in text, "Yes." in text) == (True, False)
    altered = Message.objects.get(position=position).body.replace("Mend", "Break").replace("plan", "bypass")
    models.QuerySet(Message).filter(position=position).update(body=altered)
    response = reader.get(f"/sessions/{session.pk}/?v=1")
    assert (response.status_code, f"(message {position})" in visible_text(response)) == (409, True)


def test_card_of_an_altered_call_or_with_an_altered_decision_is_not_shown(session: Session, reader: Client) -> None:
    call = make_call(session=session)
    decision = make_decision(call=call, final=False)
    path = f"/review/calls/{call.pk}/"
    assert reader.get(path).status_code == 200
    models.QuerySet(Decision).filter(pk=decision.pk).update(actor="mallory")
    assert reader.get(path).status_code == 409
    models.QuerySet(Decision).filter(pk=decision.pk).update(actor=decision.actor)
    models.QuerySet(ToolCall).update(args='{"order":18}')
    assert reader.get(path).status_code == 409


def test_missing_segment_and_missing_run_are_named(reader: Client) -> None:
    session = make_session()
    call = make_call(session=session, run=make_run(session=session))
    make_checkpoint(session=session)
    paths = f"/sessions/{session.pk}/", f"/review/calls/{call.pk}/", f"/sessions/{session.pk}/timeline/"
    assert [reader.get(path).status_code for path in paths] == [200, 200, 200]
    models.QuerySet(Session).update(message_count=3)
    models.QuerySet(Checkpoint).update(length=3)
    assert "Row at position 2 of the table checkpoints_message is not" in visible_text(reader.get(paths[0]))
    assert reader.get(paths[1]).status_code == 200  # without the conversation around the call
    other = make_run(session=make_session())
    models.QuerySet(ToolCall).update(run=other)
    response = reader.get(paths[2])
    assert response.status_code == 409


def test_missing_seal_and_missing_key_are_explained(session: Session, reader: Client, settings: object) -> None:
    settings.HARNESS_SEAL_KEY = "a1" * 32  # type: ignore[attr-defined]
    assert "does not have the key" in visible_text(reader.get(f"/sessions/{session.pk}/"))
    models.QuerySet(Message).update(row_seal=None)
    assert "harness seal_sessions" in visible_text(reader.get(f"/sessions/{session.pk}/"))
