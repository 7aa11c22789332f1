"""One edit of any row of a random session is detected, and nothing is reported without one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from django.db import DatabaseError, connection, models, transaction
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError, SealError
from checkpoints.integrity.verify_session_rows import VerificationCounts, iterate_session_problems
from checkpoints.models import Blob, Decision, Message, Segment, Session, ToolCall, Workspace
from checkpoints.seals.sealed_model import SealedModel
from tests.integration.checkpoints.integrity.sealed_history import SEALED_TABLES, change, plain, rolled_back
from tests.property.rich_histories import RichPlayer, list_rows, rich_actions
from tests.property.test_hot_statements import Player, actions
from tests.support.exhaustive_mode import EXHAUSTIVE, count_examples

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module", autouse=True)
def sealing_is_on() -> Iterator[None]:
    with override_settings(HARNESS_SEAL_KEY="5e" * 32):
        yield


def count_problems(session: Session) -> int:
    return len(list(iterate_session_problems("default", session, VerificationCounts())))


@given(history=st.lists(actions, min_size=1, max_size=8), choice=st.integers(0, 10**6))
@settings(max_examples=count_examples(5))
def test_one_edit_of_any_history_is_detected(history: list[tuple[str, Any]], choice: int, workspace: Workspace) -> None:
    name = f"sealed {uuid.uuid4()}"
    Player(name).play([("append", [{"id": "m", "n": 1}]), *history])
    Player(f"{name} donor").play([("append", [{"id": "m", "n": 1}]), *history])  # the same history, elsewhere
    session, donor = (Session.objects.get(session_id=which) for which in (name, f"{name} donor"))
    assert count_problems(session) == 0

    rows = [
        (model, pk)
        for model in SEALED_TABLES
        for pk in plain(model)
        .filter(**({"pk": session.pk} if model is Session else {"session": session}))
        .values_list("pk", flat=True)
    ]
    model, pk = rows[choice % len(rows)]
    edits = [
        *_list_columns(model),
        *(["delete", "insert"] if getattr(model, "counted_in_head", False) else []),
    ]
    edit = edits[choice // len(rows) % len(edits)]
    problems = _count_problems_after(session, lambda: _apply_edit(model, pk, edit))
    # A row that was moved to another session is missing here, and a segment is counted in no sum.
    assert problems or (edit == "session" and not getattr(model, "counted_in_head", False)), (model, edit)

    counted = [(table, key) for table, key in rows if getattr(table, "counted_in_head", False)]
    table, key = counted[choice % len(counted)]
    assert _count_problems_after(session, lambda: _splice(table, key, donor)), (table, "splice")


def _count_problems_after(session: Session, edit: Callable[[], None]) -> int:
    """Count what is found after an edit, which is taken back."""
    with rolled_back():
        try:
            with transaction.atomic():
                edit()
            return count_problems(plain(Session).get(pk=session.pk))
        except DatabaseError:  # the database itself refuses it, as two messages in one place
            return 1
        except SealError:
            return 1


def _splice(model: Any, pk: Any, donor: Session) -> None:
    """Put a row of another session, with its seal, in the place of a row; the same one of its history if it has it."""
    row = plain(model).get(pk=pk)
    rows = plain(model).filter(session=row.session_id).order_by("pk")
    place = list(rows.values_list("pk", flat=True)).index(pk)
    taken = plain(model).filter(session=donor).order_by("pk")[place : place + 1].first()
    taken = taken or plain(model).filter(session=donor).first()
    if taken is None:  # the donor has no such row: the row goes there instead, and is missing here
        plain(model).filter(pk=pk).delete()
        return
    _apply_edit(model, pk, "delete")
    plain(model).filter(pk=taken.pk).update(session=row.session_id)


def _apply_edit(model: Any, pk: Any, edit: str) -> None:
    """Change a column of a row, delete it, or insert it a second time under another key, with its seal."""
    if edit == "delete":
        with connection.cursor() as cursor:  # what refers to it stays, as after a statement of an attacker
            cursor.execute(f'DELETE FROM "{model._meta.db_table}" WHERE id = %s', [pk])  # noqa: S608 - of a model
        return
    row = plain(model).get(pk=pk)
    if edit == "insert":
        place = {"Checkpoint": "version", "ToolCall": "attempt", "Decision": "revision"}.get(model.__name__)
        row.pk, row._state.adding = None, True
        if place is not None:
            setattr(row, place, getattr(row, place) + 1000)
        if model is ToolCall:
            row.idempotency_key += " again"
        models.Model.save_base(row, force_insert=True)
        return
    field: Any = model._meta.get_field(edit)
    plain(model).filter(pk=pk).update(**{field.attname: change(getattr(row, field.attname), field)})


def _list_columns(model: Any) -> list[str]:
    assert issubclass(model, SealedModel)
    return [*(name for name in model.sealed_fields if name != "id"), *(["body"] if model is Message else [])]


class Edit(NamedTuple):
    """Table that an attacker has edited, and the columns that differ in a row; no columns for a whole row."""

    model: Any
    columns: frozenset[str] = frozenset()

    def is_explained(self) -> bool:
        """Return whether it is said why such an edit need not be refused, as long as nothing that is read differs."""
        if not self.columns:
            return self.model in {Segment, Message}  # a segment or a message that no version needs
        return (
            self.columns <= _UNSEALED_OF_BLOB if self.model is Blob else self.columns <= {*self.model.unsealed_fields}
        )


#: Columns of a content that mean nothing by themselves; the digest, which sealed rows name, is of what they give.
_UNSEALED_OF_BLOB = {"base_segment", "base_position"}


def _change_column(player: RichPlayer, session: Session, choice: int) -> Edit | None:
    model, key = _choose(list_rows(session), choice)
    row = plain(model).get(pk=key)
    field: Any = _choose([field for field in model._meta.concrete_fields if not field.primary_key], choice)
    plain(model).filter(pk=key).update(**{field.attname: change(getattr(row, field.attname), field)})
    return Edit(model, frozenset({field.name}))


def _delete_row(player: RichPlayer, session: Session, choice: int) -> Edit | None:
    model, key = _choose([place for place in list_rows(session) if place[0] is not Session], choice)
    _apply_edit(model, key, "delete")
    return Edit(model)


def _insert_row_again(player: RichPlayer, session: Session, choice: int) -> Edit | None:
    model, key = _choose([place for place in list_rows(session) if getattr(place[0], "counted_in_head", False)], choice)
    _apply_edit(model, key, "insert")
    return Edit(model)


def _exchange_contents(player: RichPlayer, session: Session, choice: int) -> Edit | None:
    model, key = _choose(list_rows(session), choice)
    others = [other for table, other in list_rows(session) if table is model and other != key]
    if not others:
        return None
    unique = {"id", *(name for constraint in model._meta.constraints for name in getattr(constraint, "fields", ()))}
    if unique == {"id"}:  # they would exchange nothing but their keys
        return None
    first, second = (plain(model).values().get(pk=each) for each in (key, _choose(others, choice)))
    for row, content in ((first, second), (second, first)):
        columns = {name: value for name, value in content.items() if name.removesuffix("_id") not in unique}
        plain(model).filter(pk=row["id"]).update(**columns)
    return Edit(model, frozenset(_list_differences(model, first, second)))


def _restore_former_state(player: RichPlayer, session: Session, choice: int) -> Edit | None:
    present = {(model, key): plain(model).values().get(pk=key) for model, key in list_rows(session)}
    former = [
        (place, columns)
        for place, states in player.former.items()
        for columns in states
        if columns["id" if place[0] is Session else "session_id"] == session.pk
        if columns != present.get(place)
    ]
    if not former:
        return None
    (model, key), columns = _choose(former, choice)
    if (model, key) not in present:
        models.QuerySet(model).bulk_create([model(**columns)])
        return Edit(model)
    plain(model).filter(pk=key).update(**columns)
    return Edit(model, frozenset(_list_differences(model, columns, present[model, key])))


def _list_differences(model: Any, one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """List the fields of a table whose values differ in two rows."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    return [field.name for field in fields if one[field.attname] != other[field.attname]]


def _take_row_of_fork(player: RichPlayer, session: Session, choice: int) -> Edit | None:
    forks = Session.objects.filter(session_id__startswith=f"{session.session_id} fork").order_by("pk")
    places = [place for fork in forks for place in list_rows(fork) if place[0] is not Session]
    if not places:
        return None
    model, key = _choose(places, choice)
    plain(model).filter(pk=key).update(session=session)
    return Edit(model)


def _choose(choices: Sequence[Any], number: int) -> Any:
    return choices[number % len(choices)]


_EDITS: dict[str, Callable[[RichPlayer, Session, int], Edit | None]] = {
    "column": _change_column,
    "delete": _delete_row,
    "exchange": _exchange_contents,
    "former": _restore_former_state,
    "fork": _take_row_of_fork,
    "insert": _insert_row_again,
}


@given(
    history=st.lists(rich_actions, min_size=3, max_size=10),
    edits=st.lists(st.tuples(st.sampled_from(sorted(_EDITS)), st.integers(0, 10**6)), min_size=12, max_size=12),
)
@settings(
    max_examples=count_examples(5),
    derandomize=not EXHAUSTIVE,
)
def test_edits_of_any_history_are_refused_or_change_nothing_that_is_read(
    history: list[tuple[str, Any]], edits: list[tuple[str, int]], workspace: Workspace
) -> None:
    player = RichPlayer(f"rich {uuid.uuid4()}")
    player.play([("append", [{"id": "m", "n": 1}]), *history])
    session = Session.objects.get(session_id=player.session_id)
    assert [str(problem) for problem in iterate_session_problems("default", session, VerificationCounts())] == []
    for fork in Session.objects.filter(session_id__startswith=player.session_id):
        assert count_problems(fork) == 0
    read = _read(player.session_id)
    for edit, choice in edits:
        with rolled_back():
            try:
                with transaction.atomic():
                    done = _EDITS[edit](player, session, choice)
            except DatabaseError:  # the database itself refuses it
                continue
            if done is not None and not _is_refused(session):
                assert done.is_explained(), done
                assert _read(player.session_id) == read, done


def _is_refused(session: Session) -> bool:
    try:
        return count_problems(plain(Session).get(pk=session.pk)) > 0
    except CheckpointsError:
        return True


def _read(session_id: str) -> Any:
    """Read what an agent gets of a session, but for the notices that are due to other agents, which have no seal."""
    with SyncCheckpointer() as checkpointer:
        return [
            checkpointer.load_latest(session_id),
            checkpointer.list_checkpoints(session_id),
            checkpointer.messages(session_id),
            checkpointer.pending_tool_calls(session_id),
            [{**call, "to_tell": None} for call in checkpointer.peer_calls(session_id)],
            checkpointer.preview_resume(session_id),
            list(plain(Decision).filter(session__session_id=session_id).order_by("pk").values_list("kind", "revision")),
        ]
