"""Seals of tool call rows that hot statements write without the ORM.

A statement that changes a call has to know all of its sealed columns. A run remembers the calls it issues: the columns
that change, and the beginning of the seal, over those that do not. So reporting an outcome, or answering a call in a
version, reads nothing; other calls are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any

from checkpoints import call_transitions_by_agent_or_system
from checkpoints.db import clock
from checkpoints.db.hot_statements import AnsweredCall
from checkpoints.enums import POLICIES_MATCHING_ARGUMENTS, SETTLED_CALL_STATUSES, CallStatus, KeyScope
from checkpoints.models import ToolCall
from checkpoints.seals import row_seals, session_heads
from checkpoints.seals.seal_keys import SealKeys, get_seal_keys
from checkpoints.store.checkpointer_state import ChangingCallColumns, OwnedSession, SealedCall

#: Values of the columns that the statement which issues a call does not set.
_NEW_CALL: dict[str, Any] = {"sentence_template": "", "allowed_decisions": ""}
_ISSUED = ChangingCallColumns(call_transitions_by_agent_or_system.ISSUE.after)
_select_changing_columns = itemgetter(*ChangingCallColumns._fields)
#: Largest number of calls that a run remembers.
_MAX_REMEMBERED_CALLS = 512


def build_new_sealed_call(keys: SealKeys, place: Mapping[str, Any], values: Mapping[str, Any]) -> SealedCall:
    """Return a call that is issued with `values`, with its seal. `place` is its workspace, session and step."""
    sealer = row_seals.get_row_sealer_of_key(keys.current, ToolCall)
    start = sealer.start_seal_with_stable_columns({**_NEW_CALL, **values, **place})
    seal = sealer.finish_seal_with_changing_columns(start, _ISSUED)
    term = session_heads.compute_row_sum_term(keys, ToolCall, seal)
    is_answerable = _can_version_answer_call(values["key_policy"], values["key_scope"])
    return SealedCall(_ISSUED, seal, term, start, values["run"], values["idempotency_key"], is_answerable)


@cache
def _can_version_answer_call(key_policy: str, key_scope: str) -> bool:
    """Return whether a version answers a call once it is settled."""
    return key_policy in POLICIES_MATCHING_ARGUMENTS and key_scope == KeyScope.SESSION


def pop_remembered_or_load_issued_call(
    using: str, owned_session: OwnedSession, keys: SealKeys, call_pk: int
) -> SealedCall | None:
    """Return a call before its outcome, which is not remembered any more; None if it is not issued by this run.

    Raises `IntegrityError` for a call that does not match its seal.
    """
    call = owned_session.sealed_calls.pop(call_pk, None) or _load_and_verify_sealed_calls(using, keys, [call_pk]).get(
        call_pk
    )
    if call is None or (call.columns.status, call.run_id) != (CallStatus.ISSUED, owned_session.run_id):
        return None
    return call


def build_sealed_outcome(
    keys: SealKeys, call_pk: int, before: SealedCall, values: dict[str, Any]
) -> tuple[dict[str, Any], int, SealedCall | None]:
    """Seal the outcome of a call.

    Args:
        keys: Configured keys.
        call_pk: Key of the call.
        before: The call as it was issued.
        values: Columns that the outcome changes.

    Returns:
        The columns with their time and seal, what the outcome adds to the sum of rows, and the call after it if a hot
        statement may still change it; None if people decide about it, or if no version will answer it.
    """
    known, now = before.columns, clock.now()
    is_interrupted = values["status"] == CallStatus.INTERRUPTED
    columns = (
        values["status"],
        values.get("reason", known.reason),
        values.get("result", known.result),
        values.get("result_digest", known.result_digest),
        values.get("error_type", known.error_type),
        values.get("error_message", known.error_message),
        known.revision + 1,
        now if is_interrupted else known.interrupted_at,
        known.settled_at if is_interrupted else now,
        known.answered_version,
        known.replay_count,
        call_pk,
    )
    seal = before.start.sealer.finish_seal_with_changing_columns(before.start, columns)
    term = session_heads.compute_row_sum_term(keys, ToolCall, seal)
    values = {**values, "interrupted_at" if is_interrupted else "settled_at": now, "row_seal": seal}
    is_final = not before.is_answerable or values["status"] not in SETTLED_CALL_STATUSES
    after = None if is_final else SealedCall(ChangingCallColumns._make(columns), seal, term, *before[3:])
    return values, term - before.term, after


@dataclass
class AnsweredCalls:
    """Calls that a version answers, and what this adds to the session's sum of rows, if sealing is on."""

    rows: list[AnsweredCall] = field(default_factory=list)
    difference: int = 0


def compute_answered_call_seals(
    using: str, owned_session: OwnedSession | None, call_pks: Sequence[int], version: int
) -> AnsweredCalls:
    """Return the calls that the version `version` answers, with their seals after that if sealing is on.

    Raises `IntegrityError` for a call that does not match its seal.
    """
    keys = get_seal_keys()
    if keys is None or not call_pks:
        return AnsweredCalls([AnsweredCall(pk) for pk in call_pks])
    remembered = {} if owned_session is None else owned_session.sealed_calls
    known = {pk: remembered[pk] for pk in call_pks if pk in remembered}
    if len(known) < len(call_pks):
        known |= _load_and_verify_sealed_calls(using, keys, [pk for pk in call_pks if pk not in known])
    answered = AnsweredCalls()
    for pk in call_pks:
        call = known.get(pk)
        if call is None or not _is_settled_without_answering_version(call.columns):
            continue
        seal = call.start.sealer.finish_seal_with_changing_columns(
            call.start, call.columns._replace(answered_version=version)
        )
        answered.rows.append(AnsweredCall(pk, call.columns.revision, seal))
        answered.difference += session_heads.compute_row_sum_term(keys, ToolCall, seal) - call.term
    return answered


def _is_settled_without_answering_version(columns: ChangingCallColumns) -> bool:
    return columns.status in SETTLED_CALL_STATUSES and columns.answered_version is None


def remember_sealed_call(owned_session: OwnedSession, call_pk: int, call: SealedCall) -> None:
    """Remember a call of this run that a hot statement may still change."""
    calls = owned_session.sealed_calls
    calls[call_pk] = call
    if len(calls) > _MAX_REMEMBERED_CALLS:
        calls.popitem(last=False)


def forget_sealed_calls(owned_session: OwnedSession, call_pks: Sequence[int]) -> None:
    for pk in call_pks:
        owned_session.sealed_calls.pop(pk, None)


def _load_and_verify_sealed_calls(using: str, keys: SealKeys, call_pks: Sequence[int]) -> dict[int, SealedCall]:
    """Read calls, by key, and verify them."""
    calls, sealer = {}, row_seals.get_row_sealer_of_key(keys.current, ToolCall)
    for call in ToolCall.objects.using(using).filter(pk__in=call_pks):
        row_seals.verify_row(call)
        columns = row_seals.get_sealed_values_by_field(call)
        seal = None if call.row_seal is None else bytes(call.row_seal)
        calls[call.pk] = SealedCall(
            ChangingCallColumns._make(_select_changing_columns(columns)),
            seal,
            session_heads.compute_row_sum_term(keys, ToolCall, seal) if seal else 0,
            sealer.start_seal_with_stable_columns(columns),
            call.run_id,
            call.idempotency_key,
            _can_version_answer_call(call.key_policy, call.key_scope),
        )
    return calls
