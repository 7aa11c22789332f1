"""Everything of one session as JSON records, one after the other: for taking it away and reading it with other tools.

It is as the session stands when the reading begins, in an order in which each record stands behind those it names. Rows
are read in pieces, so that a session of any length takes the same memory. What proves itself and can be imported again
is the file of a session (`checkpoints.files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, QuerySet

from checkpoints.files import reach
from checkpoints.models import AuditEvent, Checkpoint, Decision, LateResult, Message, Run, Segment, Session, ToolCall
from checkpoints.serde import parse_or_text

#: A JSON object; `record` says what it is.
Record = dict[str, Any]
FORMAT = "harness session records"
VERSION = 1
#: Rows that are in memory at once; a single one may be large.
_PIECE = 25


def records(session_pk: int) -> Iterator[Record]:
    """The records of a session. The last one counts the others: a file without it is not complete."""
    session = Session.objects.select_related("workspace", "forked_from").get(pk=session_pk)
    number = 0
    for record in _records(session):
        number += 1
        yield record
    yield {"record": "end", "records": number, "complete": True}


def _records(session: Session) -> Iterator[Record]:
    yield _session(session)
    theirs = {"session": session.pk}
    yield from _each(Run.objects.filter(**theirs), "number", _run)
    borrowed = reach.borrowed(DEFAULT_DB_ALIAS, session)
    for segment in reach.segments(DEFAULT_DB_ALIAS, session, borrowed):
        yield _segment(segment, session)
        said = reach.messages(DEFAULT_DB_ALIAS, segment, borrowed)
        if segment.pk == session.head_segment_id:
            said = said.filter(position__lt=session.message_count)
        yield from _each(said, "position", _message)
    saved = Checkpoint.objects.filter(**theirs, version__lte=session.latest_version).select_related("run")
    yield from _each(saved, "version", _checkpoint)
    yield from _each(ToolCall.objects.filter(**theirs).select_related("run"), "pk", _call)
    yield from _each(Decision.objects.filter(**theirs).select_related("tool_call"), "pk", _decision)
    late = LateResult.objects.filter(**theirs).select_related("tool_call", "run")
    yield from _each(late, "pk", _late)
    yield from _each(AuditEvent.objects.filter(**theirs), "pk", _event)


def _each(found: QuerySet[Any], order: str, told: Callable[[Any], Record]) -> Iterator[Record]:
    """The rows that are there now; those that are deleted meanwhile are left out."""
    pks = list(found.order_by(order).values_list("pk", flat=True))
    for start in range(0, len(pks), _PIECE):
        piece = pks[start : start + _PIECE]
        rows: dict[Any, Model] = found.in_bulk(piece)
        yield from (told(rows[pk]) for pk in piece if pk in rows)


def _session(session: Session) -> Record:
    origin = session.forked_from
    return {
        "record": "session",
        "format": FORMAT,
        "format_version": VERSION,
        "id": session.session_id,
        "workspace": session.workspace.slug,
        "agent": session.agent,
        "title": session.title,
        "status": session.status,
        "result": _value(session.result),
        "metadata": _value(session.metadata),
        "labels": _value(session.labels),
        "version": session.latest_version,
        "messages": session.message_count,
        "cost_usd": str(session.budget_spent_usd),
        "tokens": session.total_tokens,
        "forked_from": None if origin is None else {"id": origin.session_id, "version": session.forked_version},
        "created_at": _time(session.created_at),
        "updated_at": _time(session.updated_at),
    }


def _run(run: Run) -> Record:
    return {
        "record": "run",
        "number": run.number,
        "id": str(run.pk),
        "status": run.status,
        "host": run.host,
        "pid": run.pid,
        "code_version": run.code_version,
        "started_at": _time(run.started_at),
        "seen_at": _time(run.heartbeat_at),
        "ended_at": _time(run.ended_at),
    }


def _segment(segment: Segment, session: Session) -> Record:
    return {
        "record": "segment",
        "segment": segment.pk,
        "parent": segment.parent_id,
        "parent_length": segment.parent_length,
        "of_this_session": segment.session_id == session.pk,
    }


def _message(message: Message) -> Record:
    return {
        "record": "message",
        "segment": message.segment_id,
        "position": message.position,
        "id": message.message_id,
        "role": message.role,
        "at": _time(message.created_at),
        "message": _value(message.body),
    }


def _checkpoint(checkpoint: Checkpoint) -> Record:
    return {
        "record": "checkpoint",
        "version": checkpoint.version,
        "run": None if checkpoint.run is None else checkpoint.run.number,
        "phase": checkpoint.phase,
        "segment": checkpoint.segment_id,
        "length": checkpoint.length,
        "plan": _value(checkpoint.plan),
        "cost_usd": _value(checkpoint.budget_spent_usd),
        "usage": _value(checkpoint.usage),
        "payload": _value(checkpoint.payload),
        "at": _time(checkpoint.created_at),
    }


def _call(call: ToolCall) -> Record:
    return {
        "record": "call",
        "call": call.pk,
        "call_id": call.call_id,
        "step": call.step,
        "attempt": call.attempt,
        "run": call.run.number,
        "tool": call.tool,
        "args": _value(call.args),
        "sentence": call.sentence,
        "side_effects": call.side_effects,
        "status": call.status,
        "reason": call.reason,
        "result": _value(call.result),
        "error_type": call.error_type,
        "replays": call.replay_count,
        "revision": call.revision,
        "approvals": call.approvals,
        "issued_at": _time(call.issued_at),
        "interrupted_at": _time(call.interrupted_at),
        "settled_at": _time(call.settled_at),
    }


def _decision(decision: Decision) -> Record:
    return {
        "record": "decision",
        "call": decision.tool_call_id,
        "call_id": decision.tool_call.call_id,
        "kind": decision.kind,
        "actor": decision.actor,
        "actor_kind": decision.actor_kind,
        "reason": decision.reason,
        "evidence": _value(decision.evidence),
        "result": _value(decision.result),
        "final": decision.final,
        "revision": decision.revision,
        "at": _time(decision.created_at),
    }


def _late(late: LateResult) -> Record:
    return {
        "record": "late_result",
        "call": late.tool_call_id,
        "call_id": late.tool_call.call_id,
        "run": late.run.number if late.run else None,
        "success": late.success,
        "result": _value(late.result),
        "at": _time(late.received_at),
    }


def _event(event: AuditEvent) -> Record:
    return {
        "record": "event",
        "kind": event.kind,
        "actor": event.actor,
        "actor_kind": event.actor_kind,
        "details": _value(event.details),
        "number": event.number,
        "seal": event.seal,
        "at": _time(event.created_at),
    }


def _value(stored: str | None) -> Any:
    """Stored JSON text as a value; damaged text as the text it is."""
    return None if stored is None else parse_or_text(stored)


def _time(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat()
