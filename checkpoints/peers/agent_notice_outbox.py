"""Outbox of notices to other agents: requests that are not sent yet, and cancellations of calls.

A notice is stored in the transaction that makes it due and deleted when it has been delivered. A process that claims a
notice has a limited time to deliver it; then any process may claim it again. So each is delivered at least once,
through any crash.

A call that was altered is not sent, and its session is put under quarantine. The notices of such a session wait until
it is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from checkpoints.db import clock
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.integrity import quarantine
from checkpoints.models import PeerCall
from checkpoints.peers import nested_secret_encryption
from checkpoints.peers.agent_call_and_result_types import Notice
from checkpoints.seals import row_seals
from checkpoints.store.database_client_state import Store

#: Time for which a notice is reserved for the process that claimed it.
CLAIM_DURATION = timedelta(seconds=30)
#: Pause after a failed attempt, doubled after each further one, up to the last.
FIRST_RETRY_PAUSE = timedelta(seconds=1)
LONGEST_RETRY_PAUSE = timedelta(hours=1)


@dataclass(frozen=True)
class DatabaseOutbox:
    """Due notices of a workspace; with `session_pk` those of one session."""

    store: Store
    session_pk: int | None = None

    def claim_notices(self, limit: int) -> tuple[list[Notice], dict[str, str]]:
        """Claim due notices, verify the seals of their calls, and decrypt them.

        Returns the notices, and the error by call id of those that cannot be read: these are postponed, and the session
        of an altered one is put under quarantine.
        """
        notices: list[Notice] = []
        errors: dict[str, str] = {}
        for call in _claim_calls_with_due_notices(self.store, limit, self.session_pk):
            try:
                with quarantine.quarantine_on_integrity_error(self.store, call.session.session_id):
                    notices.append(_verify_call_and_decrypt_notice(call))
            except Exception as error:
                errors[call.call_id] = f"{type(error).__name__}: {error}"
                _postpone_notice(self.store, call.call_id, call.notice, call.tell_attempts)
        return notices, errors

    def delete_or_postpone_notice(self, notice: Notice, *, delivered: bool) -> None:
        delete_or_postpone_notice(self.store, notice.call_id, notice.kind, notice.attempt, delivered=delivered)


def delete_or_postpone_notice(store: Store, call_id: str, kind: str, attempt: int, *, delivered: bool) -> None:
    """Delete a notice that was delivered; let another one stay due. One that was replaced meanwhile stays as it is."""
    (_delete_notice if delivered else _postpone_notice)(store, call_id, kind, attempt)


def _claim_calls_with_due_notices(store: Store, limit: int, session_pk: int | None) -> list[PeerCall]:
    with database_operation(store.using):
        calls = PeerCall.objects.using(store.using).filter(workspace_id=store.workspace_id, tell_after__lte=Now())
        calls = calls.filter(session__quarantined_at=None).exclude(notice="")
        if session_pk is not None:
            calls = calls.filter(session_id=session_pk)
        if not calls.exists():  # a round that finds nothing to do writes nothing
            return []
        with transaction.atomic(using=store.using):
            due_calls = calls.select_for_update(skip_locked=True, of=("self",)).select_related("session")
            return [_mark_notice_claimed(store, call) for call in due_calls.order_by("tell_after", "pk")[:limit]]


def _mark_notice_claimed(store: Store, call: PeerCall) -> PeerCall:
    call.tell_attempts += 1
    PeerCall.objects.using(store.using).filter(pk=call.pk).update(
        tell_attempts=call.tell_attempts, tell_after=clock.build_database_time_after(CLAIM_DURATION)
    )
    return call


def _verify_call_and_decrypt_notice(call: PeerCall) -> Notice:
    row_seals.verify_rows([call.session, call])
    session_id = call.session.session_id
    request = nested_secret_encryption.parse_json_and_decrypt_nested_secrets(
        call.request, session_id, f"request of {call.call_id}"
    )
    return Notice(call.notice, session_id, call.call_id, call.peer, request, call.deadline, call.tell_attempts)


def _delete_notice(store: Store, call_id: str, kind: str, attempt: int) -> None:
    with database_operation(store.using):
        _select_call_with_unchanged_notice(store, call_id, kind, attempt).update(notice="", tell_after=None)


def _postpone_notice(store: Store, call_id: str, kind: str, attempt: int) -> None:
    pause = min(FIRST_RETRY_PAUSE * 2 ** min(attempt - 1, 20), LONGEST_RETRY_PAUSE)
    with database_operation(store.using):
        calls = _select_call_with_unchanged_notice(store, call_id, kind, attempt)
        calls.update(tell_after=clock.build_database_time_after(pause))


def _select_call_with_unchanged_notice(store: Store, call_id: str, kind: str, attempt: int) -> QuerySet[PeerCall]:
    """Select the call unless its notice has been replaced by another one meanwhile, which then stays."""
    return PeerCall.objects.using(store.using).filter(
        workspace_id=store.workspace_id, call_id=call_id, notice=kind, tell_attempts=attempt
    )
