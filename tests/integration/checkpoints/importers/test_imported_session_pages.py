"""Imported sessions on the pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.enums import Role
from checkpoints.importers import import_transcripts
from checkpoints.models import Session
from tests.integration.checkpoints.importers.transcript_files import SESSION, Scribe
from tests.support.factories import make_user
from tests.support.page_text import said


@pytest.fixture
def reader(cp: SyncCheckpointer, client: Client) -> Client:
    client.force_login(make_user(role=Role.AUDITOR))
    return client


@pytest.fixture
def scribe(cp: SyncCheckpointer, tmp_path: Path) -> Scribe:
    scribe = Scribe(tmp_path / f"{SESSION}.jsonl")
    scribe.user("Why is the <script>lamp()</script> dark?")
    scribe.agent({"type": "thinking", "thinking": "Look at it."}, message="msg_1")
    scribe.calls("call_1", "Read", {"file": "lamp.py"}, message="msg_1")
    scribe.result("call_1", "lamp = off")
    scribe.says("It is **off**.", message="msg_2")
    return scribe


def url(path: str = "") -> str:
    return f"/sessions/{Session.objects.get(session_id=SESSION).pk}/{path}"


def test_it_reads_like_a_conversation(cp: SyncCheckpointer, reader: Client, scribe: Scribe) -> None:
    import_transcripts(cp, scribe.path)
    page = reader.get(url())
    words = said(page)
    assert "Agent claude-code" in words
    assert "Readlamp.py Completed 1.0 s" in words
    assert "lamp = off" in words
    assert "parentUuid" not in words
    assert "Duration 4.0 s" in words
    assert "<script>lamp" not in page.content.decode()


def test_a_call_without_a_result_says_so(cp: SyncCheckpointer, reader: Client, scribe: Scribe) -> None:
    scribe.calls("call_2", "Bash", {"command": "make light"}, message="msg_3")
    import_transcripts(cp, scribe.path)
    words = said(reader.get(url()))
    assert "nobody has to decide: no run of this store made it." in words
    assert "needs a decision" not in words
    assert "Decide" not in words


def test_a_compaction_is_drawn(cp: SyncCheckpointer, reader: Client, scribe: Scribe) -> None:
    scribe.compaction("The lamp is off.")
    import_transcripts(cp, scribe.path)
    words = said(reader.get(url()))
    assert "version 2 continues differently from here" in words
    assert (
        "Conversation compacted Compacted at 155,000 tokens: 4 earlier messages are in the version before this" in words
    )
    assert "lamp = off" in said(reader.get(url("?v=1")))


@pytest.mark.parametrize("path", ["versions/", "compare/?a=1&b=2", "calls/", "plan/", "history/"])
def test_every_page_of_the_session_opens(cp: SyncCheckpointer, reader: Client, scribe: Scribe, path: str) -> None:
    scribe.user("And now?")
    import_transcripts(cp, scribe.path)
    assert reader.get(url(path)).status_code == 200
