"""An interrupted call and its card."""

from datetime import timedelta

from django.test import Client

from checkpoints.enums import RunStatus, SessionStatus
from checkpoints.models import Run, ToolCall
from tests.support.factories import THEN, make_call, make_checkpoint, make_messages, make_run, make_session
from tests.support.page_text import visible_text


def lost_call(*, session_id: str = "order-17", **fields: object) -> ToolCall:
    """Create a call whose run was lost 3.4 s after the intent; run 2 owns the session and waits."""
    session = make_session(session_id=session_id, status=SessionStatus.NEEDS_REVIEW)
    make_messages(session=session, texts=["The lamp arrived broken.", "I am sending **40.00 EUR** back."])
    first = make_run(session=session, status=RunStatus.LOST, ended_at=THEN + timedelta(seconds=3.4))
    Run.objects.filter(pk=first.pk).update(heartbeat_at=THEN)
    first.refresh_from_db()
    make_checkpoint(session=session, run=first)
    second = make_run(session=session, status=RunStatus.WAITING, host="worker-1", pid=88)
    Run.objects.filter(pk=second.pk).update(started_at=THEN + timedelta(seconds=3.5))
    return make_call(session=session, run=first, step=1, **fields)  # type: ignore[arg-type]


def page(client: Client, call: ToolCall, query: str = "") -> str:
    return visible_text(client.get(f"/review/calls/{call.pk}/{query}"))


def raw(client: Client, call: ToolCall) -> str:
    return client.get(f"/review/calls/{call.pk}/").content.decode()
