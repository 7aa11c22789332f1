"""The hot statements have exactly the effect of the plain ORM."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import SyncCheckpointer
from checkpoints.calls.intent_log import issue_call_or_find_live_call
from checkpoints.calls.write_outcomes_and_interruptions import write_call_outcome_or_store_late_result_and_raise
from checkpoints.db import hot_statements
from checkpoints.enums import CallStatus
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Checkpoint, Message, Segment, Session, ToolCall, Workspace
from checkpoints.store.call_intent_and_outcome_types import CallOutcome, IssuedCall, validate_and_build_call_intent
from checkpoints.versions import read_messages_along_segments
from tests.support import orm_reference_implementation
from tests.support.exhaustive_mode import count_examples

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module", autouse=True)
def sealing_is_off() -> Iterator[None]:
    """Disable seals, which the ORM implementation does not write."""
    with override_settings(HARNESS_SEAL_KEY="", HARNESS_SEAL_REQUIRED=None):
        yield


texts = st.text(max_size=12)
messages = st.builds(lambda text, n: {"id": text, "role": "user", "n": n}, texts, st.integers(0, 3))
#: What a history is made of: what to do, and what with.
actions = st.one_of(
    st.tuples(st.just("append"), st.lists(messages, max_size=3)),
    st.tuples(st.just("cut"), st.integers(0, 4)),
    st.tuples(st.just("edit"), messages),
    st.tuples(st.just("call"), st.integers(0, 3)),
    st.tuples(st.just("settle"), st.sampled_from([CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.INTERRUPTED])),
    st.tuples(st.just("stale"), st.sampled_from(["save", "call", "settle"])),
)
_TIMES = {"created_at", "updated_at", "issued_at", "interrupted_at", "settled_at"}
_IDS = {"id", "session_id", "segment_id", "head_segment_id", "parent_id", "run_id", "owner_id", "session", "key_space"}


class Player:
    """Plays a history on one session and remembers what each action gave."""

    def __init__(self, session_id: str) -> None:
        self.checkpointer = SyncCheckpointer()
        self.checkpointer.start_session(session_id)
        self.session_id = session_id
        self.transcript: list[dict[str, Any]] = []
        self.open: list[IssuedCall] = []
        self.calls = 0

    def play(self, history: list[tuple[str, Any]]) -> list[Any]:
        with self.checkpointer:
            return [self._act(action, given) for action, given in history]

    def _act(self, action: str, given: Any) -> Any:
        try:
            return getattr(self, f"_{action}")(given)
        except CheckpointsError as error:
            return type(error).__name__

    def _save(self) -> int:
        return self.checkpointer.save_checkpoint(self.session_id, self.transcript, {"n": len(self.transcript)}, 0.5)

    def _append(self, new: list[dict[str, Any]]) -> int:
        self.transcript = [*self.transcript, *new]
        return self._save()

    def _cut(self, count: int) -> int:
        self.transcript = self.transcript[: max(0, len(self.transcript) - count)]
        return self._save()

    def _edit(self, message: dict[str, Any]) -> int:
        middle = len(self.transcript) // 2
        self.transcript = [*self.transcript[:middle], message, *self.transcript[middle + 1 :]]
        return self._save()

    def _call(self, order: int) -> tuple[int, int] | str:
        self.calls += 1
        wanted = validate_and_build_call_intent(
            f"c{self.calls}", "pay", {"order": order}, f"key{order}", side_effects=["mutate"], step=None
        )
        store = self.checkpointer.store
        found = issue_call_or_find_live_call(store, store.get_owned_session(self.session_id), wanted)
        if not isinstance(found, IssuedCall):
            return f"in the way: {found.call_id} is {found.status}"
        self.open.append(found)
        return found.step, found.attempt

    def _settle(self, status: CallStatus) -> str:
        if not self.open:
            return "nothing is open"
        store = self.checkpointer.store
        write_call_outcome_or_store_late_result_and_raise(
            store, store.get_owned_session(self.session_id), self.open.pop(), CallOutcome(status, '"done"')
        )
        return status

    def _stale(self, what: str) -> Any:
        """A write under a fence that no longer holds."""
        store = self.checkpointer.store
        held = store.get_owned_session(self.session_id)
        held.fence -= 1
        try:
            if what == "save":
                return self._save()
            return self._call(9) if what == "call" else self._settle(CallStatus.COMPLETED)
        finally:
            held.fence += 1
            store.add_owned_session(held)


def rows(session: Session) -> dict[str, list[dict[str, Any]]]:
    """Everything stored for a session, without what differs by nature: ids, times and who wrote it."""
    found = {}
    for model, order in ((Message, "pk"), (Checkpoint, "version"), (Segment, "pk"), (ToolCall, "pk")):
        found[model.__name__] = [_plain(row) for row in model._default_manager.filter(session=session).order_by(order)]
    found["Session"] = [_plain(session)]
    return found


def _plain(row: Any) -> dict[str, Any]:
    return {
        field.attname: bytes(value) if isinstance(value, memoryview) else value
        for field in row._meta.concrete_fields
        if field.attname not in _TIMES | _IDS and (value := getattr(row, field.attname)) is not Ellipsis
    }


@given(history=st.lists(actions, max_size=12))
@settings(max_examples=count_examples(12))
def test_statements_equal_the_orm_implementation(history: list[tuple[str, Any]], workspace: Workspace) -> None:
    names = {way: f"{way} {uuid.uuid4()}" for way in ("sql", "orm")}
    said = {"sql": Player(names["sql"]).play(history)}
    twins = {
        name: getattr(orm_reference_implementation, name)
        for name in (
            "save_versions_if_session_unchanged",
            "insert_call_if_fence_holds",
            "update_call_outcome_if_still_issued",
        )
    }
    with (
        mock.patch.multiple(hot_statements, **twins),
        mock.patch.object(
            read_messages_along_segments, "read_message_field_rows", orm_reference_implementation.read_messages
        ),
    ):
        said["orm"] = Player(names["orm"]).play(history)
    assert said["sql"] == said["orm"]
    stored = {way: rows(Session.objects.get(session_id=name)) for way, name in names.items()}
    assert stored["sql"] == stored["orm"]
