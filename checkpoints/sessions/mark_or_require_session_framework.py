"""Framework of a session: the one whose adapter has begun it. Adapters of other frameworks may not continue it.

Each framework stores messages and states in a form of its own, so neither of two that write to one session could read
it. The metadata of the session name the framework, also in its forks and session files. A session that had a version
or a call before an adapter could mark it has no mark, stays without one, and is refused to nobody here: an agent
without an adapter has begun it, or an adapter of a version that set no marks.
"""

from __future__ import annotations

from django.db.models import QuerySet

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import SessionOfOtherFramework
from checkpoints.formats.canonical_json import parse_json_or_return_text, to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Session, ToolCall
from checkpoints.sessions import create_finish_release
from checkpoints.sessions.new_session_fields import FRAMEWORK_MARK, NewSessionFields
from checkpoints.store.database_client_state import Store


def may_framework_write_without_marking(row: Session, framework: str) -> bool:
    """Return whether a session is one of a framework already, or one that has a version and no mark."""
    found = get_framework(row)
    return found == framework or not framework or bool(not found and row.latest_version)


def mark_or_require_session_of_framework(store: Store, row: Session, framework: str) -> None:
    """Require that a session is not one of another framework. One without a mark, version and call becomes one of it.

    Args:
        store: State of the client.
        row: Session. It gets the new metadata.
        framework: Name of the framework; empty for any.

    Raises:
        SessionOfOtherFramework: The session is one of another framework.
    """
    _raise_if_marked_for_other_framework(row, framework)
    if may_framework_write_without_marking(row, framework):
        return
    sessions = Session.objects.using(store.using)
    # Of two frameworks that begin a session at the same time, one finds other metadata than it has read.
    if _has_calls(store, row) or not _try_write_framework_mark(sessions, row, framework):
        _raise_if_marked_for_other_framework(sessions.get(pk=row.pk), framework)


def _has_calls(store: Store, row: Session) -> bool:
    return ToolCall.objects.using(store.using).filter(session=row).exists()


def _try_write_framework_mark(sessions: QuerySet[Session], row: Session, framework: str) -> bool:
    """Mark a session without a version, unless somebody has changed it since it was read. Returns whether it did."""
    described = parse_json_or_return_text(row.metadata)
    mark = {FRAMEWORK_MARK: framework}
    marked = to_canonical_json({**(described if isinstance(described, dict) else {}), **mark}, "metadata")
    if not sessions.filter(pk=row.pk, metadata=row.metadata, latest_version=0).update(metadata=marked):
        return False
    row.metadata = marked
    return True


def create_or_require_session_of_framework(store: Store, session_id: str, description: NewSessionFields) -> None:
    """Create a session of a framework, or require that an existing one is not one of another, before a run owns it.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        description: Description of the session if it does not exist, with the framework.

    Raises:
        SessionOfOtherFramework: The session is one of another framework.
    """
    row = _find_session(store, session_id)
    if row is None:
        create_finish_release.create_session_if_missing(store, session_id, description)
        row = _find_session(store, session_id)
    if row is not None and not may_framework_write_without_marking(row, description.framework):
        with database_operation(store.using):
            mark_or_require_session_of_framework(store, row, description.framework)


def require_no_session_of_other_framework(store: Store, session_id: str, framework: str) -> None:
    """Require that a session is not one of another framework. It may not exist. Nothing is written.

    Args:
        store: State of the client.
        session_id: Identifier of the session.
        framework: Name of the framework.

    Raises:
        SessionOfOtherFramework: The session is one of another framework.
    """
    row = _find_session(store, session_id)
    if row is not None:
        _raise_if_marked_for_other_framework(row, framework)


def _raise_if_marked_for_other_framework(row: Session, framework: str) -> None:
    found = get_framework(row)
    if framework and found not in ("", framework):
        raise SessionOfOtherFramework(row.session_id, found, framework)


def get_framework(row: Session) -> str:
    """Return the name of the framework of a session; empty if its metadata name none."""
    if FRAMEWORK_MARK not in row.metadata:
        return ""
    described = parse_json_or_return_text(row.metadata)
    framework = described.get(FRAMEWORK_MARK) if isinstance(described, dict) else None
    return framework if isinstance(framework, str) else ""


def _find_session(store: Store, session_id: str) -> Session | None:
    sessions = Session.objects.using(store.using).filter(
        workspace_id=store.workspace_id, session_id=validate_id("session id", session_id)
    )
    with database_operation(store.using, writes=False):
        return sessions.only("pk", "session_id", "metadata", "latest_version").first()
