"""Whatever a session has done, one edit of any of its rows is found, and nothing is found without one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoints.exceptions import SealError
from checkpoints.integrity.verification import VerificationCounts, find_session_problems
from checkpoints.models import Message, Session, Workspace
from checkpoints.seals.sealed_model import SealedModel
from tests.integration.checkpoints.integrity.sealed_history import SEALED_TABLES, change, plain, undone
from tests.property.test_statements import Player, actions

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module", autouse=True)
def sealing_is_on() -> Iterator[None]:
    with override_settings(HARNESS_SEAL_KEY="5e" * 32):
        yield


def count_problems(session: Session) -> int:
    return len(list(find_session_problems("default", session, VerificationCounts())))


@given(history=st.lists(actions, min_size=1, max_size=8), choice=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_edit_of_any_history_is_found(history: list[tuple[str, Any]], choice: int, workspace: Workspace) -> None:
    name = f"sealed {uuid.uuid4()}"
    Player(name).play([("append", [{"id": "m", "n": 1}]), *history])
    session = Session.objects.get(session_id=name)
    assert count_problems(session) == 0

    places = [
        (model, pk, column)
        for model in SEALED_TABLES
        for pk in plain(model)
        .filter(**({"pk": session.pk} if model is Session else {"session": session}))
        .values_list("pk", flat=True)
        for column in _list_columns(model)
    ]
    model, pk, column = places[choice % len(places)]
    field: Any = model._meta.get_field(column)
    value = getattr(plain(model).get(pk=pk), field.attname)
    with undone():
        plain(model).filter(pk=pk).update(**{field.attname: change(value, field)})
        try:
            problems = count_problems(plain(Session).get(pk=session.pk))
        except SealError:
            problems = 1
    # A row that was moved to another session is missing here: only a row that is still in this one is found in it.
    assert problems or column == "session", (model, column)


def _list_columns(model: Any) -> list[str]:
    assert issubclass(model, SealedModel)
    return [*(name for name in model.sealed_fields if name != "id"), *(["body"] if model is Message else [])]
