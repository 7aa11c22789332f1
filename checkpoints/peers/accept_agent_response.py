"""Acceptance of another agent's response: one transaction matches it to its call, stores and counts it, deletes
nothing."""

from __future__ import annotations

import hmac
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.db.translate_errors_and_return_connections import (
    database_operation,
    open_transaction_to_read_back_lost_commit,
)
from checkpoints.enums import FINISHED_SESSION_STATUSES, AuditKind, PeerCallStatus
from checkpoints.exceptions import StorageUnavailable
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import EarlyResponse, PeerCall, Session
from checkpoints.peers import agent_call_join_counters, lock_and_answer_agent_calls
from checkpoints.peers.response_acceptance_outcomes import (
    Accepted,
    Answer,
    Cancelled,
    Duplicate,
    Early,
    Foreign,
    Late,
    Unknown,
)
from checkpoints.seals import row_seals, sealed_model
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.sessions import peer_pause_blocking_and_closing
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store


@dataclass(frozen=True)
class PeerResponse:
    """Response as it was given. Fields that are None are not checked, except a token that the call requires."""

    call_id: str
    result: str
    session_id: str | None
    peer: str | None
    token: str | None
    #: Name of this acceptance, stored on the call it settles.
    receipt: str

    @classmethod
    def from_arguments(
        cls,
        call_id: str,
        result: Any,
        session_id: str | None,
        peer: str | None,
        token: str | None,
        receipt: str | None = None,
    ) -> PeerResponse:
        """Check the arguments. With the `receipt` of an earlier attempt its outcome is found again."""
        if session_id is not None:
            validate_id("session id", session_id)
        if peer is not None:
            validate_id("peer", peer)
        text = to_canonical_json(result, "result")
        return cls(validate_id("peer call id", call_id), text, session_id, peer, token, receipt or uuid.uuid4().hex)

    def is_from_wrong_sender(self, call: PeerCall) -> bool:
        if self.session_id not in (None, call.session.session_id) or self.peer not in (None, call.peer):
            return True
        return call.token_digest != "" and not hmac.compare_digest(call.token_digest, digests.digest_token(self.token))


def accept_response(store: Store, response: PeerResponse) -> Answer:
    """Accept `response` and return its outcome, which is durable then. Any number of processes may accept any
    response."""
    try:
        with database_operation(store.using), transaction.atomic(using=store.using):
            return _accept_response_in_transaction(store, response)
    except StorageUnavailable as error:
        return _read_acceptance_after_lost_commit(store, response, error)


def _accept_response_in_transaction(store: Store, response: PeerResponse) -> Answer:
    call = _find_and_verify_agent_call(store, response.call_id)
    if call is None:
        lock_and_answer_agent_calls.lock_call_ids(connections[store.using], store.workspace_id, [response.call_id])
        call = _find_and_verify_agent_call(store, response.call_id)
    if call is None:
        return _store_early_response_unless_session_finished(store, response)
    # The session's row is the lock of all changes of its calls.
    row = Session.objects.using(store.using).select_for_update().filter(pk=call.session_id).first()
    call = _find_and_verify_agent_call(store, response.call_id)
    if row is None or call is None:  # the session was deleted meanwhile
        return Unknown(response.call_id)
    if response.is_from_wrong_sender(call):
        return Foreign(response.call_id, row.session_id)
    return _answer_call_or_store_late_response(store, row, call, response)


def _find_and_verify_agent_call(store: Store, call_id: str) -> PeerCall | None:
    calls = PeerCall.objects.using(store.using).filter(workspace_id=store.workspace_id, call_id=call_id)
    call = calls.select_related("session", "join").first()
    if call is not None:
        row_seals.verify_rows([call, call.join])
    return call


def _answer_call_or_store_late_response(store: Store, row: Session, call: PeerCall, response: PeerResponse) -> Answer:
    if lock_and_answer_agent_calls.write_result_of_open_agent_call(store, call, response.result, response.receipt):
        complete = agent_call_join_counters.add_closed_calls_and_complete_join_if_last(
            store, call.join, 1, response.receipt
        )
        look_up_and_lock_rows.increment_session_revision(store, row.pk)
        return _build_acceptance(call, complete)
    if call.status == PeerCallStatus.ANSWERED:
        if call.receipt == response.receipt:
            return _build_acceptance(call, call.join.completed_by == response.receipt)
        ready = (
            peer_pause_blocking_and_closing.select_complete_unsaved_joins(store, row).filter(pk=call.join_id).exists()
        )
        return Duplicate(call.call_id, row.session_id, same=call.result == response.result, ready=ready)
    if call.status == PeerCallStatus.EXPIRED:
        if _store_late_response(store, call, response):
            look_up_and_lock_rows.increment_session_revision(store, row.pk)
        return Late(call.call_id, row.session_id, call.deadline)
    return Cancelled(call.call_id, row.session_id)


def _build_acceptance(call: PeerCall, complete: bool) -> Accepted:
    join = call.join
    return Accepted(call.call_id, call.session.session_id, join.join_id, complete, join.completed, join.total)


def _store_late_response(store: Store, call: PeerCall, response: PeerResponse) -> bool:
    unanswered_call = PeerCall.objects.using(store.using).filter(pk=call.pk, late_at=None)
    if not unanswered_call.update(late_result=response.result, late_at=Now(), notice="", tell_after=None):
        return False
    insert_unchained_events.record_event(
        store, AuditKind.LATE_RESPONSE, session_pk=call.session_id, actor=call.peer, peer_call=call.call_id
    )
    return True


def _store_early_response_unless_session_finished(store: Store, response: PeerResponse) -> Unknown:
    """Keep a response to a call that does not exist yet, unless no pause can create it any more."""
    if response.session_id is not None and not _is_session_unfinished(store, response.session_id):
        return Unknown(response.call_id)
    peer, token = response.peer or "", digests.digest_token(response.token)
    # A seal covers the time, which the database would give at the insert.
    received_at = {} if get_seal_keys() is None else {"received_at": clock.read_database_time(store.using)}
    row = EarlyResponse(
        workspace_id=store.workspace_id,
        call_id=response.call_id,
        peer=peer,
        token_digest=token,
        result=response.result,
        digest=digests.digest_key_parts(peer, token, response.result),
        **received_at,
    )
    sealed_model.seal_unsaved_rows_and_compute_sum([row])
    EarlyResponse.objects.using(store.using).bulk_create([row], ignore_conflicts=True)
    return Early(response.call_id)


def _is_session_unfinished(store: Store, session_id: str) -> bool:
    sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id, session_id=session_id)
    return sessions.exclude(status__in=sorted(FINISHED_SESSION_STATUSES)).exists()


def _read_acceptance_after_lost_commit(store: Store, response: PeerResponse, error: StorageUnavailable) -> Answer:
    """Read back after a commit whose answer was lost: the receipt tells whether this response was the one that
    counted."""
    with open_transaction_to_read_back_lost_commit(store.using, error):
        call = _find_and_verify_agent_call(store, response.call_id)
    if call is None or call.receipt != response.receipt:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return _build_acceptance(call, call.join.completed_by == response.receipt)
