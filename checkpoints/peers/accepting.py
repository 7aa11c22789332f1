"""Accepting another agent's response: one transaction matches it to its call, stores and counts it, deletes nothing."""

from __future__ import annotations

import hmac
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction
from django.db.models.functions import Now

from checkpoints.enums import FINISHED_SESSION, AuditKind, PeerCallStatus
from checkpoints.exceptions import StorageUnavailable
from checkpoints.ids import checked
from checkpoints.models import EarlyResponse, PeerCall, Session
from checkpoints.peers import counting, pausing, sealing, turnstile
from checkpoints.peers.answers import Accepted, Answer, Cancelled, Duplicate, Early, Foreign, Late, Unknown
from checkpoints.saving import audit, pauses
from checkpoints.saving.operations import operation, reading_back
from checkpoints.saving.store import Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical


@dataclass(frozen=True)
class Response:
    """A response as it was given. What is None was not said and is not checked, but for a token that is asked for."""

    call_id: str
    result: str
    session_id: str | None
    peer: str | None
    token: str | None
    #: Names this acceptance: left on the call it settles.
    receipt: str

    @classmethod
    def of(cls, call_id: str, result: Any, session_id: str | None, peer: str | None, token: str | None) -> Response:
        if session_id is not None:
            checked("session id", session_id)
        if peer is not None:
            checked("peer", peer)
        text = canonical(result, "result")
        return cls(checked("peer call id", call_id), text, session_id, peer, token, uuid.uuid4().hex)

    def foreign_to(self, call: PeerCall) -> bool:
        if self.session_id not in (None, call.session.session_id) or self.peer not in (None, call.peer):
            return True
        return call.token_digest != "" and not hmac.compare_digest(call.token_digest, sealing.token_digest(self.token))


def accept(store: Store, response: Response) -> Answer:
    """What became of `response`; durable when this returns. Any number of processes may be given any response."""
    try:
        with operation(store.using), transaction.atomic(using=store.using):
            return _accept(store, response)
    except StorageUnavailable as error:
        return _read_back(store, response, error)


def _accept(store: Store, response: Response) -> Answer:
    call = _find(store, response.call_id)
    if call is None:
        turnstile.pass_one_by_one(connections[store.using], store.workspace_id, [response.call_id])
        call = _find(store, response.call_id)
    if call is None:
        return _early(store, response)
    # The session's row is the lock of everything that happens to its calls.
    row = Session.objects.using(store.using).select_for_update().filter(pk=call.session_id).first()
    call = _find(store, response.call_id)
    if row is None or call is None:  # the session was deleted meanwhile
        return Unknown(response.call_id)
    if response.foreign_to(call):
        return Foreign(response.call_id, row.session_id)
    return _answer(store, row, call, response)


def _find(store: Store, call_id: str) -> PeerCall | None:
    calls = PeerCall.objects.using(store.using).filter(workspace_id=store.workspace_id, call_id=call_id)
    return calls.select_related("session", "join").first()


def _answer(store: Store, row: Session, call: PeerCall, response: Response) -> Answer:
    if pausing.settle(store, call, response.result, response.receipt):
        complete = counting.count(store, call.join, 1, response.receipt)
        pauses.touch(store, row)
        return _accepted(call, complete)
    if call.status == PeerCallStatus.ANSWERED:
        ready = pauses.takeable(store, row).filter(pk=call.join_id).exists()
        return Duplicate(call.call_id, row.session_id, same=call.result == response.result, ready=ready)
    if call.status == PeerCallStatus.EXPIRED:
        if _keep_late(store, call, response):
            pauses.touch(store, row)
        return Late(call.call_id, row.session_id, call.deadline)
    return Cancelled(call.call_id, row.session_id)


def _accepted(call: PeerCall, complete: bool) -> Accepted:
    join = call.join
    return Accepted(call.call_id, call.session.session_id, join.join_id, complete, join.completed, join.total)


def _keep_late(store: Store, call: PeerCall, response: Response) -> bool:
    first = PeerCall.objects.using(store.using).filter(pk=call.pk, late_at=None)
    if not first.update(late_result=response.result, late_at=Now(), notice="", tell_after=None):
        return False
    audit.record(store, AuditKind.LATE_RESPONSE, session_pk=call.session_id, actor=call.peer, peer_call=call.call_id)
    return True


def _early(store: Store, response: Response) -> Unknown:
    """Keep a response to a call that nobody has made yet, unless nobody can make it any more."""
    if response.session_id is not None and not _may_pause(store, response.session_id):
        return Unknown(response.call_id)
    peer, token = response.peer or "", sealing.token_digest(response.token)
    EarlyResponse.objects.using(store.using).bulk_create(
        [
            EarlyResponse(
                workspace_id=store.workspace_id,
                call_id=response.call_id,
                peer=peer,
                token_digest=token,
                result=response.result,
                digest=digests.key_digest(peer, token, response.result),
            )
        ],
        ignore_conflicts=True,
    )
    return Early(response.call_id)


def _may_pause(store: Store, session_id: str) -> bool:
    sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id, session_id=session_id)
    return sessions.exclude(status__in=sorted(FINISHED_SESSION)).exists()


def _read_back(store: Store, response: Response, error: StorageUnavailable) -> Answer:
    """After a commit whose answer was lost: the receipt tells whether this response was the one that counted."""
    with reading_back(store.using, error):
        call = _find(store, response.call_id)
    if call is None or call.receipt != response.receipt:
        raise StorageUnavailable(error.what, may_have_happened=False) from error
    return _accepted(call, call.join.completed_by == response.receipt)
