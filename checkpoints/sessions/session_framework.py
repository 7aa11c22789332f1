"""Framework of a session: the one whose adapter has written to it first. Only its adapters may continue the session.

Each framework stores messages and states in a form of its own, so neither of two that write to one session could read
it. The metadata of the session name the framework, also in its forks and session files.
"""

from __future__ import annotations

from checkpoints.db.database_error_translation import database_operation
from checkpoints.exceptions import SessionOfOtherFramework
from checkpoints.formats.canonical_json import parse_json_or_return_text, to_canonical_json
from checkpoints.ids import validate_id
from checkpoints.models import Session, ToolCall
from checkpoints.sessions import create_finish_release
from checkpoints.sessions.new_session_fields import FRAMEWORK_MARK, NewSessionFields
from checkpoints.store.database_client_state import Store


def is_marked_for_framework(row: Session, framework: str) -> bool:
    """Return whether the metadata of a session name a framework. An empty name stands for any."""
    return not framework or get_framework(row) == framework


def mark_or_require_session_of_framework(store: Store, row: Session, framework: str) -> None:
    """Require that a session is one of a framework. One without messages and calls becomes one.

    Args:
        store: State of the client.
        row: Session. It gets the new metadata.
        framework: Name of the framework; empty for any.

    Raises:
        SessionOfOtherFramework: The session is one of another framework, or has messages or calls and is one of none.
    """
    if is_marked_for_framework(row, framework):
        return
    _raise_if_written_by_others(store, row, framework)
    described = parse_json_or_return_text(row.metadata)
    mark = {FRAMEWORK_MARK: {"framework": framework}}
    marked = to_canonical_json({**(described if isinstance(described, dict) else {}), **mark}, "metadata")
    sessions = Session.objects.using(store.using)
    # Of two frameworks that begin a session at the same time, one finds other metadata than it has read.
    if sessions.filter(pk=row.pk, metadata=row.metadata, latest_version=0).update(metadata=marked):
        row.metadata = marked
        return
    row = sessions.get(pk=row.pk)
    if not is_marked_for_framework(row, framework):
        raise SessionOfOtherFramework(row.session_id, get_framework(row), framework)


def create_or_require_session_of_framework(store: Store, session_id: str, description: NewSessionFields) -> None:
    """Create a session of a framework, or require that an existing one is one, before a run owns it.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist, with the framework.

    Raises:
        SessionOfOtherFramework: The session is one of another framework, or has messages or calls and is one of none.
    """
    row = _find_session(store, session_id)
    if row is None:
        create_finish_release.create_session_if_missing(store, session_id, description)
        row = _find_session(store, session_id)
    if row is not None and not is_marked_for_framework(row, description.framework):
        with database_operation(store.using):
            mark_or_require_session_of_framework(store, row, description.framework)


def require_no_session_of_other_framework(store: Store, session_id: str, framework: str) -> None:
    """Require that a session does not exist, or that a framework may begin or continue it. Nothing is written.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        framework: Name of the framework.

    Raises:
        SessionOfOtherFramework: The session is one of another framework, or has messages or calls and is one of none.
    """
    row = _find_session(store, session_id)
    if row is not None and not is_marked_for_framework(row, framework):
        with database_operation(store.using, writes=False):
            _raise_if_written_by_others(store, row, framework)


def _raise_if_written_by_others(store: Store, row: Session, framework: str) -> None:
    found = get_framework(row)
    if found or row.latest_version or ToolCall.objects.using(store.using).filter(session=row).exists():
        raise SessionOfOtherFramework(row.session_id, found, framework)


def get_framework(row: Session) -> str:
    """Return the name of the framework of a session; empty if its metadata name none."""
    if FRAMEWORK_MARK not in row.metadata:
        return ""
    described = parse_json_or_return_text(row.metadata)
    mark = described.get(FRAMEWORK_MARK) if isinstance(described, dict) else None
    framework = mark.get("framework") if isinstance(mark, dict) else None
    return framework if isinstance(framework, str) else ""


def _find_session(store: Store, session_id: str) -> Session | None:
    sessions = Session.objects.using(store.using).filter(
        workspace_id=store.workspace_id, session_id=validate_id("session id", session_id)
    )
    with database_operation(store.using, writes=False):
        return sessions.only("pk", "session_id", "metadata", "latest_version").first()
