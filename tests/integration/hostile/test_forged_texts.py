"""No page, export or answer of the HTTP API shows a text that somebody has put into a sealed column."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DatabaseError, models, transaction
from django.test import Client

from checkpoints.exceptions import IntegrityError
from checkpoints.models import (
    Checkpoint,
    Decision,
    Join,
    LateResult,
    PausedTask,
    PeerCall,
    Session,
    ToolCall,
    Workflow,
    WorkflowStep,
)
from harness_site.accounts.models import TokenRole
from harness_site.sessions.selectors.conversation_window import find_newest_transcript_version_upto_step
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import (
    create_sealed_session,
    plain,
    rolled_back,
)
from tests.support.api_client import make_token
from tests.support.exhaustive_mode import EXHAUSTIVE
from tests.support.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)

#: Short enough for each column.
MARK = "f0rged"
#: Pages that show records. A timeline, a list and the line about what a session waits for only name them.
_PAGES = (
    "",
    "versions/",
    "calls/",
    "compare/?a=1&b=2",
    "fork/",
    "plan/",
    "files/",
    "costs/",
    "workflows/",
    "peers/",
    "history/",
    "export/jsonl/",
    "export/html/",
    "export/print/",
)
_MODELS = (Checkpoint, ToolCall, Decision, LateResult, PausedTask, Join, PeerCall, Workflow, WorkflowStep)
#: Columns that the line above each page names, and those that the sums above the list of all calls name.
_NAMED_ABOVE = {"peer"}
_NAMED_IN_SUMS = {"tool"}
_ALL_CALLS = "/calls/"
_API = (
    *(
        "sessions/s",
        "sessions/s/versions",
        "sessions/s/versions/latest",
        "sessions/s/versions/2",
        "sessions/s/messages",
    ),
    *("sessions/s/calls", "sessions/s/calls/call_2", "sessions/s/peer-calls", "sessions/s/workflows"),
    *("sessions/s/workflows/books", "sessions/s/export", "sessions/s/preview", "sessions/s/gate"),
    *("completed-call?key=key+1+s", "completed-call?key=key+2+s", "pending", "sessions", "paused", "events"),
)


def _list_text_columns(model: Any) -> list[str]:
    fields = [model._meta.get_field(name) for name in model.sealed_fields]
    return [field.name for field in fields if isinstance(field, models.CharField | models.TextField)]


def _forge(value: str | None, limit: int | None) -> str:
    """Return another text with the mark, which is JSON if the value is."""
    try:
        parsed = json.loads(value or "")
    except ValueError:
        return MARK[:limit]
    return json.dumps({**parsed, "text": MARK} if isinstance(parsed, dict) else MARK, separators=(",", ":"))


def test_forged_text_is_shown_nowhere(open_checkpointer: Open, settings: Any) -> None:
    """Each sealed column of each table, in one session: each change is rolled back."""
    settings.HARNESS_SEAL_KEY = "5e" * 32
    create_sealed_session(open_checkpointer, "s")
    session = Session.objects.get(session_id="s")
    reader = Client()
    reader.force_login(make_user())
    token = {"Authorization": f"Bearer {make_token(TokenRole.AUDITOR)}"}
    calls = list(ToolCall.objects.filter(session=session).values_list("pk", flat=True))
    pages = [f"/sessions/{session.pk}/{page}" for page in _PAGES]
    pages += [page.format(pk) for pk in calls for page in (f"/sessions/{session.pk}/calls/{{}}/", "/review/calls/{}/")]
    pages.append(_ALL_CALLS)
    requests: list[tuple[str, dict[str, str]]] = [(page, {}) for page in pages] + [
        (f"/api/v1/{path}", token) for path in _API
    ]
    columns = [(model, name) for model in _MODELS for name in _list_text_columns(model)]
    # Each column with a part of the pages, and each page with a part of the columns; all in an exhaustive run.
    step = 1 if EXHAUSTIVE else 32
    assert len(columns) >= step
    shown = []
    for number, (model, name) in enumerate(columns):
        shown += _find_forged_text(reader, session, model, name, requests[number % step :: step])
    assert shown == []


def _find_forged_text(
    reader: Client, session: Session, model: Any, name: str, requests: list[tuple[str, dict[str, str]]]
) -> list[str]:
    """Put a text into a column of a row, and return the pages that show it."""
    shown: list[str] = []
    row = plain(model).filter(session=session).order_by("pk").last()
    assert row is not None
    with rolled_back():
        forged = _forge(getattr(row, name), model._meta.get_field(name).max_length)
        try:
            with transaction.atomic():
                plain(model).filter(pk=row.pk).update(**{name: forged})
        except DatabaseError:
            return shown
        for page, headers in requests:
            answer = reader.get(page, headers=headers)
            content = b"".join(answer) if answer.streaming else answer.content
            expected = _NAMED_ABOVE | _NAMED_IN_SUMS if page == _ALL_CALLS else _NAMED_ABOVE
            if answer.status_code == 200 and MARK.encode() in content and name not in expected:
                shown.append(f"{model.__name__}.{name}: {page}")
    return shown


def test_transcript_of_an_altered_version_is_not_shown(open_checkpointer: Open, settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    create_sealed_session(open_checkpointer, "s")
    session = Session.objects.get(session_id="s")
    reader = Client()
    reader.force_login(make_user())
    page = f"/sessions/{session.pk}/?v=1"
    assert reader.get(page).status_code == 200
    assert find_newest_transcript_version_upto_step(session, 1) is not None
    plain(Checkpoint).filter(session=session, version=1).update(length=2)
    assert reader.get(page).status_code == 409
    with pytest.raises(IntegrityError):
        find_newest_transcript_version_upto_step(session, 1)
