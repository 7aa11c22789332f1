"""History of one session: audit events, decisions, and calls with a side effect that ended, newest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge
from itertools import groupby, islice
from typing import Any, Final

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils.translation import gettext

from checkpoints.db import keyset_pagination
from checkpoints.db.keyset_pagination import Cursor
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, InterruptReason, SessionStatus
from checkpoints.models import AuditEvent, Decision, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from checkpoints.models.tool_calls_and_results import COPIED_CALLS, INTERRUPT_TOOL, IS_QUESTION, MUTATING_CALLS
from checkpoints.models.translated_enum_choices import translate_label
from checkpoints.seals import row_seals
from harness_site.audit import audit_trail_query
from harness_site.audit.audit_trail_query import parse_event_details
from harness_site.core.status_and_decision_labels import get_call_status_shape_and_label, get_decision_shape_and_label
from harness_site.sessions.selectors import call_records, message_origin_versions_and_runs
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.message_origin_versions_and_runs import RunFacts

PAGE = 40
#: Kind of the entry of a call that ended.
CALL_ENDED: Final = "call_ended"
#: Decisions that give the outcome of a call. Their own entries say it, and the tool may not have run.
_OUTCOME_KINDS: Final = frozenset(
    {
        DecisionKind.CONFIRM_LANDED,
        DecisionKind.MARK_FAILED,
        DecisionKind.RESPOND,
        DecisionKind.PROBE_LANDED,
        DecisionKind.PROBE_NOT_LANDED,
    }
)
#: Largest number that the parameter of a URL has.
_LARGEST_KEY: Final = 10**18 - 1
#: Call id, step and attempt of a call, as an event names them.
CallPlace = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class ArgumentEdit:
    """The arguments of a call before and after a person changed them, as JSON texts in the order of the caller."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """An audit event, a decision about a call, or a call that ended, with its key. `details` is JSON.

    `call_pk` and `tool` are set for a decision, and for the interruption of a call; `reason` is then the message of its
    error. `edit` is set for a decision that changed the arguments, and `call` for a call that ended. Of a question that
    was asked, only `call_pk` is set. `entry_count` is the number of equal entries that this one stands for, of which
    the oldest was recorded at `first_entry_at`. `final` is False if more of the `approvals` people have to agree;
    `intact` is False if the event does not match its recorded hash.
    """

    pk: int
    at: datetime
    label: str
    kind: str
    actor: str
    actor_kind: str
    details: dict[str, Any]
    reason: str = ""
    evidence: str | None = None
    result: str | None = None
    call_pk: int | None = None
    call_id: str = ""
    tool: str = ""
    is_question: bool = False
    final: bool = True
    approvals: int = 1
    intact: bool = True
    entry_count: int = 1
    first_entry_at: datetime | None = None
    edit: ArgumentEdit | None = None
    call: CallRecord | None = None


@dataclass(frozen=True, slots=True)
class ReadEventGroup:
    """Consecutive entries of several people who read the session, or who saw excerpts of it, newest first."""

    rows: tuple[HistoryItem, ...]

    @property
    def pk(self) -> int:
        return self.rows[0].pk

    @property
    def at(self) -> datetime:
        return self.rows[0].at

    @property
    def label(self) -> str:
        return self.rows[0].label

    @property
    def first_entry_at(self) -> datetime:
        return self.rows[-1].first_entry_at or self.rows[-1].at

    @property
    def entry_count(self) -> int:
        return sum(row.entry_count for row in self.rows)

    @property
    def actors(self) -> tuple[str, ...]:
        """Return each reader once, the latest first."""
        return tuple(dict.fromkeys(row.actor for row in self.rows))


@dataclass(frozen=True, slots=True)
class HistoryCursor:
    """The last event, decision and call of the pages so far: keys, and the end of the call, None if none was shown."""

    event: int
    decision: int
    call: Cursor | None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of the history. `before` is the cursor of the next page."""

    rows: tuple[HistoryItem, ...]
    before: HistoryCursor | None


def load_takeover_runs_by_lost_run_name(session_pk: int, page: HistoryPage) -> dict[str, RunFacts]:
    """Load the runs that took the session over on this page, by the name of the run that they took it from."""
    lost_runs = [row.actor for row in page.rows if row.kind == AuditKind.TAKEOVER]
    numbers = [int(name.removeprefix("run ")) for name in lost_runs if name.removeprefix("run ").isdecimal()]
    if not numbers:
        return {}
    runs = message_origin_versions_and_runs.load_runs_by_number(session_pk, min(numbers) + 1, max(numbers) + 1)
    return {f"run {number}": runs[number + 1] for number in numbers if number + 1 in runs}


def load_history_page(session_pk: int, *, before: HistoryCursor | None = None, size: int = PAGE) -> HistoryPage:
    """Load a page of the history; a decision replaces the audit event that records it.

    Raises `IntegrityError` for a decision, or a call, that does not match its seal; an event that does not match is
    marked.
    """
    events = AuditEvent.objects.filter(session=session_pk).exclude(kind=AuditKind.DECIDED)
    decisions = Decision.objects.filter(session=session_pk).select_related("tool_call")
    if before is not None:
        events, decisions = events.filter(pk__lt=before.event), decisions.filter(pk__lt=before.decision)
    recorded_events = list(events.order_by(keyset_pagination.build_newest_first_ordering())[: size + 1])
    broken_pks = (
        audit_trail_query.find_altered_event_keys(recorded_events[0].workspace_id, recorded_events)
        if recorded_events
        else frozenset()
    )
    interrupted_calls = _load_interrupted_calls(session_pk, recorded_events)
    questions = _load_question_keys_by_call_id(session_pk, recorded_events)
    event_rows = [
        (
            event.created_at,
            event.pk,
            0,
            _build_event_item(event, interrupted_calls, questions, intact=event.pk not in broken_pks),
        )
        for event in recorded_events
    ]
    recorded_decisions = list(decisions.order_by(keyset_pagination.build_newest_first_ordering())[: size + 1])
    row_seals.verify_rows(recorded_decisions)
    row_seals.verify_rows({row.tool_call_id: row.tool_call for row in recorded_decisions}.values())
    edits = _load_argument_edits_by_decision(recorded_decisions)
    decision_rows = [
        (row.created_at, row.pk, 1, _build_decision_item(row, edits.get(row.pk))) for row in recorded_decisions
    ]
    ended_calls, stored_times = _load_ended_calls_newest_first(
        session_pk, None if before is None else before.call, size
    )
    call_rows = [(call.settled_at, call.pk, 2, _build_call_item(call)) for call in ended_calls if call.settled_at]
    newest = list(islice(merge(event_rows, decision_rows, call_rows, key=lambda row: row[:3], reverse=True), size + 1))
    page_rows = newest[:size]
    items = tuple(row[3] for row in page_rows)
    if len(newest) <= size:
        return HistoryPage(items, None)
    top = before or HistoryCursor(_LARGEST_KEY, _LARGEST_KEY, None)
    last_call_pk = next((row[1] for row in reversed(page_rows) if row[2] == 2), None)
    following = HistoryCursor(
        event=min((row[1] for row in page_rows if row[2] == 0), default=top.event),
        decision=min((row[1] for row in page_rows if row[2] == 1), default=top.decision),
        call=top.call if last_call_pk is None else Cursor(stored_times[last_call_pk], last_call_pk),
    )
    return HistoryPage(items, following)


def find_unaltered_session_end_event(session_pk: int) -> HistoryItem | None:
    """Find the newest event that ended a session; None if there is none, or if it is not as it was recorded."""
    endings = AuditEvent.objects.filter(session=session_pk, kind=AuditKind.SESSION_FINISHED)
    event = endings.order_by("-pk").first()
    if event is None or not row_seals.is_row_genuine_or_sealing_off(event):
        return None
    return _build_event_item(event, {}, {}, intact=True)


def merge_repeated_read_events(rows: Iterable[HistoryItem]) -> Iterator[HistoryItem]:
    """Yield the rows; consecutive ones that say of the same person that they read the session become one."""
    for _key, equal_rows in groupby(rows, key=_get_key_of_equal_read_events):
        newest, *others = equal_rows
        yield replace(newest, entry_count=1 + len(others), first_entry_at=others[-1].at) if others else newest


def group_read_events(rows: Iterable[HistoryItem]) -> Iterator[HistoryItem | ReadEventGroup]:
    """Yield the rows; consecutive ones about reading become one group of each kind, equal ones in it one row.

    Who has seen excerpts, such as hits of a search, has not read the session.
    """
    for is_reading, consecutive in groupby(rows, key=_is_session_read_event):
        if not is_reading:
            yield from consecutive
            continue
        rows_by_kind: defaultdict[str, list[HistoryItem]] = defaultdict(list)
        for row in consecutive:
            rows_by_kind[row.kind].append(row)
        for of_kind in rows_by_kind.values():
            merged = tuple(merge_repeated_read_events(of_kind))
            yield merged[0] if len(merged) == 1 else ReadEventGroup(merged)


def _is_session_read_event(row: HistoryItem) -> bool:
    return row.kind in audit_trail_query.PAGE_VIEWS and row.call_pk is None and row.intact


def _get_key_of_equal_read_events(row: HistoryItem) -> tuple[Any, ...]:
    if not _is_session_read_event(row):
        return row.pk, row.call_pk
    return row.kind, row.actor, row.actor_kind, tuple(sorted(map(repr, row.details.items())))


def _load_ended_calls_newest_first(
    session_pk: int, before: Cursor | None, size: int
) -> tuple[list[CallRecord], dict[int, str]]:
    """Load the calls that ended last, one more than `size`, and when they ended as the database writes it, by key."""
    calls = _select_ended_mutating_calls().filter(session=session_pk)
    if before is not None:
        calls = calls.filter(keyset_pagination.build_before_cursor_condition(before, "settled_at"))
    stored_times: dict[int, str] = dict(
        calls.order_by("-settled_at", "-pk").values_list("pk", keyset_pagination.cast_field_to_text("settled_at"))[
            : size + 1
        ]
    )
    records = {record.pk: record for record in call_records.load_calls_with_pks_without_results(list(stored_times))}
    return [records[pk] for pk in stored_times if pk in records], stored_times


def _select_ended_mutating_calls() -> QuerySet[ToolCall]:
    """Select the calls with a side effect whose tool completed or failed; not those that a fork has copied."""
    final_decisions = Decision.objects.filter(tool_call=OuterRef("pk"), final=True).order_by("-revision", "-pk")
    calls = ToolCall.objects.filter(
        MUTATING_CALLS, status__in=(CallStatus.COMPLETED, CallStatus.FAILED), settled_at__isnull=False
    )
    calls = calls.exclude(COPIED_CALLS).exclude(IS_QUESTION)
    decided_calls = calls.alias(last_final_kind=Subquery(final_decisions.values("kind")[:1]))
    return decided_calls.filter(Q(last_final_kind=None) | ~Q(last_final_kind__in=sorted(_OUTCOME_KINDS)))


def _load_argument_edits_by_decision(decisions: Iterable[Decision]) -> dict[int, ArgumentEdit]:
    """Load what the edits among these decisions changed, by the key of the decision. Raises `IntegrityError`.

    An edit stores the arguments before it. Those after it are before the next edit of the same call, or now.
    """
    calls = {row.tool_call_id: row.tool_call for row in decisions if row.kind == DecisionKind.EDIT}
    if not calls:
        return {}
    stored = list(Decision.objects.filter(tool_call__in=calls, kind=DecisionKind.EDIT).order_by(*Decision.IN_ORDER))
    row_seals.verify_rows(stored)
    after = {pk: call.args_json_in_caller_order for pk, call in calls.items()}
    edits: dict[int, ArgumentEdit] = {}
    for edit in reversed(stored):
        before = get_args_json_before_edit(edit.evidence)
        if before is not None:
            edits[edit.pk] = ArgumentEdit(before, after[edit.tool_call_id])
            after[edit.tool_call_id] = before
    return edits


def _load_interrupted_calls(session_pk: int, events: Iterable[AuditEvent]) -> dict[CallPlace, ToolCall]:
    """Load the calls that the events interrupted, by their place in the session. Raises `IntegrityError`."""
    places = {_get_call_id_step_and_attempt(event) for event in events if event.kind == AuditKind.CALL_INTERRUPTED}
    if not places:
        return {}
    call_ids = {call_id.replace("\0", "") for call_id, _, _ in places}
    calls = list(ToolCall.objects.filter(session=session_pk, call_id__in=call_ids))
    row_seals.verify_rows(calls)
    return {(call.call_id, str(call.step), str(call.attempt)): call for call in calls}


def _load_question_keys_by_call_id(session_pk: int, events: Iterable[AuditEvent]) -> dict[str, int]:
    """Map the call ids of the questions that the events asked or withdrew to their keys."""
    requests = [
        parse_event_details(event.details) for event in events if event.kind in _map_question_event_kinds_to_labels()
    ]
    call_ids = {str(each.get("call_id")).replace("\0", "") for each in requests if each.get("tool") == INTERRUPT_TOOL}
    if not call_ids:
        return {}
    calls = ToolCall.objects.filter(IS_QUESTION, session=session_pk, call_id__in=call_ids)
    return dict(calls.values_list("call_id", "pk"))


def _get_call_id_step_and_attempt(event: AuditEvent) -> CallPlace:
    details = parse_event_details(event.details)
    return str(details.get("call_id")), str(details.get("step")), str(details.get("attempt"))


def _map_question_event_kinds_to_labels() -> dict[str, str]:
    return {
        AuditKind.APPROVAL_REQUESTED: gettext("Asked a question"),
        AuditKind.CALL_DISCARDED: gettext("Question withdrawn"),
    }


def _build_event_item(
    event: AuditEvent, interrupted: Mapping[CallPlace, ToolCall], questions: Mapping[str, int], *, intact: bool
) -> HistoryItem:
    call = interrupted.get(_get_call_id_step_and_attempt(event)) if event.kind == AuditKind.CALL_INTERRUPTED else None
    question_labels = _map_question_event_kinds_to_labels()
    question_pk = questions.get(_get_call_id_step_and_attempt(event)[0]) if event.kind in question_labels else None
    details = parse_event_details(event.details)
    return HistoryItem(
        pk=event.pk,
        at=event.created_at,
        label=_get_event_label(event.kind, details) if question_pk is None else question_labels[event.kind],
        kind=event.kind,
        actor=event.actor,
        actor_kind=event.actor_kind,
        details=details,
        reason="" if call is None else call.error_message,
        call_pk=question_pk if call is None else call.pk,
        call_id="" if call is None else call.call_id,
        tool="" if call is None else call.tool,
        is_question=question_pk is not None,
        intact=intact,
    )


def _build_call_item(call: CallRecord) -> HistoryItem:
    return HistoryItem(
        pk=call.pk,
        at=call.settled_at or call.issued_at,
        label=get_call_status_shape_and_label(
            CallStatus.FAILED if call.is_failed_command else call.status,
            is_question=call.is_question,
            final_kind=call.last_final_decision_kind,
        )[1],
        kind=CALL_ENDED,
        actor=f"run {call.run_number}",
        actor_kind=ActorKind.MACHINE,
        details={},
        call_pk=call.pk,
        call_id=call.call_id,
        tool=call.tool,
        call=call,
    )


def _build_decision_item(decision: Decision, edit: ArgumentEdit | None) -> HistoryItem:
    call = decision.tool_call
    label = get_decision_shape_and_label(
        decision.kind, about_question=call.is_question, about_changed_value=call.has_changed_args
    )[1]
    return HistoryItem(
        pk=decision.pk,
        at=decision.created_at,
        label=label,
        kind=decision.kind,
        actor=decision.actor,
        actor_kind=decision.actor_kind,
        details={},
        reason=decision.reason,
        evidence=decision.evidence,
        result=decision.result_text,
        call_pk=decision.tool_call_id,
        call_id=call.call_id,
        tool=call.tool,
        is_question=call.is_question,
        final=decision.final,
        approvals=call.approvals,
        edit=edit,
    )


def _get_event_label(kind: str, details: Mapping[str, Any]) -> str:
    """Return the label of a kind of event, for the end of a session that of its status.

    An unknown kind of a newer version is returned as is.
    """
    if kind == AuditKind.SESSION_FINISHED and details.get("status") == SessionStatus.CANCELLED:
        is_without_result = details.get("reason") == InterruptReason.NO_RESULT
        return gettext("Session ended without a result") if is_without_result else gettext("Session cancelled")
    if kind == AuditKind.SESSION_FINISHED and details.get("status") == SessionStatus.FAILED:
        return gettext("Session failed")
    return str(translate_label(AuditKind(kind))) if kind in AuditKind.values else kind.replace("_", " ").capitalize()
