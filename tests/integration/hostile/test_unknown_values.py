"""Stored values of a newer version: pages show them unchanged, and the library refuses them with an error."""

from contextlib import suppress

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.enums import Role
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import AuditEvent, Checkpoint, Decision, Join, PausedTask, PeerCall, Run, Session, ToolCall
from tests.support.client_login import sign_in
from tests.support.factories import make_user
from tests.support.hidden_character_texts import list_pages_of_session, make_hostile_session

pytestmark = pytest.mark.django_db

#: Columns with the name of a status, a kind, a reason or a role.
COLUMNS = {
    Session: ("status",),
    Run: ("status",),
    Checkpoint: ("phase",),
    ToolCall: ("reason", "key_policy", "key_scope", "risk"),
    Decision: ("kind", "actor_kind"),
    PausedTask: ("status",),
    Join: ("status",),
    PeerCall: ("status",),
    AuditEvent: ("kind", "actor_kind"),
}


def test_unknown_stored_value_does_not_break_a_page(client: Client) -> None:
    reader = sign_in(client, make_user(role=Role.ADMIN))
    session = make_hostile_session("plain text")
    for model, names in COLUMNS.items():
        model._default_manager.update(**dict.fromkeys(names, "newer"))
    failed = [address for address in list_pages_of_session(session) if reader.get(address).status_code >= 500]
    ToolCall.objects.update(status="newer")
    failed += [address for address in list_pages_of_session(session) if reader.get(address).status_code >= 500]
    exports = [f"/sessions/{session.pk}/export/{form}/" for form in ("html", "print", "jsonl")]
    for address in (*exports, "/sessions/export/", "/audit/export/", "/calls/export/"):
        response = reader.get(address)
        content = b"".join(response.streaming_content)  # type: ignore[attr-defined]
        if response.status_code >= 500 or b"not complete" in content or b'"complete": false' in content:
            failed.append(address)
    assert failed == []
    library, name = SyncCheckpointer(), session.session_id
    for use in (library.delete_session, library.preview_resume, library.pending_tool_calls, library.load_latest):
        with suppress(CheckpointsError):
            use(name)
