"""Rows that were changed outside the library are not shown; other pages still work."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.enums import CallStatus
from checkpoints.exceptions import IntegrityError
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Checkpoint, Decision, Message, Session, ToolCall
from harness_site.accounts.models import TokenRole
from harness_site.search import indexer
from harness_site.search.models import Passage
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import create_sealed_session
from tests.support.api_client import make_token
from tests.support.exhaustive_mode import mark_all_but_each
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
    make_checkpoint(session=session)
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
    text = visible_text(reader.get(f"/sessions/{session.pk}/?v=2"))
    assert ("Mend it." in text, "Yes." in text) == (True, False)
    altered = Message.objects.get(position=position).body.replace("Mend", "Break").replace("plan", "bypass")
    models.QuerySet(Message).filter(position=position).update(body=altered)
    response = reader.get(f"/sessions/{session.pk}/?v=2")
    assert (response.status_code, f"(message {position})" in visible_text(response)) == (409, True)


@pytest.mark.parametrize("column", ["status", "result", "session_id", "latest_version", "row_seal"])
def test_pages_of_an_altered_session_are_not_shown(session: Session, reader: Client, column: str) -> None:
    pages = [f"/sessions/{session.pk}/{page}" for page in ("", "versions/", "timeline/", "history/", "export/jsonl/")]
    assert {reader.get(page).status_code for page in pages} == {200}
    forged = {
        "status": "failed",
        "result": '"forged"',
        "session_id": "forged",
        "latest_version": 7,
        "row_seal": bytes(32),
    }
    models.QuerySet(Session).filter(pk=session.pk).update(**{column: forged[column]})
    if column != "row_seal":  # a seal by a key that nobody has says nothing about the session
        assert "Quarantined" in visible_text(reader.get("/sessions/"))
    answers = [reader.get(page) for page in pages]
    assert {answer.status_code for answer in answers} == {409}
    if column != "session_id":  # by which the page names the row
        assert "forged" not in "".join(visible_text(answer) for answer in answers)


@pytest.mark.parametrize(
    ("model", "forged"),
    mark_all_but_each(
        3,
        [
            (Message, {"body": '{"role":"user","text":"forged"}'}),
            (Message, {"role": "forged"}),
            (Checkpoint, {"plan": '"forged"'}),
            (Checkpoint, {"payload": '"forged"'}),
            (ToolCall, {"result": '"forged"'}),
            (Decision, {"reason": "forged"}),
            (AuditEvent, {"details": '{"reason":"forged"}'}),
            (Decision, None),
            (ToolCall, {"session": None}),
        ],
    ),
    ids=["text", "role", "plan", "payload", "result", "reason", "audit entry", "deleted decision", "moved call"],
)
def test_exports_of_a_session_with_an_altered_row_are_refused(
    open_checkpointer: Open, settings: object, tmp_path: Path, model: type[models.Model], forged: dict[str, Any] | None
) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32  # type: ignore[attr-defined]
    create_sealed_session(open_checkpointer, "s")
    session, cp = Session.objects.get(session_id="s"), open_checkpointer()
    reader = Client()
    reader.force_login(make_user())
    token = {"Authorization": f"Bearer {make_token(TokenRole.AUDITOR)}"}
    pages = [f"/sessions/{session.pk}/export/jsonl/", f"/sessions/{session.pk}/export/html/"]
    pages.append(f"/sessions/{session.pk}/export/print/")
    assert {reader.get(page).status_code for page in pages} == {200}
    assert Client().get("/api/v1/sessions/s/export", headers=token).status_code == 200
    cp.export_session("s", tmp_path / "s.session")
    rows: models.QuerySet[Any] = models.QuerySet(model).filter(session=session)
    if forged is None:
        rows.filter(pk__in=rows.values("pk")[:1]).delete()
    else:
        other = Session.objects.exclude(pk=session.pk).first()
        rows.filter(pk__in=rows.values("pk")[:1]).update(
            **{**forged, **({"session": other} if "session" in forged else {})}
        )

    assert {reader.get(page).status_code for page in pages} == {409}
    answer = Client().get("/api/v1/sessions/s/export", headers=token)
    assert (answer.status_code, answer.json()["type"]) == (500, "IntegrityError")
    if model is not AuditEvent:  # which is of the database, and not in the file
        with pytest.raises(IntegrityError):
            cp.export_session("s", tmp_path / "t.session")
        assert not (tmp_path / "t.session").exists()


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
    settings.HARNESS_SEAL_KEY = "5e" * 32  # type: ignore[attr-defined]
    models.QuerySet(Message).update(row_seal=None)
    assert "python manage.py seal_sessions" in visible_text(reader.get(f"/sessions/{session.pk}/"))


@pytest.mark.parametrize(
    ("model", "column", "value"),
    mark_all_but_each(
        2,
        [
            (Passage, "text", "The lamp shines."),
            (Passage, "session", None),
            (Message, "body", '{"blocks":[{"kind":"text","text":"The lamp shines."}],"role":"user"}'),
            (Message, "role", "system"),
        ],
    ),
)
def test_excerpt_of_an_altered_text_is_not_shown(
    session: Session, reader: Client, model: type[models.Model], column: str, value: str | None
) -> None:
    """Also not one that was altered in the index, or before it came there."""
    other = make_session(session_id="other")
    token = {"Authorization": f"Bearer {make_token(TokenRole.AUDITOR)}"}
    message = Message.objects.get(position=0)

    def search() -> str:
        while indexer.index_next_batch_of_each_kind():
            pass
        answer = Client().get("/api/v1/search?q=lamp", headers=token)
        return visible_text(reader.get("/sessions/?q=lamp")) + "".join(
            found["text"] for found in answer.json()["passages"]
        )

    if model is Passage:
        assert search().count("The lamp is broken.") == 2
    rows: models.QuerySet[Any] = models.QuerySet(model)
    rows = rows.filter(kind="message", source=message.pk) if model is Passage else rows.filter(pk=message.pk)
    rows.update(**{column: other.pk if value is None else value})
    if column == "text":
        rows.update(folded="the lamp shines.")
    shown = search()
    assert "shines" not in shown
    assert shown.count("The lamp is broken.") == (2 if column == "text" else 0)


def test_search_verifies_the_messages_of_all_sessions_together(session: Session, reader: Client) -> None:
    def count_statements() -> int:
        while indexer.index_next_batch_of_each_kind():
            pass
        with CaptureQueriesContext(connection) as statements:
            shown = visible_text(reader.get("/sessions/?q=sorry"))
        assert shown.count("I am sorry.") == Session.objects.count()
        return len(statements)

    counts = []
    for number in range(4):
        make_messages(session=make_session(session_id=f"other {number}"), texts=["The lamp is broken.", "I am sorry."])
        counts.append(count_statements())
    assert counts[1] == counts[3]  # the first one also reads what a process reads once


@pytest.mark.parametrize("forged", [{"actor": "mallory"}, {"row_seal": None}], ids=["altered", "invented"])
def test_event_of_an_altered_entry_tells_nothing_of_it(
    session: Session, open_checkpointer: Open, forged: dict[str, Any]
) -> None:
    open_checkpointer().start_session("s", "Mend the lamp.")
    token = {"Authorization": f"Bearer {make_token(TokenRole.AUDITOR)}"}

    def list_events() -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = Client().get("/api/v1/events?after=0", headers=token).json()["events"]
        return events

    before = list_events()
    assert [event["event"] for event in before] == ["session.started", "run.started"]
    models.QuerySet(AuditEvent).filter(pk=before[0]["id"]).update(**forged)
    after = list_events()
    assert after[1] == before[1]
    assert [after[0][name] for name in ("id", "event", "actor", "session_id", "details")] == [
        before[0]["id"],
        "entry.altered",
        "",
        None,
        {},
    ]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL stores no other type than the column's")
def test_seal_that_is_no_text_in_a_call_that_waits_breaks_no_other_page(session: Session, reader: Client) -> None:
    call = make_call(session=session, status=CallStatus.AWAITING_APPROVAL)
    other = make_session(session_id="other")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE checkpoints_toolcall SET row_seal = CAST(x'fffe80' AS TEXT)")
    assert reader.get(f"/sessions/{other.pk}/").status_code == 200
    assert reader.get("/calls/").status_code == 200
    response = reader.get(f"/review/calls/{call.pk}/")
    assert (response.status_code, "toolcall" in visible_text(response)) == (409, True)
