"""Transfer of a session through its file."""

from pathlib import Path

from checkpoints import SyncCheckpointer
from checkpoints.models import Session


def export_delete_and_import(cp: SyncCheckpointer, path: Path, session_id: str = "s") -> SyncCheckpointer:
    """Export a session, remove it, and import it again."""
    cp.export_session(session_id, path)
    cp.close()
    Session.objects.filter(session_id=session_id, status__in=["needs_review", "ready"]).update(status="active")
    cp.delete_session(session_id)
    assert Session.objects.filter(session_id=session_id).exists() is False
    assert cp.import_session(path).session_id == session_id
    return cp
