"""Queries of the call log by call, key, step or answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from checkpoints.calls import (
    call_log_tampering_detection,
    convert_calls_to_dicts,
    require_unaltered_call,
    verify_calls_against_decisions,
)
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    POLICIES_MATCHING_ARGUMENTS,
    UNDECIDED_CALL_STATUSES,
    CallStatus,
    DecisionKind,
    KeyScope,
)
from checkpoints.exceptions import IntegrityError, SessionNotFound
from checkpoints.formats import digests
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Decision, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store


def get_verified_call_by_pk(store: Store, session_id: str, call_pk: int) -> ToolCall:
    """Return a logged call. Raises `SessionNotFound` if it was removed: that happens with its session only."""
    with database_operation(store.using, writes=False):
        call = ToolCall.objects.using(store.using).filter(pk=call_pk).first()
    if call is None:
        raise SessionNotFound(session_id)
    row_seals.verify_row(call)
    return call


def find_completed_call(store: Store, key: str) -> dict[str, Any] | None:
    """Find the completed call of an idempotency key in this workspace, or None.

    If its session is not owned by this store, no row of that session may be missing or in a former state.
    """
    with database_operation(store.using, writes=False):
        call = (
            ToolCall.objects.using(store.using)
            .filter(
                workspace_id=store.workspace_id,
                idempotency_key=validate_id("idempotency key", key),
                status=CallStatus.COMPLETED,
            )
            .select_related("session", "run")
            .order_by("-pk")
            .first()
        )
        if call is None:
            return None
        try:
            require_unaltered_call.require_call_unaltered(call)
        except IntegrityError as error:
            error.session_pk = call.session_id
            raise
        if store.find_owned_session(call.session.session_id) is None:
            call_log_tampering_detection.verify_other_session_and_list_live_calls(store.using, call.session_id)
        return {
            **convert_calls_to_dicts.call_to_dict(call),
            "session_id": call.session.session_id,
            "result_text": call.result_text,
        }


@dataclass(frozen=True)
class DecidedCall:
    """Newest attempt of a call, and who decided about it last; `actor` is empty if nobody did."""

    call: ToolCall
    actor: str


def find_calls_if_all_decided(
    store: Store, session_id: str, places: Iterable[tuple[str, int]]
) -> list[DecidedCall] | None:
    """Find the decisions about calls, by call id and step. Returns None while one of them is undecided.

    Raises `SessionNotFound`, `CallNotFound`, and what `require_call_unaltered` raises.
    """
    with database_operation(store.using, writes=False):
        row = look_up_and_lock_rows.get_session(store, session_id)
        calls = [
            look_up_and_lock_rows.get_latest_call_attempt(store, row, call_id, step=step) for call_id, step in places
        ]
        if any(call.status in UNDECIDED_CALL_STATUSES for call in calls):
            return None
        for call in calls:
            require_unaltered_call.require_call_unaltered(call)
        decisions = verify_calls_against_decisions.select_decisions_joined_for_signatures(store.using).filter(
            tool_call__in=calls, final=True
        )
        verify_calls_against_decisions.verify_decisions(decisions)
        actors = {decision.tool_call_id: decision.actor for decision in decisions.order_by(*Decision.IN_ORDER)}
        return [DecidedCall(call, actors.get(call.pk, "")) for call in calls]


def list_unanswered_tool_calls(store: Store, session_pk: int) -> list[ToolCall]:
    """List the calls of a session's tools that no saved version has answered, oldest first.

    Their texts are not read, unless there is a key of seals. Raises `IntegrityError` for a call that does not match its
    seal.
    """
    calls = _select_unanswered_tool_calls(session_pk).using(store.using)
    with database_operation(store.using, writes=False):
        if get_seal_keys() is None:
            return list(calls.defer("args", "result", "error_message", "sentence"))
        row_seals.verify_rows(calls)
        return list(calls)


def list_unanswered_calls_and_require_complete_log(store: Store, session_pk: int) -> list[ToolCall]:
    """List the same calls, and require that none of them is missing if there is a key of seals.

    A new operation runs because the log has none like it: so nobody may hide one. Raises `IntegrityError`.
    """
    keys = get_seal_keys()
    if keys is None:
        return list_unanswered_tool_calls(store, session_pk)
    with database_operation(store.using, writes=False):
        calls = ToolCall.objects.using(store.using).filter(session=session_pk)
        return call_log_tampering_detection.verify_all_rows_and_list_wanted(
            calls, session_pk, keys, _is_unanswered_tool_call
        )


def filter_call_ids_with_saved_result(store: Store, session_pk: int, call_ids: Iterable[str]) -> set[str]:
    """List those of the identifiers that name calls whose results a saved version has."""
    with database_operation(store.using, writes=False):
        calls = ToolCall.objects.using(store.using).filter(session=session_pk, call_id__in=list(call_ids))
        return set(calls.filter(answered_version__isnull=False).values_list("call_id", flat=True))


def _select_unanswered_tool_calls(session: int) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(
        session=session,
        key_policy__in=sorted(POLICIES_MATCHING_ARGUMENTS),
        key_scope=KeyScope.SESSION,
        answered_version__isnull=True,
    )
    return calls.order_by("pk")


def _is_unanswered_tool_call(call: ToolCall) -> bool:
    """Return whether `_select_unanswered_tool_calls` selects a call of its session."""
    is_matched = call.key_policy in POLICIES_MATCHING_ARGUMENTS and call.key_scope == KeyScope.SESSION
    return is_matched and call.answered_version is None


def collect_current_and_earlier_args_digests(store: Store, call: ToolCall) -> set[str]:
    """List the digests of a call's arguments: the current ones, and those it was requested with before an edit."""
    edits = verify_calls_against_decisions.select_decisions_joined_for_signatures(store.using).filter(
        tool_call=call, kind=DecisionKind.EDIT
    )
    verify_calls_against_decisions.verify_decisions(edits)
    previous_args = filter(None, (get_args_json_before_edit(edit.evidence) for edit in edits))
    asked_digests = {call.asked_args_digest} - {""}
    return {call.args_digest, *asked_digests, *(digests.digest_text(args) for args in previous_args)}
