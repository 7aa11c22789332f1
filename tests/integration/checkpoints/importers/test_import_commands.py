"""`manage.py import_transcripts`."""

from __future__ import annotations

import json
import os
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.importers import ImportProgress, ImportReport
from checkpoints.importers.import_progress_bar_and_summary import ProgressBar, iterate_summary_lines
from checkpoints.management.commands.import_transcripts import DAMAGED_STATUS, REFUSED_STATUS, Command
from checkpoints.models import AuditEvent, Session, Workspace
from tests.integration.checkpoints.importers.transcript_writer import SESSION, TranscriptWriter


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def transcript_writer(tmp_path: Path) -> TranscriptWriter:
    transcript_writer = TranscriptWriter(tmp_path / f"{SESSION}.jsonl")
    transcript_writer.user("Pay")
    transcript_writer.calls("call_1", "Bash", {}, message="msg_1")
    transcript_writer.raw("{\n")
    return transcript_writer


def run(*arguments: str) -> str:
    said = StringIO()
    call_command(*arguments, stdout=said)
    return said.getvalue()


def run_with_status(*arguments: str) -> tuple[int, str]:
    """Run a command that fails; return its exit status and output."""
    said = StringIO()
    with pytest.raises(CommandError) as caught:
        call_command(*arguments, stdout=said)
    return caught.value.returncode, said.getvalue()


def test_command_runs_the_checks_of_the_library_only(
    workspace: Workspace, transcript_writer: TranscriptWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[object] = []
    monkeypatch.setattr(Command, "check", lambda self, tags=None, **options: checked.append(tags))
    with pytest.raises(CommandError):
        call_command("import_transcripts", str(transcript_writer.path), skip_checks=False)
    assert checked == [("checkpoints",)]


def test_summary_lists_what_was_read(workspace: Workspace, transcript_writer: TranscriptWriter) -> None:
    status, text = run_with_status("import_transcripts", "--imported-by=bob", str(transcript_writer.path))
    assert (status, text.splitlines()) == (
        DAMAGED_STATUS,
        [
            "Read 1 file, 3 lines: 1 session (1 new), 2 messages (2 new), 1 tool call (1 new).",
            "Formats: claude-code 1.",
            "1 call without a result. Nobody has to decide about them.",
            f"Damaged: {transcript_writer.path}, line 3: it is not JSON "
            "(Expecting property name enclosed in double quotes: line 1 column 2 (char 1)).",
        ],
    )
    (event,) = AuditEvent.objects.filter(kind=AuditKind.SESSION_IMPORTED)
    assert (event.actor, event.actor_kind) == ("bob", ActorKind.PERSON)
    assert json.loads(event.details) == {"format": "claude-code", "path": str(transcript_writer.path)}


def test_unchanged_file_is_not_read_again(workspace: Workspace, transcript_writer: TranscriptWriter) -> None:
    run_with_status("import_transcripts", str(transcript_writer.path))
    assert "1 unchanged file not read again" in run("import_transcripts", str(transcript_writer.path))
    status, text = run_with_status("import_transcripts", "--reread", "--json", str(transcript_writer.path))
    told = json.loads(text)
    assert (status, told["session_ids"], told["new_messages"], told["skipped"]) == (DAMAGED_STATUS, [SESSION], 0, 1)
    call_command("delete_session", SESSION, stdout=StringIO())
    assert "1 session (1 new)" in run_with_status("import_transcripts", str(transcript_writer.path))[1]


def test_wrong_format_is_refused_and_the_folder_is_imported(
    workspace: Workspace, tmp_path: Path, transcript_writer: TranscriptWriter
) -> None:
    rollout = {"timestamp": "2025-03-04T10:00:00Z", "type": "event_msg", "payload": {"type": "agent_message"}}
    path = tmp_path / "chats" / "rollout.jsonl"
    path.parent.mkdir()
    path.write_text(f"{json.dumps(rollout)}\n" * 3)
    chat = tmp_path / "chats" / "order.json"
    chat.write_text('[{"role": "user", "content": "Hello"}]')
    status, text = run_with_status("import_transcripts", "--format=openai-chat", str(path.parent))
    assert status == REFUSED_STATUS
    assert "1 session (1 new)" in text
    assert f"Refused: {path}: most of its entries are not of the format openai-chat; " in text
    assert "it looks like codex" in text
    assert list(Session.objects.values_list("session_id", flat=True)) == ["order"]
    assert run_with_status("import_transcripts", "--format=openai-chat", str(path))[0] == REFUSED_STATUS
    other = tmp_path / "elsewhere" / "order.json"
    other.parent.mkdir()
    other.write_text('[{"role": "user", "content": "Another order"}]')
    with pytest.raises(CommandError, match=r"it was imported from .*chats/order\.json, which begins differently"):
        run("import_transcripts", str(other))
    unknown = tmp_path / "settings.json"
    unknown.write_text('{"theme": "dark"}')
    with pytest.raises(CommandError, match="most of its entries are of no known format"):
        run("import_transcripts", str(unknown))


def test_symbolic_links_in_a_folder_are_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    folder.mkdir()
    (outside / "secret.json").write_text('[{"role": "user", "content": "Hello"}]')
    (folder / "link.json").symlink_to(outside / "secret.json")
    (folder / "more").symlink_to(outside)
    with pytest.raises(CommandError, match="there is no file of JSON"):
        run("import_transcripts", str(folder))


def test_costs_are_unknown_or_estimated_from_a_table(workspace: Workspace, tmp_path: Path) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 10_000}
    answer = {"role": "assistant", "content": "Hi", "model": "model-a", "usage": usage, "stop_reason": "end_turn"}
    (tmp_path / "a.json").write_text(json.dumps([{"role": "user", "content": "Hello"}, answer]))
    table = tmp_path / "prices.toml"
    table.write_text('[models."model-*"]\ninput = 2\noutput = 10\ncache_read = 0.5\n')
    run("import_transcripts", str(tmp_path / "a.json"))
    row = Session.objects.get()
    assert (row.cost_basis, str(row.budget_spent_usd), row.has_times) == ("unknown", "0.000000", False)
    assert "estimated 1, changed 1" in run("apply_prices", str(table))
    row.refresh_from_db()
    assert (row.cost_basis, str(row.budget_spent_usd)) == ("estimated", "0.008000")
    parts = {"input": "0.002000", "output": "0.001000", "cache_read": "0.005000"}
    assert json.loads(row.metadata)["import"]["estimate"] == {"model-a": parts}
    prices = {"table": "prices.toml", "models": {"model-a": {"input": "2", "output": "10", "cache_read": "0.5"}}}
    assert json.loads(row.metadata)["import"]["prices"] == prices
    # An import that finds no new message leaves the cost as it is, with a table or without one.
    for options in ([], [f"--prices={table}"]):
        os.utime(tmp_path / "a.json", (1, len(options) + 1))
        run("import_transcripts", str(tmp_path / "a.json"), *options)
        row.refresh_from_db()
        assert (row.cost_basis, str(row.budget_spent_usd)) == ("estimated", "0.008000")
        assert json.loads(row.metadata)["import"]["estimate"] == {"model-a": parts}
        assert json.loads(row.metadata)["import"]["prices"] == prices
    assert "changed 0" in run("apply_prices", str(table))
    table.write_text('[models."model-*"]\ninput = 2\noutput = 10\n')
    assert "estimated 0, changed 1" in run("apply_prices", str(table))
    row.refresh_from_db()
    assert (row.cost_basis, str(row.budget_spent_usd)) == ("unknown", "0.000000")
    assert not {"estimate", "prices"} & json.loads(row.metadata)["import"].keys()
    table.write_text("[models.a]\ninput = -1\n")
    with pytest.raises(CommandError, match="is not a number of dollars"):
        run("apply_prices", str(table))


def test_unimportable_input_is_an_error(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="it does not exist"):
        run("import_transcripts", str(tmp_path / "missing"))


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
def test_transcripts_of_each_format(workspace: Workspace, tmp_path: Path, name: str) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    said = run("import_transcripts", f"--format={name}", "--agent=desk", "--session-id=o-17", str(path))
    assert (
        said == "Read 1 file, 0 lines: 1 session (1 new), 1 message (1 new), 0 tool calls (0 new).\n"
        f"Formats: {name} 1.\n"
    )
    row = Session.objects.get()
    assert (row.session_id, row.agent, row.title) == ("o-17", "desk", "Hello")


def test_session_id_option_requires_a_single_file(workspace: Workspace) -> None:
    with pytest.raises(CommandError, match="several were given"):
        run("import_transcripts", "--format=anthropic", "--session-id=o-17", "a.json", "b.json")


def test_progress_bar_is_shown_on_a_terminal() -> None:
    terminal, elsewhere = Terminal(), StringIO()
    for stream in (terminal, elsewhere):
        bar = ProgressBar(stream)
        for read in (50, 50, 100):
            bar(ImportProgress(Path("a"), 1, 2, read, 100, ImportReport(messages=1234)))
        bar.write_newline_if_drawn()
    assert elsewhere.getvalue() == ""
    drawn = terminal.getvalue().split("\r")[1:]
    assert [line.split(maxsplit=1)[1] for line in drawn] == [
        "50%  file 1 of 2  1,234 messages",
        "100%  file 1 of 2  1,234 messages\n",
    ]


def test_long_list_of_damaged_lines_is_truncated_with_a_count() -> None:
    report = ImportReport()
    for number in range(30):
        report.add_damaged_place(Path("a"), number, "it is not UTF-8", "x")
    assert list(iterate_summary_lines(report))[-1] == "10 more damaged places; --json lists them."


def test_summary_escapes_what_a_file_names_its_types() -> None:
    """A lone surrogate has no form in UTF-8, and a sequence of a terminal would change the lines around it."""
    report = ImportReport(unknown=Counter(["block \ud800", "block \x1b[2J", f"block {'x' * 500}", "Zeile für Zeile"]))
    lines = list(iterate_summary_lines(report))
    assert lines[-4:] == [
        "Unknown Zeile für Zeile: 1, kept as it is.",
        r"Unknown block \x1b[2J: 1, kept as it is.",
        f"Unknown block {'x' * 94}…: 1, kept as it is.",
        r"Unknown block \ud800: 1, kept as it is.",
    ]
