"""Plan of a resume for the calls that are not answered yet: replay, run, or ask a person.

If it is known which calls the model requested, only those count: the calls of the journaled answer, or those of the
last calling message that nothing in the transcript answers. If it is not known, because the answer was not journaled,
the calls made since the last version count. Any other call is found by its key when it is dispatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from checkpoints.calls import call_queries, require_unaltered_call, verify_calls_against_decisions
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.enums import (
    CallStatus,
    DecisionKind,
)
from checkpoints.exceptions import (
    InvalidInput,
)
from checkpoints.formats import digests, tool_calls_in_messages
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.storable_text import is_storable_text
from checkpoints.formats.tool_calls_in_messages import RequestedCall
from checkpoints.models import Checkpoint, Session, ToolCall, WorkflowStep
from checkpoints.seals import row_seals
from checkpoints.store.checkpointer_state import OpenCallRecord
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import CallFingerprint

#: Statuses of calls whose result a resume gives to the agent.
ANSWERED_STATUSES = frozenset({CallStatus.COMPLETED, CallStatus.REJECTED})
#: Statuses of calls that a resume lets the agent make.
TO_RUN_STATUSES = frozenset({CallStatus.APPROVED, CallStatus.RERUN_APPROVED, CallStatus.FAILED})


@dataclass(frozen=True)
class ResumePlan:
    """Rows of the call log by what a resume does with them, and the log entry of each requested call.

    `requested_calls` are the calls, by id and kind, that the model is known to have requested.
    """

    replay: list[ToolCall]
    run: list[ToolCall]
    open: dict[str, OpenCallRecord]
    requested_calls: frozenset[tuple[str, CallFingerprint]] = frozenset()


EMPTY_PLAN = ResumePlan([], [], {})


@dataclass(frozen=True)
class TranscriptTail:
    """End of a transcript from message `first` on, and the model's answer after it, if one was journaled."""

    transcript: Sequence[Any]
    pending: dict[str, Any] | None = None
    first: int = 0

    @property
    def unanswered_calls(self) -> list[RequestedCall]:
        return (
            tool_calls_in_messages.list_unanswered_calls_at_end(self.transcript)
            if self.pending is None
            else tool_calls_in_messages.list_requested_calls(self.pending)
        )

    def find_result_positions(self, call_id: str) -> list[int]:
        """Find the positions of the results of a call id in the transcript."""
        return [
            position
            for position, message in enumerate(self.transcript, self.first)
            if call_id in tool_calls_in_messages.list_call_ids_of_results(message)
        ]


def plan_resume(store: Store, session: Session, tail: TranscriptTail) -> ResumePlan:
    """Plan the resume of `session` at `tail`."""
    replay: list[ToolCall] = []
    run: list[ToolCall] = []
    asked_for = tail.unanswered_calls
    logged_calls = {
        requested_call.call_id: _find_unanswered_logged_attempt(store, session, requested_call, tail)
        for requested_call in asked_for
    }
    status_calls = {
        requested_call.call_id: OpenCallRecord(call.step, call.tool, _digest_args_or_empty(requested_call))
        for requested_call in asked_for
        if (call := logged_calls[requested_call.call_id]) is not None
    }
    found = logged_calls.values() if asked_for else _list_calls_since_last_version(store, session)
    calls = [call for call in found if call is not None]
    row_seals.verify_rows(calls)
    verify_calls_against_decisions.verify_calls_against_decisions(store.using, calls)
    for call in calls:
        if call.status in ANSWERED_STATUSES or (
            call.status == CallStatus.FAILED and _was_marked_failed_by_person(store, call)
        ):
            replay.append(call)
        elif call.status in TO_RUN_STATUSES:
            run.append(call)
    expected = frozenset(
        (requested_call.call_id, (requested_call.tool, _digest_args_or_empty(requested_call)))
        for requested_call in asked_for
    )
    return ResumePlan(replay, run, status_calls, expected)


def _list_calls_since_last_version(store: Store, session: Session) -> list[ToolCall]:
    """List the newest attempt of each call made since the last version, without the steps of workflows."""
    calls = _select_calls_at_step_without_workflow_steps(session.pk, session.latest_version).using(store.using)
    in_order = sorted(calls, key=attrgetter("attempt", "pk"))
    return list({call.call_id: call for call in in_order}.values())


def _select_calls_at_step_without_workflow_steps(session: int, step: int) -> QuerySet[ToolCall]:
    return _select_calls_without_workflow_steps().filter(session=session, step=step)


@cache
def _select_calls_without_workflow_steps() -> QuerySet[ToolCall]:
    steps = WorkflowStep.objects.filter(session=OuterRef("session"), call_id=OuterRef("call_id"))
    return ToolCall.objects.filter(~Exists(steps)).select_related("run")


def _find_unanswered_logged_attempt(
    store: Store, session: Session, requested_call: RequestedCall, tail: TranscriptTail
) -> ToolCall | None:
    """Find the newest logged attempt at exactly this call that nothing in the transcript answers."""
    if not (is_storable_text(requested_call.call_id) and is_storable_text(requested_call.tool)):
        return None
    digest = _digest_args_or_empty(requested_call)
    same_calls = [
        call
        for call in _select_attempts_of_call(session.pk, requested_call.call_id, requested_call.tool).using(store.using)
        if call.args_digest == digest or digest in call_queries.collect_current_and_earlier_args_digests(store, call)
    ]
    return next(
        (
            call
            for call in reversed(same_calls)
            if not _is_answered_in_transcript(store, session, call, same_calls, tail)
        ),
        None,
    )


def _select_attempts_of_call(session: int, call_id: str, tool: str) -> QuerySet[ToolCall]:
    attempts = ToolCall.objects.filter(session=session, call_id=call_id, tool=tool)
    return attempts.select_related("run").order_by("step", "attempt")


def _is_answered_in_transcript(
    store: Store, session: Session, call: ToolCall, same_calls: Sequence[ToolCall], tail: TranscriptTail
) -> bool:
    """Return whether the transcript holds the result of this call: one after the messages saved before the call.

    Calls that a fork inherited have no position in its versions; the first results answer the first of them.
    """
    results = tail.find_result_positions(call.call_id)
    if call.step < 0:
        steps = sorted({same_call.step for same_call in same_calls})
        return steps.index(call.step) < len(results)
    versions = Checkpoint.objects.using(store.using).filter(session=session, version__gte=call.step)
    lengths = list(versions.order_by("version").values_list("length", flat=True)[:_MAX_VERSIONS])
    if any(later < earlier for earlier, later in pairwise(lengths)):
        return True  # compacted or edited since: an earlier version had it
    saved_length = lengths[0] if lengths and call.step > 0 else 0
    return any(position >= saved_length for position in results)


#: Number of later versions that are searched; an unanswered call has few of them.
_MAX_VERSIONS = 1000


def _digest_args_or_empty(requested_call: RequestedCall) -> str:
    try:
        return (
            "" if requested_call.args is None else digests.digest_text(to_canonical_json(requested_call.args, "args"))
        )
    except InvalidInput:
        return ""


def _was_marked_failed_by_person(store: Store, call: ToolCall) -> bool:
    """Return whether a person stated that the call failed: the agent gets that result, and the call is not repeated."""
    decisions = verify_calls_against_decisions.select_decisions_joined_for_signatures(store.using).filter(
        tool_call=call, kind=DecisionKind.MARK_FAILED, final=True
    )
    verify_calls_against_decisions.verify_decisions(decisions)
    return bool(decisions)


def build_replayed_result(call: ToolCall) -> ToolResult:
    """Build the result of a settled call from its stored answer."""
    require_unaltered_call.require_call_unaltered(call)
    is_error = call.status != CallStatus.COMPLETED
    content = call.result_text
    if content is None:
        content = f"{call.tool} did not happen." if is_error else ""
    return ToolResult(call.call_id, content, is_error=is_error, replayed=True, attempt=call.attempt)


#: Number of messages at the end of the transcript in which a preview searches for unanswered calls.
PREVIEW_MESSAGE_COUNT = 200
