"""Views of tool calls by tool type."""

import json
from typing import Any

import pytest

from checkpoints.formats.parse_message_parts import CallPart, ResultPart, TextPart
from checkpoints.formats.shell_command_exit_codes import split_output_and_exit_code
from checkpoints.formats.stored_result_sentence import build_stored_result_sentence
from harness_site.core.masking.masker import MASK
from harness_site.sessions import program_tags_in_messages
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.tool_views import diff_lines, file_change_parsing
from harness_site.sessions.tool_views.file_change_parsing import FileChange, Hunk
from harness_site.sessions.tool_views.tool_view_registry import build_first_fitting_tool_view
from harness_site.sessions.tool_views.tool_view_types import LONGEST, ToolView
from harness_site.sessions.touched_files.touched_files import (
    TouchedFile,
    add_change_to_net_change,
    iterate_file_reads_and_changes,
)

PATCH = """*** Begin Patch
*** Update File: a.py
@@ def f():
-    return 1
+    return 2
*** Add File: b.txt
+new
*** Delete File: c.txt
*** End Patch"""


def view(name: str, args: Any, result: str | None = None, *, is_error: bool = False, is_whole: bool = False) -> Any:
    answer = None if result is None else ResultPart("c", (TextPart(result),), is_error)
    card = CallCard(CallPart("c", name, args), answer, None, ())
    found = build_first_fitting_tool_view(card, is_whole=is_whole)
    assert found is None or isinstance(found, ToolView)
    return found


def test_command_is_shown_with_output_and_exit_code() -> None:
    shown = view("Bash", {"command": "pytest -q"}, "Exit code 1\n1 failed", is_error=True)
    assert (shown.kind, shown.content["command"], str(shown.content["output"])) == ("command", "pytest -q", "1 failed")
    assert shown.chip == ("bad", "exit 1")
    codex = view("shell", {"command": ["bash", "-lc", "ls"]}, '{"output":"a\\n","metadata":{"exit_code":0}}')
    assert (codex.content["command"], str(codex.content["output"]), codex.chip) == ("ls", "a\n", None)


@pytest.mark.parametrize(
    ("result", "split"),
    [
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno", ("no", 2)),
        ('{"output": 7}', ('{"output": 7}', None)),
        ("plain", ("plain", None)),
    ],
)
def test_command_results_are_split(result: str, split: tuple[str, int | None]) -> None:
    assert split_output_and_exit_code(result) == split


def test_edit_is_shown_as_a_word_difference() -> None:
    shown = view("Edit", {"file_path": "/w/a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = 3"}, "Done.")
    (hunk,) = shown.content["files"][0].hunks
    assert [(line.sign, str(line.html)) for line in hunk] == [
        ("same", 'x = <span class="hl-m">1</span>'),
        ("del", 'y =<del> </del><del><span class="hl-m">2</span></del>'),
        ("ins", 'y =<ins> </ins><ins><span class="hl-m">3</span></ins>'),
    ]
    assert (shown.target, shown.chip) == ("/w/a.py", ("ok", "+1 −1"))


@pytest.mark.parametrize(
    ("tool", "old", "new"),
    [
        ("edit_file", "old", "new"),
        ("edit_file", "old_text", "new_text"),
        ("replace_in_file", "search", "replacement"),
        ("update_file", "find", "replace_with"),
    ],
)
def test_edit_is_recognised_by_near_names_of_its_arguments(tool: str, old: str, new: str) -> None:
    args = {"path": "src/a.py", old: "x = 1", new: "x = 2"}
    shown = view(tool, args, "Done.")
    assert (shown.kind, shown.target, shown.chip) == ("diff", "src/a.py", ("ok", "+1 −1"))
    assert list(iterate_file_reads_and_changes(tool, args)) == [
        FileChange("src/a.py", "edited", (Hunk("x = 1", "x = 2"),))
    ]
    assert view(tool, {"path": "src/a.py", new: "x = 2"}) is None


def test_change_of_many_places_is_cut_between_them() -> None:
    old, new = ("\n".join(f"{word} {number}" for number in range(20)) for word in ("old", "new"))
    change = {"file_path": "a.py", "edits": [{"old_string": old, "new_string": new} for _ in range(5)]}
    shown = view("MultiEdit", change, "Done.")
    assert [len(hunk) for hunk in shown.content["files"][0].hunks] == [40, 40]
    assert not shown.is_complete
    whole = view("MultiEdit", change, "Done.", is_whole=True)
    assert len(whole.content["files"][0].hunks) == 5
    assert whole.is_complete


def test_markup_in_a_difference_is_escaped() -> None:
    lines = diff_lines.build_diff_lines("<b>old</b>", "<script>new</script>", "html")
    assert all("<b>" not in line.html and "<script>" not in line.html for line in lines)


def test_secrets_are_masked_in_every_view() -> None:
    token = "ghp_" + "a1B2" * 9
    shown = [
        view("Bash", {"command": f"curl -H 'Authorization: Bearer {token}'"}, token),
        view("Edit", {"file_path": "a", "old_string": token, "new_string": f"x {token}"}, token),
        view("Read", {"file_path": "a"}, f"     1→{token}"),
        view("Grep", {"pattern": token}, token),
        view("WebFetch", {"url": "https://example.org/", "prompt": token}, token),
        view("Task", {"prompt": token, "description": token}, token),
        view("AskUserQuestion", {"questions": [{"question": token, "options": [{"label": token}]}]}, token),
    ]
    assert all(each is not None and token not in repr(each) for each in shown)
    assert MASK in repr(view("Bash", {"command": "ls", "description": token}))
    hidden = view("bash", {"command": "ls", "password": "hunter2hunter2"}, "ok")
    assert "hunter2" not in repr(hidden)


def test_read_file_keeps_its_line_numbers() -> None:
    shown = view(
        "Read", {"file_path": "a.py"}, "    41→def f():\n    42→    pass\n\n<system-reminder>Careful.</system-reminder>"
    )
    assert [(line.number, "def" in line.html) for line in shown.content["lines"]] == [(41, True), (42, False)]
    assert shown.content["chips"] == ["Careful."]


def test_patch_is_split_by_file() -> None:
    changes = file_change_parsing.parse_patch(PATCH)
    assert [(change.path, change.kind, change.hunks) for change in changes] == [
        ("a.py", "edited", (Hunk("    return 1", "    return 2"),)),
        ("b.txt", "written", (Hunk("", "new", 1),)),
        ("c.txt", "deleted", ()),
    ]
    unified = file_change_parsing.parse_patch("--- a/x\n+++ b/x\n@@ -4,2 +4,2 @@\n a\n-b\n+c\n")
    assert unified == (FileChange("x", "edited", (Hunk("a\nb", "a\nc", 4),)),)
    assert view("shell", {"command": ["apply_patch", PATCH]}).kind == "diff"


def test_todo_lists_mcp_servers_and_unknown_tools() -> None:
    todo = view(
        "TodoWrite", {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]}
    )
    assert (todo.kind, todo.note) == ("todo", "1 of 2 done")
    server = view("mcp__mail__send", {"to": "a"})
    assert (server.kind, server.label, server.note) == ("", "send", "MCP server mail")
    assert view("refund_card", {"order": 17}) is None
    assert view("find_order", {"order": 17}, "{}") is None
    assert view("Bash", "no object", "") is not None
    assert view("Edit", {"file_path": 3, "old_string": []}) is None


def test_long_text_is_cut_in_a_transcript_and_paged_on_its_page() -> None:
    long = "line\n" * LONGEST
    shown = view("Bash", {"command": "cat a"}, long)
    assert not shown.is_complete
    assert len(str(shown.content["output"])) < 10_000
    assert view("Bash", {"command": "cat a"}, long, is_whole=True) is None
    assert view("Bash", {"command": "cat a"}, "short", is_whole=True).is_complete


def test_program_tags_become_chips_and_other_text_is_kept() -> None:
    pieces = program_tags_in_messages.split_tagged_text(
        "<command-message>review</command-message>\n<command-name>/review</command-name><command-args>all</command-args>"
        "Please.<system-reminder>One.</system-reminder> <b>kept</b> <system-reminder>open"
    )
    assert [(piece.text, str(piece.chip[1]) if piece.chip else "") for piece in pieces] == [
        ("/review all", "Slash command"),
        ("Please.", ""),
        ("One.", "Reminder of the program"),
        (" <b>kept</b> <system-reminder>open", ""),
    ]
    (interruption,) = program_tags_in_messages.split_tagged_text("[Request interrupted by user for tool use]")
    assert (interruption.chip is not None, interruption.text) == (True, "Request interrupted by user for tool use")
    assert not program_tags_in_messages.has_program_written_text("What does [Request interrupted by user] mean?")


@pytest.mark.parametrize("beginning", ["", "PreToolUse:mcp__shop__refund hook error: "])
def test_words_of_a_hook_that_gave_a_stored_result_become_a_chip_with_the_result(beginning: str) -> None:
    raw = beginning + build_stored_result_sentence("refunded 40\nfor order 17")
    (piece,) = program_tags_in_messages.split_tagged_text(raw)
    assert (piece.text, piece.raw) == ("refunded 40\nfor order 17", raw)
    assert piece.chip is not None
    assert (piece.chip[0], str(piece.chip[1])) == ("off", "Stored result given to the agent")
    assert not program_tags_in_messages.has_program_written_text(f"It said: {raw}")
    assert not program_tags_in_messages.has_program_written_text("PreToolUse:Bash hook error: not allowed")


def test_commands_of_an_editor_with_an_open_file_are_shown_as_files_and_differences() -> None:
    created = view("create", {"command": "create a.py\n"}, "[File: /w/a.py (1 lines total)]\n1:")
    assert (created.kind, created.target, created.note) == ("diff", "a.py", "whole file")
    shown_lines = ("(9 more lines above)", "10:def f():", "11:    return 1", "(19 more lines below)")
    listing = "\r\n".join(("[File: /w/b.py (30 lines total)]", *shown_lines))
    opened = view("open", {"command": 'open "src/b.py" 10'}, listing)
    assert (opened.kind, opened.target) == ("read", "src/b.py")
    assert opened.note == "[File: /w/b.py (30 lines total)] (9 more lines above) (19 more lines below)"
    assert [line.number for line in opened.content["lines"]] == [10, 11]
    assert str(opened.content["lines"][1].html).startswith("    ")
    command = "edit 11:12\n    return 2\nend_of_edit"
    edited = view("edit", {"command": command}, f"File updated.\n{listing}")
    assert (edited.kind, edited.target, edited.note, edited.chip) == ("diff", "/w/b.py", "lines 11 to 12", None)
    ((line,),) = edited.content["files"][0].hunks
    assert (line.sign, line.number) == ("ins", 11)
    rejected = view("edit", {"command": command}, "Your proposed edit has introduced errors", is_error=True)
    assert (rejected.target, rejected.chip) == ("", ("bad", "Failed"))
    assert view("create", {"path": "/w/c.py", "file_text": "x = 1"}, "Done").target == "/w/c.py"
    assert view("open", {"command": "open a.py"}, "File a.py not found").kind == "command"
    assert view("edit", {"command": "edit the text"}, "Usage").target == ""
    assert view("edit", {"command": 'edit "not closed'}, "Usage").kind == "command"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("edit", {"command": "edit \"x = 1\" 'x = 2'"}),
        ("edit", {"command": "edit 'x = 1' 'x = 2' replace-all\n"}),
        ("edit", {"search": "x = 1", "replace": "x = 2", "replace-all": False}),
    ],
)
def test_search_and_replace_in_the_open_file_is_shown_as_a_difference(name: str, args: dict[str, Any]) -> None:
    shown = view(name, args, "Text replaced.\n[File: /w/b.py (1 lines total)]\n1:x = 2")
    assert (shown.kind, shown.target, shown.chip) == ("diff", "/w/b.py", None)
    (lines,) = shown.content["files"][0].hunks
    assert [line.sign for line in lines] == ["del", "ins"]


@pytest.mark.parametrize(
    ("args", "number"),
    [
        ({"command": "insert 'y = 3' 1"}, 2),
        ({"text": "y = 3", "line": 1}, 2),
        ({"text": "y = 3"}, None),
        ({"text": "y = 3", "line": True}, None),
    ],
)
def test_insertion_in_the_open_file_is_shown_as_new_lines(args: dict[str, Any], number: int | None) -> None:
    shown = view("insert", args, "Done.")
    ((line,),) = shown.content["files"][0].hunks
    assert (line.sign, line.number) == ("ins", number)


def test_replaced_lines_given_as_arguments_are_shown_with_their_number() -> None:
    shown = view("edit", {"start_line": 4, "end_line": 5, "replacement_text": "z = 1"}, "Done.")
    ((line,),) = shown.content["files"][0].hunks
    assert (line.sign, line.number) == ("ins", 4)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("goto", {"command": "goto 7"}),
        ("goto", {"line_number": 7}),
        ("scroll_down", {}),
        ("scroll_up", {"command": "scroll_up"}),
    ],
)
def test_another_part_of_the_open_file_is_shown_with_its_path(name: str, args: dict[str, Any]) -> None:
    shown = view(name, args, "[File: /w/b.py (9 lines total)]\n7:a\n8:b\n(1 more lines below)\n")
    assert (shown.kind, shown.target) == ("read", "/w/b.py")
    assert [line.number for line in shown.content["lines"]] == [7, 8]


@pytest.mark.parametrize("args", [{"command": "submit\n"}, {}])
def test_submission_is_shown_as_a_patch(args: dict[str, Any]) -> None:
    patch = "\r\n".join(("", "diff --git a/a.py b/a.py", "--- a/a.py", "+++ b/a.py", "@@ -1 +1 @@", "-x = 1", "+x = 2"))
    shown = view("submit", args, patch)
    assert (shown.kind, shown.target, shown.content["returned"]) == ("diff", "a.py", "")
    assert [[line.sign for line in lines] for lines in shown.content["files"][0].hunks] == [["del", "ins"]]


def test_tool_that_is_named_after_its_command_is_shown_as_a_command() -> None:
    shown = view("ls", {"command": "ls -F"}, "AUTHORS.rst\tdocs/\nsetup.py\tsrc/")
    assert (shown.kind, shown.content["command"]) == ("command", "ls -F")
    assert str(shown.content["output"]) == "AUTHORS.rst\tdocs/\nsetup.py\tsrc/"
    assert view("ls", {"command": "rm -r x"}, "") is None
    assert view("count", {"command": "count", "unit": "words"}, "3") is None


def test_net_change_of_a_file_omits_reverted_edits() -> None:
    file = TouchedFile("a")
    for old, new in (("one", "two"), ("two", "three"), ("x", "y"), ("y", "x")):
        add_change_to_net_change(file, FileChange("a", "edited", (Hunk(old, new),)))
    assert file.hunks == [Hunk("one", "three")]
    add_change_to_net_change(file, FileChange("a", "written", (Hunk("", "all", 1),)))
    add_change_to_net_change(file, FileChange("a", "edited", (Hunk("all", "all of it"),)))
    assert (file.hunks, file.is_written) == ([Hunk("", "all of it", 1)], True)


TAGGED = """<cell id="a1"><cell_type>markdown</cell_type># Title</cell id="a1">
<cell id="b2">total = 1 + 2
print(total)</cell id="b2">

3

<cell id="c3"><language>r</language>plot(x)</cell id="c3">"""
FILE = {
    "metadata": {"kernelspec": {"language": "julia"}},
    "cells": [
        {"cell_type": "markdown", "id": "a1", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "f(x)",
            "outputs": [
                {"output_type": "stream", "text": ["one\n", "two\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "3", "text/html": "<b>3</b>"}},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                {"output_type": "error", "ename": "E", "evalue": "no", "traceback": []},
                7,
            ],
        },
        "no cell",
    ],
}


def test_notebook_is_shown_as_cells_with_outputs() -> None:
    shown = view("Read", {"file_path": "/w/a.ipynb"}, TAGGED)
    assert (shown.kind, shown.note, shown.is_complete) == ("notebook", "3 cells", True)
    cells = [(cell.name, cell.kind, cell.language, cell.source, cell.output) for cell in shown.content["cells"]]
    assert cells == [
        ("a1", "markdown", "python", "# Title", ""),
        ("b2", "code", "python", "total = 1 + 2\nprint(total)", "3"),
        ("c3", "code", "r", "plot(x)", ""),
    ]
    numbered = view("NotebookRead", {"notebook_path": "/w/a"}, "<cell 0>x = 1</cell 0>\n1\n<cell 1>y</cell 1>")
    assert [(cell.name, cell.source, cell.output) for cell in numbered.content["cells"]] == [
        ("0", "x = 1", "1"),
        ("1", "y", ""),
    ]
    title, code = view("read_file", {"path": "a.ipynb"}, json.dumps(FILE)).content["cells"]
    assert (title.source, title.is_prose, code.name, code.language) == ("# Title\ntext", True, "1", "julia")
    assert code.output == "one\ntwo\n3\n<Figure>\n[image/png, 4 bytes]\nE: no"


def test_long_notebook_is_folded_and_other_results_are_plain() -> None:
    many = "".join(f"<cell {number}>password = 'hunter22'</cell {number}>" for number in range(8))
    folded = view("Read", {"file_path": "a.ipynb"}, many)
    assert (len(folded.content["cells"]), folded.is_complete) == (6, False)
    assert "hunter22" not in str(folded.content)
    assert len(view("Read", {"file_path": "a.ipynb"}, many, is_whole=True).content["cells"]) == 8
    assert view("Read", {"file_path": "a.ipynb"}, '{"cells": 7}') is None
    assert view("Read", {"file_path": "a.ipynb"}, "<cell 0>cut off").content["cells"][0].source == "cut off"
    assert view("Read", {"file_path": "a.ipynb"}, "1\tplain").kind == "read"
    assert view("NotebookRead", {"notebook_path": "a.ipynb"}, "no such file", is_error=True) is None


def test_changed_cell_is_shown_as_a_cell() -> None:
    args = {"notebook_path": "/w/a.ipynb", "cell_id": "b2", "new_source": "x = 2", "edit_mode": "insert"}
    shown = view("NotebookEdit", args, "Inserted cell")
    (cell,) = shown.content["cells"]
    assert (shown.note, cell.name, cell.kind, cell.source) == ("new cell", "b2", "code", "x = 2")
    assert shown.content["returned"] == "Inserted cell"
    deleted = view(
        "NotebookEdit", {"notebook_path": "a.ipynb", "cell_number": 0, "new_source": "", "edit_mode": "delete"}
    )
    assert (deleted.note, deleted.content["cells"][0].name) == ("cell deleted", "0")
    assert view("NotebookEdit", {"notebook_path": "a.ipynb", "new_source": ["x"]}) is None


def test_tag_without_content_becomes_a_chip_instead_of_a_raw_tag() -> None:
    (piece,) = program_tags_in_messages.split_tagged_text("<local-command-stdout></local-command-stdout>")
    assert (piece.text, piece.chip is not None) == ("", True)


def test_web_search_whose_result_is_json_leaves_it_to_the_result() -> None:
    shown = view(
        "web_search", {"query": "numbers"}, '[{"title": "Pi", "url": "https://example.org/", "snippet": "3.14"}]'
    )
    assert (shown.label, shown.target, shown.content["returned"]) == ("Web search", "numbers", "")
    assert not shown.has_result


def test_web_search_lists_the_pages_that_it_found() -> None:
    found = '[{"title":"One [1]","url":"https://one.example/"},{"title":"Two","url":"javascript:alert(1)"}]'
    result = f"Results for numbers\n\nLinks: {found}\n\nOne comes before two."
    shown = view("WebSearch", {"query": "numbers"}, result)
    assert shown.content["pages"] == [("One [1]", "https://one.example/"), ("Two", "")]
    assert shown.content["returned"] == "Results for numbers\n\nOne comes before two."


def test_output_of_a_command_has_its_colours_and_names_other_control_characters() -> None:
    shown = view("Bash", {"command": "ls"}, "\x1b[31mred\x1b[0m and \x07")
    output = str(shown.content["output"])
    assert '<span class="ansi-red">red</span>' in output
    assert ("\x1b" in output, "\x07" in output) == (False, False)


def test_error_of_a_tool_is_shown_without_its_tag() -> None:
    error = "<tool_use_error>Read it first.</tool_use_error>"
    shown = view("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}, error, is_error=True)
    assert shown.content["returned"] == "Read it first."


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (["bash", "-lc", "sed -n '1,80p' src/a.py"], ["src/a.py"]),
        ("cd app && cat a.py b.txt | head -20", ["app/a.py", "app/b.txt"]),
        ("cat a.py && cd /srv/app && cat b.py && cd .. && cat c.py", ["a.py", "/srv/app/b.py", "/srv/c.py"]),
        ('cat a.py && cd "$HOME" && cat b.py', ["a.py"]),
        ("cat a.py ./a.py", ["a.py"]),
        ("nl -ba Makefile; tail -n 20 log.txt", ["Makefile", "log.txt"]),
        ("cat > a.py", []),
        ("sed -i 's/a/b/' a.py", []),
        ("cat *.py", []),
        ("echo 'cat a.py'", []),
        ("cat 'a.py", []),
        ("cat a.py # show the file", ["a.py"]),
        ("head -c 1K a.py && tail --lines 2K b.py", ["a.py", "b.py"]),
        ("bat -l python a", ["a"]),
        ("sed -n -e 1,5p -e 9p a.py", ["a.py"]),
        ("rg needle a.py", []),
        ("cat a.py 2>/dev/null", ["a.py"]),
        ("cat a.py 2> /dev/null | head; head b.py 2>&1", ["a.py", "b.py"]),
        ("cat a.py 2>>errors.log", ["a.py"]),
        ("cat a.py > b.py", []),
        ("cat a.py 2>/dev/null > b.py", []),
        ("cat a.py 2>$(touch b.py)", []),
    ],
)
def test_files_that_a_shell_command_displays_are_read(command: Any, files: list[str]) -> None:
    changes = list(iterate_file_reads_and_changes("shell", {"command": command}))
    assert [(change.path, change.hunks) for change in changes] == [(path, ()) for path in files]


def test_launch_of_a_subagent_that_works_in_the_background_is_not_its_end() -> None:
    args = {"description": "Compare adapters", "prompt": "Compare all adapters.", "run_in_background": True}
    launched = view("Task", args, "Async agent launched successfully.\nagentId: a1")
    assert (launched.is_launch, launched.chip) == (True, ("off", "Launched in the background"))
    finished = view("Task", args, "There are four adapters.")
    assert (finished.is_launch, finished.chip) == (False, None)
    assert view("Task", args, "Async agent launched, but failed", is_error=True).chip is None


@pytest.mark.parametrize(("result", "is_error"), [("SearchError: no answer", True), ('{"pages": []}', False)])
def test_search_that_failed_or_returned_data_is_named_as_others_and_leaves_its_result_as_it_is(
    result: str, is_error: bool
) -> None:
    shown = view("search_web", {"query": "review 1"}, result, is_error=is_error)
    assert (shown.label, shown.target) == ("Search", "review 1")
    assert (shown.has_template, shown.has_result) == (False, False)
    assert view("web_search", {"query": "review 1"}, result, is_error=is_error).label == "Web search"
    assert view("web_search", {"query": "review 1"}, "One page").label == "Web search"


def test_search_without_a_result_does_not_tell_that_nothing_was_found() -> None:
    asked = view("search_web", {"query": "review 1"})
    assert (asked.note, asked.content) == ("", {"output": "", "is_empty": False})
    found = view("search_web", {"query": "review 1"}, "")
    assert (found.note, found.content) == ("0 lines", {"output": "", "is_empty": True})
    card = CallCard(CallPart("c", "grep", {"pattern": "x"}), ResultPart("c", ()), None, ())
    without_text = build_first_fitting_tool_view(card)
    assert without_text is not None
    assert without_text.content["is_empty"]


def test_empty_lines_of_a_file_may_have_nothing_after_their_numbers() -> None:
    shown = view("Read", {"file_path": "a.txt"}, "     1\tone\n     2\n     3\tthree\n")
    assert [(line.number, str(line.html)) for line in shown.content["lines"]] == [(1, "one"), (2, ""), (3, "three")]
    plain = view("Read", {"file_path": "a.txt"}, "1\tone\n7\n")
    assert [str(line.html) for line in plain.content["lines"]] == ["1\tone", "7"]
