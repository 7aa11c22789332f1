"""What a resume verifies notices every edit of the rows that decide what a run does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import models

from checkpoints.exceptions import IntegrityError, SealError
from checkpoints.integrity import verify_session_rows
from checkpoints.integrity.verify_session_rows import COUNTED_MODELS, RECORD_MODELS
from checkpoints.models import Checkpoint, Decision, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import change, create_sealed_session, plain, rolled_back


def resume_notices(session: Session, edit: Callable[[], object]) -> bool:
    with rolled_back():
        edit()
        try:
            verify_session_rows.verify_records_and_hash_live_call_keys("default", plain(Session).get(pk=session.pk))
        except (IntegrityError, SealError):
            return True
    return False


def insert_again(row: Any) -> None:
    """Insert a row a second time, with its seal, under another key and place."""
    place = {Checkpoint: "version", ToolCall: "attempt", Decision: "revision"}.get(type(row))
    row.pk, row._state.adding = None, True
    if place is not None:
        setattr(row, place, getattr(row, place) + 1000)
    if isinstance(row, ToolCall):
        row.idempotency_key += " again"
    models.Model.save_base(row, force_insert=True)


def test_every_edit_of_a_record_is_noticed(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    session, other = (Session.objects.get(session_id=name) for name in ("s", "s beside it"))
    assert not resume_notices(session, lambda: None)
    unnoticed, edits = [], 0
    for model in (*RECORD_MODELS, *COUNTED_MODELS):
        row: Any = plain(model).filter(session=session).order_by("pk").last()
        stored = plain(model).filter(pk=row.pk)
        attacks: dict[str, Callable[[], object]] = {
            "move": lambda stored=stored: stored.update(session=other),  # type: ignore[misc]
            "strip": lambda stored=stored: stored.update(row_seal=None),  # type: ignore[misc]
            "delete": lambda stored=stored: stored.delete(),  # type: ignore[misc]
        }
        if model.__name__ in {"Checkpoint", "ToolCall", "Decision", "LateResult"}:
            attacks["insert again"] = lambda row=row: insert_again(plain(type(row)).get(pk=row.pk))  # type: ignore[misc]
        for name in sorted({*model.sealed_fields} - {"id"}) if model in RECORD_MODELS else ():  # type: ignore[attr-defined]
            field: Any = model._meta.get_field(name)
            values = {field.attname: change(getattr(row, field.attname), field)}
            attacks[name] = lambda stored=stored, values=values: stored.update(**values)  # type: ignore[misc]
        for name, attack in attacks.items():
            edits += 1
            if not resume_notices(session, attack):
                unnoticed.append(f"{model.__name__}: {name}")
    assert unnoticed == []
    assert edits > 100
