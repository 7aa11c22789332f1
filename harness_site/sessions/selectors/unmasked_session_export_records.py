"""Complete contents of one session as a sequence of JSON records for other tools.

The records are a snapshot of the start of the export, ordered so that references point backwards. Rows are read in
chunks, so that memory does not grow with the session. For a verifiable file that can be imported see
`checkpoints.archive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, QuerySet

from checkpoints.archive import own_and_origin_segments
from checkpoints.enums import CostBasis
from checkpoints.integrity import verify_session_rows
from checkpoints.models import AuditEvent, Checkpoint, Decision, LateResult, Message, Run, Segment, Session, ToolCall
from harness_site.core.masked_formatting import parse_json_or_text

#: A JSON object; `record` names its type.
Record = dict[str, Any]
FORMAT = "harness session records"
VERSION = 1
#: Rows in memory at once; a single row may be large.
_PIECE = 25


def verify_session_and_generate_export_records(session_pk: int) -> Iterator[Record]:
    """Yield the records of a session; the last one counts the others, so that a truncated file can be detected.

    The whole session is verified first, before anything is yielded. Raises `IntegrityError`.
    """
    session = Session.objects.select_related("workspace", "forked_from").get(pk=session_pk)
    verify_session_rows.require_session_unaltered(DEFAULT_DB_ALIAS, session)
    return _generate_records_and_end_record(session)


def _generate_records_and_end_record(session: Session) -> Iterator[Record]:
    number = 0
    for record in _generate_records_by_kind(session):
        number += 1
        yield record
    yield {"record": "end", "records": number, "complete": True}


def _generate_records_by_kind(session: Session) -> Iterator[Record]:
    yield _build_session_record(session)
    of_session = {"session": session.pk}
    yield from _iterate_records_of_rows(Run.objects.filter(**of_session), "number", _build_run_record)
    borrowed_segments = own_and_origin_segments.map_origin_segments_to_needed_lengths(DEFAULT_DB_ALIAS, session)
    for segment in own_and_origin_segments.select_own_and_origin_segments(DEFAULT_DB_ALIAS, session, borrowed_segments):
        yield _build_segment_record(segment, session)
        messages = own_and_origin_segments.select_needed_messages_of_segment(
            DEFAULT_DB_ALIAS, segment, borrowed_segments
        )
        if segment.pk == session.head_segment_id:
            messages = messages.filter(position__lt=session.message_count)
        yield from _iterate_records_of_rows(messages, "position", _build_message_record)
    checkpoints = Checkpoint.objects.filter(**of_session, version__lte=session.latest_version).select_related("run")
    build_checkpoint_record = partial(_build_checkpoint_record, knows_cost=session.cost_basis != CostBasis.UNKNOWN)
    yield from _iterate_records_of_rows(checkpoints, "version", build_checkpoint_record)
    yield from _iterate_records_of_rows(
        ToolCall.objects.filter(**of_session).select_related("run"), "pk", _build_call_record
    )
    yield from _iterate_records_of_rows(
        Decision.objects.filter(**of_session).select_related("tool_call"), "pk", _build_decision_record
    )
    late = LateResult.objects.filter(**of_session).select_related("tool_call", "run")
    yield from _iterate_records_of_rows(late, "pk", _build_late_result_record)
    yield from _iterate_records_of_rows(AuditEvent.objects.filter(**of_session), "pk", _build_event_record)


def _iterate_records_of_rows(queryset: QuerySet[Any], order: str, build: Callable[[Any], Record]) -> Iterator[Record]:
    """Yield the rows that exist at the start, without those that are deleted meanwhile."""
    pks = list(queryset.order_by(order).values_list("pk", flat=True))
    for start in range(0, len(pks), _PIECE):
        piece = pks[start : start + _PIECE]
        rows: dict[Any, Model] = queryset.in_bulk(piece)
        yield from (build(rows[pk]) for pk in piece if pk in rows)


def _build_session_record(session: Session) -> Record:
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
        "result": parse_json_or_text(session.result),
        "metadata": parse_json_or_text(session.metadata),
        "labels": parse_json_or_text(session.labels),
        "version": session.latest_version,
        "messages": session.message_count,
        "cost_usd": None if session.cost_basis == CostBasis.UNKNOWN else str(session.budget_spent_usd),
        "tokens": session.total_tokens or None,
        "forked_from": None if origin is None else {"id": origin.session_id, "version": session.forked_version},
        "created_at": _format_time_as_iso(session.created_at),
        "updated_at": _format_time_as_iso(session.updated_at),
    }


def _build_run_record(run: Run) -> Record:
    return {
        "record": "run",
        "number": run.number,
        "id": str(run.pk),
        "status": run.status,
        "host": run.host,
        "pid": run.pid,
        "code_version": run.code_version,
        "started_at": _format_time_as_iso(run.started_at),
        "seen_at": _format_time_as_iso(run.heartbeat_at),
        "ended_at": _format_time_as_iso(run.ended_at),
    }


def _build_segment_record(segment: Segment, session: Session) -> Record:
    return {
        "record": "segment",
        "segment": segment.pk,
        "parent": segment.parent_id,
        "parent_length": segment.parent_length,
        "of_this_session": segment.session_id == session.pk,
    }


def _build_message_record(message: Message) -> Record:
    return {
        "record": "message",
        "segment": message.segment_id,
        "position": message.position,
        "id": message.message_id,
        "role": message.role,
        "at": _format_time_as_iso(message.created_at),
        "message": parse_json_or_text(message.body),
    }


def _build_checkpoint_record(checkpoint: Checkpoint, *, knows_cost: bool) -> Record:
    return {
        "record": "checkpoint",
        "version": checkpoint.version,
        "run": None if checkpoint.run is None else checkpoint.run.number,
        "phase": checkpoint.phase,
        "segment": checkpoint.segment_id,
        "length": checkpoint.length,
        "plan": parse_json_or_text(checkpoint.plan),
        "cost_usd": parse_json_or_text(checkpoint.budget_spent_usd) if knows_cost else None,
        "usage": parse_json_or_text(checkpoint.usage),
        "payload": parse_json_or_text(checkpoint.payload),
        "at": _format_time_as_iso(checkpoint.created_at),
    }


def _build_call_record(call: ToolCall) -> Record:
    return {
        "record": "call",
        "call": call.pk,
        "call_id": call.call_id,
        "step": call.step,
        "attempt": call.attempt,
        "run": call.run.number,
        "tool": call.tool,
        "args": parse_json_or_text(call.args),
        "sentence": call.sentence,
        "side_effects": call.side_effects,
        "status": call.status,
        "reason": call.reason,
        "result": parse_json_or_text(call.result),
        "exit_code": call.exit_code,
        "error_type": call.error_type,
        "error_message": call.error_message,
        "replays": call.replay_count,
        "revision": call.revision,
        "approvals": call.approvals,
        "issued_at": _format_time_as_iso(call.issued_at),
        "interrupted_at": _format_time_as_iso(call.interrupted_at),
        "settled_at": _format_time_as_iso(call.settled_at),
    }


def _build_decision_record(decision: Decision) -> Record:
    return {
        "record": "decision",
        "call": decision.tool_call_id,
        "call_id": decision.tool_call.call_id,
        "kind": decision.kind,
        "actor": decision.actor,
        "actor_kind": decision.actor_kind,
        "reason": decision.reason,
        "evidence": parse_json_or_text(decision.evidence),
        "result": parse_json_or_text(decision.result),
        "final": decision.final,
        "revision": decision.revision,
        "at": _format_time_as_iso(decision.created_at),
    }


def _build_late_result_record(late: LateResult) -> Record:
    return {
        "record": "late_result",
        "call": late.tool_call_id,
        "call_id": late.tool_call.call_id,
        "run": late.run.number if late.run else None,
        "success": late.success,
        "result": parse_json_or_text(late.result),
        "at": _format_time_as_iso(late.received_at),
    }


def _build_event_record(event: AuditEvent) -> Record:
    return {
        "record": "event",
        "kind": event.kind,
        "actor": event.actor,
        "actor_kind": event.actor_kind,
        "details": parse_json_or_text(event.details),
        "number": event.number,
        "seal": event.seal,
        "at": _format_time_as_iso(event.created_at),
    }


def _format_time_as_iso(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat()
