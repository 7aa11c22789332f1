"""Session with a row in every sealed table, and changes of its rows that bypass the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import models, transaction

from checkpoints import SyncCheckpointer, ValueCodec, guard
from checkpoints.exceptions import LateResultRefused
from checkpoints.framework_states import state_store
from checkpoints.framework_states.state_store import NewState, NewWrite
from checkpoints.models import (
    AuditEvent,
    CallValue,
    Checkpoint,
    Decision,
    FrameworkState,
    FrameworkWrite,
    Join,
    LateResult,
    Message,
    PausedTask,
    PeerCall,
    Segment,
    Session,
    ToolCall,
    Workflow,
    WorkflowStep,
)
from checkpoints.models.packed_fields import PackedDigestField
from checkpoints.peers.agent_call_and_result_types import Join as JoinRequest
from checkpoints.peers.agent_call_and_result_types import PeerCall as PeerRequest
from checkpoints.sessions import take_and_release_ownership
from tests.integration.checkpoints.session_setups import conversation, text_message

SEALED_TABLES: tuple[type[models.Model], ...] = (
    Session,
    Segment,
    Message,
    Checkpoint,
    ToolCall,
    Decision,
    LateResult,
    CallValue,
    FrameworkState,
    FrameworkWrite,
    Workflow,
    WorkflowStep,
    PausedTask,
    Join,
    PeerCall,
    AuditEvent,
)


_AS_TEXT = ValueCodec(lambda value: ("text", value.encode()), lambda stored: stored[1].decode())


def create_sealed_session(open_checkpointer: Callable[..., SyncCheckpointer], session_id: str) -> None:
    """Create a session with rows in every sealed table: versions, calls, decisions, states, steps and peer calls."""
    first = open_checkpointer()
    first.start_session(session_id, "Refund order 17")
    transcript = conversation("abc")
    first.save_checkpoint(session_id, transcript, {"n": 1}, 0.25, payload={"cursor": 3})
    first.record_tool_call_issued(session_id, "call_1", "pay", {"order": 17}, f"key 1 {session_id}")
    first.record_tool_call_result(session_id, "call_1", "paid", True)
    first.save_checkpoint(
        session_id, [*transcript[:2], text_message("other", "assistant")], {"n": 2}, 0.5, usage={"input": 5}
    )
    first.record_tool_call_issued(session_id, "call_2", "pay", {"order": 18}, f"key 2 {session_id}")
    second = open_checkpointer()
    second.start_session(f"{session_id} beside it", "Something else")
    _lose(second, session_id)
    with suppress(LateResultRefused):
        first.record_tool_call_result(session_id, "call_2", "paid late", True)
    (call,) = second.pending_tool_calls(session_id)
    second.confirm_landed(
        session_id,
        "call_2",
        "It was paid.",
        actor="alice",
        reason="Seen.",
        evidence="export",
        revision=call["revision"],
    )
    second.resume(session_id)
    guard(second, session_id, "mail", {}, "call_3", lambda _: "sent", codec=_AS_TEXT)
    state = NewState("ns", "2", "1", "run", ("json", b"{}"), ("json", b"{}"), {"a": 1}, {"a": ("json", b"1")}, ["a"])
    state_store.save_state_and_transcript_version(second.store, session_id, state)
    writes = [NewWrite(0, "a", ("json", b"2"))]
    state_store.save_task_writes_and_interrupt_calls(second.store, session_id, "ns", "2", "task", "path", writes)
    second.workflow(session_id, "books").step("enter", str.upper, "entry")
    peers = [PeerRequest(f"{session_id} p1", "stock", {"item": 1}), PeerRequest(f"{session_id} p2", "stock")]
    second.pause_for_peers(session_id, {"step": 4}, [JoinRequest("j", peers)])
    second.accept_response(f"{session_id} p1", {"left": 3})


def _lose(checkpointer: SyncCheckpointer, session_id: str) -> None:
    owned = take_and_release_ownership.take_ownership_and_start_heartbeat(checkpointer.store, session_id, takeover=True)
    take_and_release_ownership.release_ownership_if_still_owner(checkpointer.store, owned)


def change(value: Any, field: models.Field[Any, Any]) -> Any:
    """Return another value of the same type."""
    if isinstance(field, models.ForeignKey):
        return change(value, field.target_field)
    if value is None:
        empty = {
            "DateTimeField": datetime(2026, 1, 1, tzinfo=UTC),
            "DurationField": timedelta(),
            "UUIDField": UUID(int=0),
            "BinaryField": b"",
            "DecimalField": Decimal(),
        }
        value = 5 if isinstance(field, models.IntegerField) else empty.get(field.get_internal_type(), "")
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | Decimal):
        return value + 7
    if isinstance(field, PackedDigestField):
        return f"{int(value[0], 16) ^ 1:x}{value[1:]}"
    if isinstance(value, str):
        return f"{value}x" if field.max_length is None or len(value) < field.max_length else f"{value[:-1]}~"
    if isinstance(value, datetime | timedelta):
        return value + timedelta(seconds=1)
    if isinstance(value, UUID):
        return UUID(int=value.int ^ 1)
    return bytes([bytes(value)[0] ^ 1, *bytes(value)[1:]]) if value else b"\x01"


def plain(model: type[models.Model]) -> models.QuerySet[Any]:
    """Return a queryset that does not write seals, as an attacker with the database password would use."""
    return models.QuerySet(model)


@contextmanager
def rolled_back() -> Iterator[None]:
    """Roll back all changes of the block."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
