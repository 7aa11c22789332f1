"""Attach a run to this process again whose own process has ended; the HTTP API has one process for many runs."""

from __future__ import annotations

from django.db import transaction

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    CallStatus,
    KeyPolicy,
    RunStatus,
)
from checkpoints.exceptions import (
    OwnershipLost,
    SessionFinished,
)
from checkpoints.integrity import quarantine, verify_session_rows
from checkpoints.models import ToolCall
from checkpoints.resume import resume_plan
from checkpoints.resume.resume_plan import PREVIEW_MESSAGE_COUNT, TranscriptTail
from checkpoints.resume.resume_point import EMPTY_VERSION
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.versions import load_run_phase_and_snapshot, load_version, save_version


def reattach_run(store: Store, session_id: str, fence: int) -> OwnedSession:
    """Hold a session again whose run belongs to this store's token, after the process that held it has ended.

    Raises `SessionNotFound`, `SessionFinished`, `IntegrityError`, and `OwnershipLost` if another run has taken the
    session since.
    """
    with (
        quarantine.quarantine_on_integrity_error(store, session_id),
        database_operation(store.using, writes=False),
        transaction.atomic(using=store.using),
    ):
        session = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        if session.finished:
            raise SessionFinished(session_id, session.status)
        run = session.owner
        if run is None or session.fence != fence or run.owner_token != store.token:
            raise OwnershipLost(session_id)
        owned_session = OwnedSession(
            session.pk,
            session_id,
            run,
            fence,
            session.key_space,
            save_version.get_session_transcript_head(session),
            newest_head=(session.head_number, None if session.row_seal is None else bytes(session.row_seal)),
            live_keys=verify_session_rows.verify_records_and_hash_live_call_keys(store.using, session),
            at_gate=run.status == RunStatus.WAITING,
        )
        latest = (
            load_version.load_latest_version_with_last_messages(store, session_id, PREVIEW_MESSAGE_COUNT)
            or EMPTY_VERSION
        )
        position = load_run_phase_and_snapshot.load_run_position_after_version(store, session_id, session.pk, latest)
        first = latest.get("message_count", 0) - len(latest["transcript"])
        plan = resume_plan.plan_resume(store, session, TranscriptTail(latest["transcript"], position.pending, first))
        owned_session.open_calls = dict(plan.open)
        for call in ToolCall.objects.using(store.using).filter(session=session, run=run, answered_version=None):
            if call.key_policy == KeyPolicy.UNANSWERED:
                owned_session.operations.restore_pairing(call)
            if call.status == CallStatus.ISSUED:  # its process reports the outcome
                store.issued.add(call.pk)
                store.executing.add(call.pk)
    store.add_owned_session(owned_session)
    return owned_session
