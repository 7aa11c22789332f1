"""Pages of imported sessions."""

from __future__ import annotations

import csv
import re
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from django.http import StreamingHttpResponse
from django.test import Client
from django.utils import timezone

from checkpoints import SyncCheckpointer
from checkpoints.enums import Role
from checkpoints.importers import import_transcripts
from checkpoints.models import Run, Session, ToolCall
from checkpoints.sessions.sweep_lost_runs import sweep_lost_runs
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter
from tests.integration.search.conftest import complete
from tests.support.factories import make_user
from tests.support.page_text import visible_text


@pytest.fixture
def reader(cp: SyncCheckpointer, client: Client) -> Client:
    client.force_login(make_user(role=Role.AUDITOR))
    return client


@pytest.fixture
def transcript_writer(cp: SyncCheckpointer, tmp_path: Path) -> TranscriptWriter:
    transcript_writer = TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
    transcript_writer.user("Why is the <script>lamp()</script> dark?")
    transcript_writer.agent({"type": "thinking", "thinking": "Look at it."}, message="msg_1")
    transcript_writer.calls("call_1", "Read", {"file": "lamp.py"}, message="msg_1")
    transcript_writer.result("call_1", "lamp = off")
    transcript_writer.says("It is **off**.", message="msg_2")
    return transcript_writer


def url(path: str = "") -> str:
    return f"/sessions/{Session.objects.get(session_id=SESSION).pk}/{path}"


def test_page_shows_the_conversation(cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter) -> None:
    import_transcripts(cp, transcript_writer.path)
    page = reader.get(url())
    words = visible_text(page)
    assert "Agent claude-code" in words
    assert "Readlamp.py Completed 1.0 s" in words
    assert "lamp = off" in words
    assert "parentUuid" not in words
    assert "Duration 4.0 s" in words
    assert "<script>lamp" not in page.content.decode()


def test_call_without_a_result_is_labelled(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.calls("call_2", "Bash", {"command": "make light"}, message="msg_3")
    transcript_writer.says("I stop here.", message="msg_4")
    import_transcripts(cp, transcript_writer.path)
    explanation = "The file has no result of this call. Whether it happened is not known, and nobody has to decide"
    words = visible_text(reader.get(url()))
    assert words.count(explanation) == 1
    assert "no result in the file" not in words
    assert "no run of this store" not in words
    assert "needs a decision" not in words
    assert "Decide" not in words
    list_of_calls = visible_text(reader.get(url("calls/")))
    assert " make light Bash " in list_of_calls
    assert "no run of this store" not in list_of_calls
    page_of_call = visible_text(reader.get(url(f"calls/{ToolCall.objects.get(call_id='call_2').pk}/")))
    assert "Bash: make light" in page_of_call
    assert explanation in page_of_call
    ToolCall.objects.filter(call_id="call_2").update(
        sentence="The imported transcript ends before this call was answered. Whether it happened is not known, and "
        "nobody has to decide: no run of this store made it."
    )
    after_time_of_print = visible_text(reader.get(url("calls/"))).partition(" UTC ")[2]
    assert after_time_of_print
    assert list_of_calls.endswith(after_time_of_print)


def test_edit_without_a_result_is_not_shown_as_done(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.live, transcript_writer.start = True, timezone.now() - timedelta(minutes=20)
    transcript_writer.path.unlink()
    transcript_writer.user("Switch it on.")
    edit = {"file_path": "lamp.py", "old_string": "lamp = off", "new_string": "lamp = on\nlight = 1"}
    transcript_writer.calls("call_2", "Edit", edit, message="msg_3")
    import_transcripts(cp, transcript_writer.path)
    assert re.search("Run 1 of 1 from a transcript, last entry (19|20) min ago", visible_text(reader.get(url())))
    assert "Duration 1.0 s" in visible_text(reader.get(url()))
    assert "Running from a transcript" in visible_text(reader.get("/sessions/"))
    fork = visible_text(reader.get(url("fork/")))
    assert "The transcript has no result for 1 call. Nobody has to decide about it" in fork
    assert "before it repeats it. Edit lamp.py" in fork
    assert "A process works on this session" not in fork
    assert "the plan" not in fork
    assert "Copied to the fork 2 messages the agent, labels and metadata Not copied" in fork
    Run.objects.update(lease_expires_at=timezone.now() - timedelta(minutes=1))
    sweep_lost_runs(cp.store)
    page = reader.get(url())
    assert '<span class="small muted">+2 −1</span>' in page.content.decode()
    words = visible_text(page)
    assert "+2 −1 Discarded Copy call" in words
    assert "The file has no result of this call." in words
    call_pk = ToolCall.objects.get().pk
    # As a release recorded it that took the end of the session for the end of the call.
    for is_as_before in (False, True):
        if is_as_before:
            ToolCall.objects.update(settled_at=timezone.now(), interrupted_at=None)
        words = visible_text(reader.get(url(f"calls/{call_pk}/")))
        assert "Discarded The imported transcript has no result" in words
        assert "Result recorded" not in words
        for path in (url("calls/"), "/calls/"):
            listed = visible_text(reader.get(path))
            assert "Discarded no result in the file logged" in listed
            assert "10 min" not in listed
            assert "20 min" not in listed
    words = visible_text(reader.get(url("history/")))
    assert "Call without a result discarded" in words
    assert "Session ended without a result · the sweeper · reason The imported transcript has no result" in words
    assert "status Cancelled" not in words
    assert "Ended without a result" in words
    assert f"The sweeper closed {SESSION}: its transcript ended without the result of a call" in visible_text(
        reader.get("/audit/?runs=1")
    )
    listed = visible_text(reader.get("/sessions/?status=cancelled"))
    assert "Ended without a result took" in listed
    assert "Cancelled or ended without a result" in listed


def test_page_of_a_call_links_to_its_message_in_the_newest_version_that_has_it(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter
) -> None:
    import_transcripts(cp, transcript_writer.path)
    call_url = url(f"calls/{ToolCall.objects.get().pk}/")
    page = reader.get(call_url)
    assert f'<a href="{url()}?v=1&amp;at=1#m-1">v1, message 2</a>' in page.content.decode()
    assert "Same operation" not in visible_text(page)
    assert '<td class="number in-version" data-label="logged at">v1</td>' in reader.get(url("calls/")).content.decode()
    transcript_writer.user("And now?")
    transcript_writer.says("Still off.", message="msg_3")
    import_transcripts(cp, transcript_writer.path)
    assert f'<a href="{url()}?v=2&amp;at=1#m-1">v1, message 2</a>' in reader.get(call_url).content.decode()
    transcript_writer.compaction("The lamp is off.")
    import_transcripts(cp, transcript_writer.path)
    assert f'<a href="{url()}?v=1&amp;at=1#m-1">v1, message 2</a>' in reader.get(call_url).content.decode()


def test_compaction_is_drawn_on_the_timeline(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.compaction("The lamp is off.")
    import_transcripts(cp, transcript_writer.path)
    words = visible_text(reader.get(url()))
    assert "compacted here: what follows continues from a summary · read the earlier messages" in words
    assert (
        "Conversation compacted Compacted at 155,000 tokens: 4 earlier messages are in the version before this" in words
    )
    assert "lamp = off" in visible_text(reader.get(url("?v=1")))


def test_messages_that_a_compaction_kept_are_shown_behind_its_summary(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.compaction("The lamp is dark.", kept=["u3", "u4", "u5"])
    import_transcripts(cp, transcript_writer.path)
    words = visible_text(reader.get(url()))
    found = [words.index(each) for each in ("The lamp is dark.", "Readlamp.py Completed", "lamp = off", "It is off.")]
    assert found == sorted(found)


@pytest.mark.parametrize("path", ["versions/", "compare/?a=1&b=2", "calls/", "plan/", "history/"])
def test_every_page_of_the_session_opens(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter, path: str
) -> None:
    transcript_writer.user("And now?")
    import_transcripts(cp, transcript_writer.path)
    assert reader.get(url(path)).status_code == 200


def import_messages_without_times(cp: SyncCheckpointer, system: str) -> str:
    """Return the URL of a session with the instructions `system`, a prompt, a call, its result, and instructions."""
    call = {"id": "c1", "type": "function", "function": {"name": "lamp", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": system},
        {"role": "user", "content": "Why is it dark?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "off"},
        {"role": "system", "content": system},
    ]
    import_transcripts(cp, messages, format="openai-chat", session_id="dark")
    return f"/sessions/{Session.objects.get().pk}/"


def test_pages_of_a_source_without_times_show_none(cp: SyncCheckpointer, reader: Client) -> None:
    address = import_messages_without_times(cp, "You help.")
    call = ToolCall.objects.get()
    for path in ("", "versions/", "calls/", f"calls/{call.pk}/", "timeline/", "costs/"):
        page = reader.get(address + path).content.decode()
        assert "<time " not in page.partition('class="tabs')[2], path
    words = visible_text(reader.get(f"{address}timeline/"))
    assert "There is no timeline: the source of this session has no times." in words


def test_search_and_calls_of_the_workspace_show_no_times_of_a_source_without_them(
    cp: SyncCheckpointer, reader: Client
) -> None:
    import_messages_without_times(cp, "You help.")
    complete()
    found = reader.get("/sessions/", {"q": "dark"}).content.decode()
    assert "Why is it " in found
    assert "<time " not in found.partition('class="matches"')[2]
    calls = reader.get("/calls/", {"tool": "lamp"}).content.decode()
    assert "lamp" in calls.partition("<tbody>")[2]
    assert "<time " not in calls.partition("<tbody>")[2]
    exported = b"".join(cast(StreamingHttpResponse, reader.get("/calls/export/"))).decode()
    (row,) = csv.DictReader(StringIO(exported))
    assert (row["tool"], row["logged"], row["settled"]) == ("lamp", "", "")


def test_instructions_to_the_model_are_cut_to_their_beginning(cp: SyncCheckpointer, reader: Client) -> None:
    address = import_messages_without_times(cp, "\n".join(f"Rule {number}." for number in range(30)))
    first, _, last = visible_text(reader.get(address)).partition("I look.")
    assert "Rule 2." in first
    assert "Rule 8." not in first
    assert "Rule 20." in last
    assert "Rule 20." in visible_text(reader.get(f"{address}messages/0/"))


def test_head_has_the_exit_status_that_the_program_of_the_agent_states(cp: SyncCheckpointer, reader: Client) -> None:
    step = {"action": "ls", "observation": "a.py", "thought": "Look"}
    trajectory = {"trajectory": [step], "info": {"exit_status": "exit_cost"}}
    import_transcripts(cp, [trajectory], format="swe-agent", session_id="lamp")
    assert "Exit status exit_cost" in visible_text(reader.get(f"/sessions/{Session.objects.get().pk}/"))


HOOK = {
    "type": "hook_success",
    "hookName": "SessionStart:startup",
    "content": "Keep it **short**.",
    "stdout": "Keep it **short**.",
    "stderr": "",
    "env": {"password": "tulip-77"},
}


def test_attachments_and_errors_of_the_program_are_chips(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter
) -> None:
    transcript_writer.line(type="attachment", attachment=HOOK)
    transcript_writer.line(type="attachment", attachment={"type": "queued_command", "prompt": "Also the fan"})
    transcript_writer.line(type="attachment", attachment={"type": "plan_mode", "reminderType": "full"})
    transcript_writer.line(type="system", subtype="api_error", level="error", error={"status": 529})
    transcript_writer.says("Done.", message="msg_3")
    import_transcripts(cp, transcript_writer.path)
    page = reader.get(url("?after=4"))
    words = visible_text(page)
    assert "Hook SessionStart:startup Keep it short. env" in words
    assert "Message while the agent worked queued command Also the fan" in words
    assert "Reminder of the program plan mode" in words
    assert "Error of the model's provider api error error" in words
    assert "hook_success" not in words
    assert "tulip-77" not in page.content.decode()


def test_files_and_instructions_that_the_model_was_given_are_folded_texts(
    cp: SyncCheckpointer, reader: Client, transcript_writer: TranscriptWriter
) -> None:
    file = {"filePath": "/srv/shop/notes.txt", "content": "It is in the **cellar**.", "numLines": 1, "totalLines": 1}
    memory = {"path": "/srv/shop/lib/CLAUDE.md", "type": "Project", "content": "Use tabs."}
    for attachment in (
        {"type": "file", "displayPath": "notes.txt", "content": {"type": "text", "file": file}},
        {"type": "directory", "displayPath": "lib", "content": "a.py\nb.py"},
        {"type": "nested_memory", "displayPath": "lib/CLAUDE.md", "content": memory},
        {"type": "instructions", "files": [{"path": "/srv/shop/CLAUDE.md", "type": "Project", "content": "Be kind."}]},
        {"type": "mcp_instructions_delta", "addedNames": ["shop"], "addedBlocks": ["Ask the shop first."]},
        {"type": "prompt_snapshot", "systemPrompt": ["You are a lamp."]},
    ):
        transcript_writer.line(type="attachment", attachment=attachment, rendered=[{"content": "As the model read it"}])
    transcript_writer.says("Done.", message="msg_3")
    import_transcripts(cp, transcript_writer.path)
    page = reader.get(url("?after=4"))
    words = visible_text(page)
    assert "Attached file notes.txt It is in the cellar." in words
    assert "Attached file lib a.py b.py" in words
    assert "Memory lib/CLAUDE.md Use tabs." in words
    assert "Memory instructions Be kind." in words
    assert "Reminder of the program mcp instructions delta Ask the shop first." in words
    assert "lamp." not in words.partition("Attached file")[2]
    assert "numLines" not in words
    assert page.content.decode().count('<details class="tagged-text"><summary>') == 5
