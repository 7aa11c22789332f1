"""Seals of tool call rows that hot statements write without the ORM.

A statement that changes a call has to know all of its sealed columns. A run remembers the calls it issues: the columns
that change, and the beginning of the seal, over those that do not. So reporting an outcome, or answering a call in a
version, reads nothing; other calls are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from checkpoints.db import clock
from checkpoints.db.hot_statements import AnsweredCall
from checkpoints.enums import POLICIES_MATCHING_ARGUMENTS, SETTLED_CALL_STATUSES, CallStatus, KeyScope
from checkpoints.models import ToolCall
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import SealKeys, get_seal_keys
from checkpoints.seals.session_heads import RowChanges
from checkpoints.store.client_state import ChangingCallColumns, OwnedSession, SealedCall

#: Values of the stable columns that the statement which issues a call does not set.
_NEW_CALL: dict[str, Any] = {"sentence_template": "", "allowed_decisions": ""}
_select_changing_columns = itemgetter(*ChangingCallColumns._fields)
#: Largest number of calls that a run remembers.
_MAX_REMEMBERED_CALLS = 512


def seal_new_call(keys: SealKeys, place: Mapping[str, Any], values: Mapping[str, Any]) -> SealedCall:
    """Return a call that is issued with `values`, with its seal. `place` is its workspace, session and step."""
    start = row_seals.start_row_seal(keys, ToolCall, {**_NEW_CALL, **values, **place})
    columns = ChangingCallColumns(values["status"])
    seal = row_seals.finish_row_seal(start, columns)
    return SealedCall(columns, seal, start, values["run"], values["idempotency_key"], _is_answerable(values))


def _is_answerable(columns: Mapping[str, Any]) -> bool:
    """Return whether a version answers a call once it is settled."""
    return columns["key_policy"] in POLICIES_MATCHING_ARGUMENTS and columns["key_scope"] == KeyScope.SESSION


class SealedOutcome(NamedTuple):
    """Outcome of a call: the columns that it changes, with the seal, and the call before and after it."""

    values: dict[str, Any]
    before: SealedCall
    after: SealedCall


def seal_outcome(
    using: str, owned_session: OwnedSession, keys: SealKeys, call_pk: int, values: dict[str, Any]
) -> SealedOutcome | None:
    """Return the `values` of an outcome with their seal; None if the call is not issued by this run any more.

    Raises `IntegrityError` for a call that does not match its seal.
    """
    before = owned_session.sealed_calls.pop(call_pk, None) or _load_and_verify_calls(using, keys, [call_pk]).get(
        call_pk
    )
    if before is None or (before.columns.status, before.run_id) != (CallStatus.ISSUED, owned_session.run_id):
        return None
    known, now = before.columns, clock.now()
    is_interrupted = values["status"] == CallStatus.INTERRUPTED
    columns = ChangingCallColumns(
        values["status"],
        values.get("reason", known.reason),
        values.get("result", known.result),
        values.get("result_digest", known.result_digest),
        values.get("error_type", known.error_type),
        known.revision + 1,
        now if is_interrupted else known.interrupted_at,
        known.settled_at if is_interrupted else now,
        known.answered_version,
        call_pk,
    )
    seal = row_seals.finish_row_seal(before.start, columns)
    values = {**values, "interrupted_at" if is_interrupted else "settled_at": now, "row_seal": seal}
    return SealedOutcome(values, before, SealedCall(columns, seal, *before[2:]))


@dataclass
class AnsweredCalls:
    """Calls that a version answers, and the rows that this replaces in the session's sum, if sealing is on."""

    rows: list[AnsweredCall] = field(default_factory=list)
    changes: RowChanges = field(default_factory=RowChanges)


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
        known |= _load_and_verify_calls(using, keys, [pk for pk in call_pks if pk not in known])
    answered = AnsweredCalls()
    for pk in call_pks:
        call = known.get(pk)
        if call is None or not _is_settled_and_unanswered(call.columns):
            continue
        seal = row_seals.finish_row_seal(call.start, call.columns._replace(answered_version=version))
        answered.rows.append(AnsweredCall(pk, call.columns.revision, seal))
        answered.changes.add(ToolCall, call.seal, seal)
    return answered


def _is_settled_and_unanswered(columns: ChangingCallColumns) -> bool:
    return columns.status in SETTLED_CALL_STATUSES and columns.answered_version is None


def cache_sealed_call(owned_session: OwnedSession, call_pk: int, call: SealedCall) -> None:
    """Remember a call of this run for as long as a hot statement may still change it."""
    calls, status = owned_session.sealed_calls, call.columns.status
    if status != CallStatus.ISSUED and not (call.is_answerable and status in SETTLED_CALL_STATUSES):
        return  # people decide about it, or no version will answer it
    calls[call_pk] = call
    if len(calls) > _MAX_REMEMBERED_CALLS:
        calls.popitem(last=False)


def remove_cached_calls(owned_session: OwnedSession, call_pks: Sequence[int]) -> None:
    for pk in call_pks:
        owned_session.sealed_calls.pop(pk, None)


def _load_and_verify_calls(using: str, keys: SealKeys, call_pks: Sequence[int]) -> dict[int, SealedCall]:
    """Read calls, by key, and verify them."""
    calls = {}
    for call in ToolCall.objects.using(using).filter(pk__in=call_pks):
        row_seals.verify_row(call)
        columns = row_seals.read_sealed_columns(call)
        calls[call.pk] = SealedCall(
            ChangingCallColumns._make(_select_changing_columns(columns)),
            None if call.row_seal is None else bytes(call.row_seal),
            row_seals.start_row_seal(keys, ToolCall, columns),
            call.run_id,
            call.idempotency_key,
            _is_answerable(columns),
        )
    return calls
