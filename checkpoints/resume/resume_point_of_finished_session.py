"""Resume point of a session that is finished, or is finished now because its last run had ended."""

from __future__ import annotations

from typing import Any

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import (
    CheckpointCorrupted,
)
from checkpoints.formats.canonical_json import parse_json
from checkpoints.integrity import quarantine
from checkpoints.loop_state.phase_details import RunTerminal
from checkpoints.models import Session
from checkpoints.resume.resume_point import EMPTY_VERSION, ResumePoint
from checkpoints.sessions import create_finish_release
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.versions import load_version


def load_resume_point_if_finished(store: Store, session_id: str) -> ResumePoint | None:
    """Load the stored end of a finished session; None while it is not finished. Raises `SessionNotFound`."""
    with quarantine.quarantine_on_integrity_error(store, session_id), database_operation(store.using, writes=False):
        session = look_up_and_lock_rows.get_session(store, session_id)
        look_up_and_lock_rows.require_not_quarantined(session)
        if not session.finished:
            return None
        latest = load_version.load_latest_version(store, session_id) or EMPTY_VERSION
    return ResumePoint(
        run=None,
        transcript=latest["transcript"],
        plan=latest["plan"],
        budget_spent_usd=latest["budget_spent_usd"],
        usage=latest["usage"],
        version=latest["version"],
        finished=True,
        result=_parse_session_result(session),
    )


def _parse_session_result(session: Session) -> Any:
    try:
        return None if session.result is None else parse_json(session.result)
    except ValueError as error:
        raise CheckpointCorrupted(session.session_id, "the result of the session", str(error)) from error


def finish_session_of_ended_run(store: Store, owned_session: OwnedSession, end: RunTerminal) -> ResumePoint:
    """Finish the session of a run that had ended and whose process died before it could finish the session."""
    create_finish_release.finish_session(store, owned_session.session_id, end.state, end.terminal_result)
    point = load_resume_point_if_finished(store, owned_session.session_id)
    assert point is not None  # noqa: S101 - it has just been finished
    return point
