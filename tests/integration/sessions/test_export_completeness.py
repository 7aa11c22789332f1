"""Every export of every kind of session is complete, marked as complete, and has the content of its page."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.importers import import_transcripts
from checkpoints.models import Session
from harness_site.core.streamed_downloads import CSV, HTML, JSONL, ExportFormat
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import join, pause
from tests.integration.checkpoints.session_setups import start_session, text_message
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db(transaction=True)

FORMS = {"jsonl": JSONL, "html": HTML, "print": HTML}


def taken_over(open_checkpointer: Open) -> str:
    start_session(open_checkpointer()).save_checkpoint("s", [text_message("before the takeover")], None, 0)
    second = open_checkpointer()
    second.start_session("s", takeover="worker-3 hangs")
    second.save_checkpoint("s", [text_message("before the takeover"), text_message("after it")], None, 0)
    return "s"


def forked(open_checkpointer: Open) -> str:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", [text_message("of the origin")], None, 0)
    cp.fork_session("s", new_session_id="fork")
    cp.start_session("fork")
    cp.save_checkpoint("fork", [text_message("of the origin"), text_message("of the fork")], None, 0)
    return "fork"


def paused(open_checkpointer: Open) -> str:
    cp = open_checkpointer()
    pause(cp, join("quote", "answered", "open"))
    cp.accept_response("answered", {"grams": 3150})
    return "s"


def compacted(open_checkpointer: Open) -> str:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", [text_message(f"long talk {number}") for number in range(20)], None, 0)
    cp.save_checkpoint("s", [text_message("a summary of it"), text_message("and on")], None, 0)
    return "s"


def imported(open_checkpointer: Open) -> str:
    conversation = [
        {"role": "user", "content": "said elsewhere"},
        {"role": "assistant", "content": "answered elsewhere"},
    ]
    import_transcripts(open_checkpointer(), conversation, session_id="imported", format="openai-chat")
    return "imported"


def interrupted(open_checkpointer: Open) -> str:
    cp = start_session(open_checkpointer())
    args = '{"note": ' + "[" * 400 + "]" * 400 + ', "amount": 1e999}'
    asked = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": args}]
    cp.save_checkpoint("s", [text_message("pay"), {"role": "assistant", "blocks": asked}], {"steps": ["pay"]}, 0)
    return "s"


@pytest.mark.parametrize("make", [taken_over, forked, paused, compacted, imported, interrupted])
def test_each_export_is_complete_and_has_the_content_of_the_page(
    make: Callable[[Open], str], open_checkpointer: Open, reader: Client
) -> None:
    session = Session.objects.get(session_id=make(open_checkpointer))
    page = reader.get(f"/sessions/{session.pk}/")
    texts = _texts(session.session_id, open_checkpointer())
    assert texts
    for name, form in FORMS.items():
        whole = _sent(reader, f"/sessions/{session.pk}/export/{name}/", form)
        assert [text for text in texts if text not in whole] == []
    assert [text for text in texts if text not in visible_text(page)] == []
    records = [json.loads(line) for line in _sent(reader, f"/sessions/{session.pk}/export/jsonl/", JSONL).splitlines()]
    assert records[-1] == {"record": "end", "records": len(records) - 1, "complete": True}


def test_page_of_a_taken_over_session_names_the_actor(open_checkpointer: Open, reader: Client) -> None:
    session = Session.objects.get(session_id=taken_over(open_checkpointer))
    html = _sent(reader, f"/sessions/{session.pk}/export/html/", HTML)
    assert "Run 2 on" in html
    assert "worker-3 hangs" in html
    assert "the session was taken over from run" in html


def test_overview_has_room_below_the_line_of_a_run_that_was_taken_over(open_checkpointer: Open, reader: Client) -> None:
    session = Session.objects.get(session_id=taken_over(open_checkpointer))
    page = reader.get(f"/sessions/{session.pk}/").content.decode()
    assert 'viewBox="0 0 1040 79"' in page
    assert re.findall(r'<text x="0" y="(\d+)"', page) == ["16", "62"]
    assert re.search(r'<text x="[\d.]+" y="44">taken over</text>', page)


@pytest.mark.parametrize("path", ["/sessions/export/", "/audit/export/", "/calls/export/"])
def test_table_ends_with_a_completion_marker(path: str, open_checkpointer: Open, reader: Client) -> None:
    taken_over(open_checkpointer)
    _sent(reader, path, CSV)


def _sent(reader: Client, path: str, form: ExportFormat) -> str:
    """Return the content of an export, which must be complete."""
    response: Any = reader.get(path)
    assert response.status_code == 200
    assert response.headers["Harness-Ending"] == form.ending
    whole = b"".join(response.streaming_content).decode()
    assert whole.rstrip().endswith(form.ending)
    return str(whole)


def _texts(session_id: str, cp: SyncCheckpointer) -> list[str]:
    loaded = cp.load_latest(session_id)
    assert loaded is not None
    contents = [said_.get("blocks", said_.get("content")) for said_ in loaded["transcript"]]
    return [
        text
        for content in contents
        for text in ([content] if isinstance(content, str) else [block.get("text") for block in content])
        if text
    ]
