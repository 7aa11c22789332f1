"""`manage.py import_claude_code` and `import_transcripts`."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from checkpoints.importers import ImportProgress, ImportReport
from checkpoints.importers.progress import ProgressBar, format_summary
from checkpoints.models import Session, Workspace
from tests.integration.checkpoints.importers.transcript_files import SESSION, Scribe


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def scribe(tmp_path: Path) -> Scribe:
    scribe = Scribe(tmp_path / f"{SESSION}.jsonl")
    scribe.user("Pay")
    scribe.calls("call_1", "Bash", {}, message="msg_1")
    scribe.raw("{\n")
    return scribe


def run(*arguments: str) -> str:
    said = StringIO()
    call_command(*arguments, stdout=said)
    return said.getvalue()


def test_the_summary_says_what_was_read(workspace: Workspace, scribe: Scribe) -> None:
    assert run("import_claude_code", str(scribe.path)).splitlines() == [
        "Read 1 file, 3 lines: 1 session (1 new), 2 messages (2 new), 1 tool call (1 new).",
        "1 call without a result. Nobody has to decide about them.",
        f"Damaged: {scribe.path}, line 3: it is not JSON (Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)).",
    ]
    assert "1 session (0 new), 2 messages (0 new)" in run("import_claude_code", str(scribe.path))


def test_the_report_as_json(workspace: Workspace, scribe: Scribe) -> None:
    told = json.loads(run("import_claude_code", "--json", str(scribe.path)))
    assert (told["session_ids"], told["skipped"], told["unanswered"]) == ([SESSION], 1, 1)


def test_what_cannot_be_imported_is_an_error(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="it does not exist"):
        run("import_claude_code", str(tmp_path / "missing"))


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
def test_transcripts_of_each_format(workspace: Workspace, tmp_path: Path, name: str) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    said = run("import_transcripts", f"--format={name}", "--agent=desk", "--session-id=o-17", str(path))
    assert said == "Read 1 file, 0 lines: 1 session (1 new), 1 message (1 new), 0 tool calls (0 new).\n"
    row = Session.objects.get()
    assert (row.session_id, row.agent, row.title) == ("o-17", "desk", "Hello")


def test_one_session_id_is_for_one_file(workspace: Workspace) -> None:
    with pytest.raises(CommandError, match="several were given"):
        run("import_transcripts", "--format=anthropic", "--session-id=o-17", "a.json", "b.json")


def test_the_bar_moves_on_a_terminal() -> None:
    terminal, elsewhere = Terminal(), StringIO()
    for stream in (terminal, elsewhere):
        bar = ProgressBar(stream)
        for read in (50, 50, 100):
            bar(ImportProgress(Path("a"), 1, 2, read, 100, ImportReport(messages=1234)))
        bar.finish_line()
    assert elsewhere.getvalue() == ""
    drawn = terminal.getvalue().split("\r")[1:]
    assert [line.split(maxsplit=1)[1] for line in drawn] == [
        "50%  file 1 of 2  1,234 messages",
        "100%  file 1 of 2  1,234 messages\n",
    ]


def test_a_long_list_of_damage_is_cut_with_its_number() -> None:
    report = ImportReport()
    for number in range(30):
        report.add_damaged_place(Path("a"), number, "it is not UTF-8", "x")
    assert list(format_summary(report))[-1] == "10 more damaged places; --json lists them."
