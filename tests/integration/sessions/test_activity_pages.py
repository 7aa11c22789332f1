"""Files, cost and tokens, subagents, todo lists and facts of a session."""

import json
import re
import tomllib
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.enums import CallStatus, CostBasis
from checkpoints.formats import to_canonical_json
from checkpoints.formats.plain_and_delta_compression import TextToCompress
from checkpoints.models import Checkpoint, Message, Session
from harness_site.search import indexer
from harness_site.sessions.tool_views import load_newest_todo_list, todo_lists
from tests.integration.sessions.conversation_samples import answers, asks, logged
from tests.support.factories import THEN, make_call, make_checkpoint, make_message, make_run, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
TOKEN = "ghp_" + "a1B2" * 9


def show(reader: Client, session: Session, path: str = "") -> tuple[str, str]:
    """Return the HTML and the visible text of a page of a session."""
    response = reader.get(f"/sessions/{session.pk}/{path}")
    return response.content.decode(), visible_text(response)


def edit(session: Session, call_id: str, path: str, old: str, new: str, **fields: object) -> None:
    logged(
        session,
        call_id,
        tool="Edit",
        args={"file_path": path, "old_string": old, "new_string": new},
        **{"settled_at": THEN + timedelta(seconds=1), **fields},
    )


def test_files_page_shows_the_net_change_of_each_file(reader: Client, session: Session) -> None:
    Session.objects.update(metadata=to_canonical_json({"working_directories": ["/work"]}))
    edit(session, "c1", "/work/a.py", "one", "two")
    edit(session, "c2", "/work/a.py", "two", f"three {TOKEN}")
    edit(session, "c3", "/work/b.py", "kept", "lost", status=CallStatus.FAILED)
    logged(session, "c4", tool="Read", args={"file_path": "/work/c.py"})
    logged(session, "c5", tool="pay", args={"file_path": "/work/no.py"})
    html, text = show(reader, session, "files/")
    assert "3 files, 1 changed." in text
    assert "a.py" in text
    assert "/work/a.py" not in text
    assert "two" not in text  # replaced again
    assert "lost" not in text  # that call failed
    assert re.search(r"b\.py not changed Edit \d\d:\d\d:\d\d failed c\.py read only", text)
    assert "no.py" not in text
    assert (TOKEN in html, "‹masked›" in html) == (False, True)
    assert "All files" in show(reader, session, "files/?file=0")[1]


def test_files_page_credits_only_calls_that_succeeded(reader: Client, session: Session) -> None:
    edit(session, "c1", "/work/a.py", "one", "two")
    edit(session, "c2", "/work/a.py", "kept", "lost", status=CallStatus.FAILED)
    edit(session, "c3", "/work/a.py", "kept", "lost", status=CallStatus.DISCARDED, settled_at=None)
    single = show(reader, session, "files/")[1]
    calls = r"1 edit · 2 not counted changed by Edit \S+ not counted: Edit \S+ failed, Edit \S+ has no result"
    assert re.search(rf"\+1 −1 {calls}", single)
    logged(session, "c4", tool="Read", args={"file_path": "/work/c.py"})
    text = show(reader, session, "files/")[1]
    assert re.search(rf"a\.py \+1 −1 {calls} /work/c\.py read only", text)
    assert re.search(rf"a\.py \+1 −1 {calls} − one \+ two", text)


def test_files_page_folds_the_differences_after_the_third(reader: Client, session: Session) -> None:
    for number in range(4):
        edit(session, f"c{number}", f"/work/f{number}.py", "one", "two")
    html = show(reader, session, "files/")[0]
    assert re.findall(r'<a href="#([a-z]+-\d)">', html) == ["file-0", "file-1", "file-2", "difference-3"]
    assert html.count("<details><summary>Difference</summary>") == 1
    assert html.index('id="file-3"') < html.index("<details><summary>Difference") < html.index('id="difference-3"')


def test_files_page_names_the_calls_that_changed_a_file_before_those_that_read_it(
    reader: Client, session: Session
) -> None:
    for number in range(50):
        logged(session, f"r{number}", tool="Read", args={"file_path": "/work/a.py"})
    edit(session, "c1", "/work/a.py", "one", "two")
    logged(session, "r50", tool="Read", args={"file_path": "/work/b.py"})
    text = show(reader, session, "files/")[1]
    found = re.search(r"1 edit · 50 reads changed by Edit \S+ read by (Read.*?) and 11 more /work/b.py read only", text)
    assert found is not None
    assert found[1].count("Read") == 39


def test_files_page_shows_edits_of_the_file_that_an_editor_has_open(reader: Client, session: Session) -> None:
    commands = (
        "edit 1:1\nnowhere\nend_of_edit",
        "create a.py\n",
        "edit 1:1\nx = 1\nend_of_edit",
        "open src/b.py 7",
        "open c.py",
        "edit 5:6\nunapplied\nend_of_edit",
    )
    for number, command in enumerate(commands):
        status = CallStatus.FAILED if "unapplied" in command else CallStatus.COMPLETED
        settled_at = THEN + timedelta(seconds=1)
        tool = command.split()[0]
        logged(session, f"c{number}", tool=tool, args={"command": command}, status=status, settled_at=settled_at)
    text = show(reader, session, "files/")[1]
    assert "3 files, 1 changed." in text
    assert re.search(r"c\.py not changed 1 read · 1 not counted open \S+ not counted: edit \S+ failed", text)
    assert "x = 1" in text
    assert "src/b.py" in text
    assert "nowhere" not in text  # the log does not say which file was open
    assert "unapplied" not in text


def test_costs_page_sums_by_turn_and_model_without_unknown_costs(reader: Client, session: Session) -> None:
    usages = (
        {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 30, "total_tokens": 45},
        {
            "input_tokens": 30,
            "output_tokens": 9,
            "cache_read_input_tokens": 90,
            "total_tokens": 129,
            "by_model": {"large-1": {"input_tokens": 30, "output_tokens": 9, "cache_read_input_tokens": 90}},
        },
    )
    for number, usage in enumerate(usages):
        make_message(session=session, role="user", text="go on")
        version = make_checkpoint(session=session)
        Checkpoint.objects.filter(pk=version.pk).update(
            usage=json.dumps(usage), budget_spent_usd=str(Decimal(number + 1) / 4)
        )
    text = show(reader, session, "costs/")[1]
    assert [word in text for word in ("large-1", "75 %", "$0.25", "84", "Cache share")] == [True] * 5
    Session.objects.update(cost_basis=CostBasis.UNKNOWN)
    for page in ("costs/", "versions/", "compare/?a=1&b=2"):
        assert "$" not in show(reader, session, page)[1]


def test_costs_have_the_same_decimal_places_and_caches_that_nobody_used_have_no_columns(
    reader: Client, session: Session
) -> None:
    for usage, spent in (({"input_tokens": 4}, "0.003312"), ({"input_tokens": 8}, "1.003312")):
        make_message(session=session, role="user", text="go on")
        version = make_checkpoint(session=session)
        Checkpoint.objects.filter(pk=version.pk).update(usage=json.dumps(usage), budget_spent_usd=spent)
    text = show(reader, session, "costs/")[1]
    assert [word in text for word in ("$0.003312", "$1.000000", "Cache")] == [True, True, False]


def test_versions_that_used_nothing_are_counted_and_not_listed(reader: Client, session: Session) -> None:
    for spent in ("0.5", "0.5", "0.5"):
        make_message(session=session, role="user", text="go on")
        version = make_checkpoint(session=session)
        Checkpoint.objects.filter(pk=version.pk).update(usage='{"input_tokens":8}', budget_spent_usd=spent)
    text = show(reader, session, "costs/")[1]
    assert "v1 " in text
    assert "v2 " not in text
    assert "2 versions used no tokens and are not listed." in text


def test_imported_session_says_what_its_transcript_does_not_state(reader: Client, session: Session) -> None:
    shown = ("Imported", "apply_prices prices.toml")
    Session.objects.update(total_tokens=7, cost_basis=CostBasis.UNKNOWN)
    assert [text in show(reader, session, "costs/")[1] for text in shown] == [False, False]
    Session.objects.update(metadata=to_canonical_json({"import": {"format": "claude-code"}}))
    page = show(reader, session, "costs/")[1]
    assert [text in page for text in shown] == [True, True]
    assert "Permissions" not in page
    version = make_checkpoint(session=session)
    usage = {"input_tokens": 3, "by_model": {"large-1": {"input_tokens": 3}}}
    Checkpoint.objects.filter(pk=version.pk).update(usage=json.dumps(usage))
    table = re.search(
        r'<pre[^>]*id="price-table"[^>]*><code>(.*?)</code>', show(reader, session, "costs/")[0], re.DOTALL
    )
    assert table is not None
    prices = dict.fromkeys(("input", "output", "cache_read", "cache_write"), 0.0)
    assert tomllib.loads(unescape(table[1])) == {"models": {"large-1": prices}}
    Session.objects.update(cost_basis=CostBasis.ESTIMATED)
    assert [text in show(reader, session, "costs/")[1] for text in shown] == [True, False]


def test_subagents_are_linked_both_ways_and_summed(reader: Client, session: Session) -> None:
    metadata = {
        "import": {"format": "claude-code"},
        "subagents": {"order-17/agent-1": "call_1"},
        "git_branches": ["fix/flaky"],
        "models": ["large-1"],
        "permission_modes": ["acceptEdits"],
    }
    child = make_session(session_id="order-17/agent-1", workspace=session.workspace)
    make_run(session=child)
    Session.objects.filter(pk=child.pk).update(
        parent_session_id="order-17", total_tokens=7, title="Find other sleeps", cost_basis=CostBasis.UNKNOWN
    )
    Session.objects.filter(pk=session.pk).update(
        metadata=to_canonical_json(metadata), total_tokens=5, budget_spent_usd=Decimal("0.5")
    )
    asks(session, args={"description": "Search", "prompt": "Find sleeps."}, tool="Task")
    answers(session, content="Two.")
    make_checkpoint(session=session)
    html, text = show(reader, session)
    assert f'href="/sessions/{child.pk}/"' in html
    assert [word in text for word in ("fix/flaky", "large-1", "Permissions acceptEdits", "Subagent")] == [True] * 4
    assert f'href="/sessions/{session.pk}/"' in show(reader, child)[0]
    assert "Subagent of" in show(reader, child)[1]
    for one in (session, child):
        tree = show(reader, one, "subagents/")[1]
        assert [
            word in tree
            for word in ("Find other sleeps", "12 with subagents", "1 subagent", "at least $0.50 with subagents")
        ] == [True] * 4
    with CaptureQueriesContext(
        connection,
    ) as few:
        show(reader, session, "subagents/")
    for number in range(2, 6):
        other = make_session(session_id=f"order-17/agent-{number}", workspace=session.workspace)
        Session.objects.filter(pk=other.pk).update(parent_session_id="order-17")
    with CaptureQueriesContext(connection) as many:
        show(reader, session, "subagents/")
    assert len(many) == len(few)


def test_secrets_in_the_titles_of_a_session_and_its_subagents_are_masked_on_the_pages_of_both(
    reader: Client, session: Session
) -> None:
    child = make_session(session_id="order-17/agent-1", workspace=session.workspace)
    secrets = {session: "Xk7fooBarQz9", child: "Qz9barFooXk7"}
    Session.objects.filter(pk=child.pk).update(parent_session_id=session.session_id)
    for each, secret in secrets.items():
        Session.objects.filter(pk=each.pk).update(title=f"Log in with {secret}")
        make_run(session=each, number=7)
        make_call(session=each, call_id="login", args={"password": secret})
    assert "Subagent of Log in with ‹masked›" in show(reader, child)[1]
    for one in (session, child):
        for page in ("", "subagents/"):
            assert [secret in show(reader, one, page)[0] for secret in secrets.values()] == [False] * 2
    assert show(reader, child, "subagents/")[1].count("Log in with ‹masked›") > 2


def test_subagents_of_the_same_title_are_told_apart(reader: Client, session: Session) -> None:
    for name, title, has_times in (("a-1", "Curry", True), ("a-2", "Curry", False), ("a-3", "Soup", True)):
        fields = {"parent_session_id": session.session_id, "created_at": THEN, "has_times": has_times}
        child = make_session(session_id=f"{session.session_id}/{name}", title=title, workspace=session.workspace)
        Session.objects.filter(pk=child.pk).update(**fields)
    tree = show(reader, session, "subagents/")[1]
    assert re.search(r"Curry refund-desk · a-1 · started \d\d", tree)
    assert "Curry refund-desk · a-2 · start unknown" in tree
    assert re.search(r"Soup refund-desk · started \d\d", tree)
    assert "a-3" not in tree


def test_subagents_are_in_order_of_start_and_their_costs_have_the_same_digits(reader: Client, session: Session) -> None:
    for name, minutes, cost in (("late", 9, "0.0129"), ("unknown", None, "0.012675"), ("early", 3, "1")):
        child = make_session(session_id=f"{session.session_id}/{name}", title=name, workspace=session.workspace)
        Session.objects.filter(pk=child.pk).update(
            parent_session_id=session.session_id,
            created_at=THEN + timedelta(minutes=minutes or 0),
            has_times=minutes is not None,
            budget_spent_usd=cost,
        )
    tree = show(reader, session, "subagents/")[1]
    assert re.search("early .*\\$1\\.000000 .*late .*\\$0\\.012900 .*unknown .* start unknown .*\\$0\\.012675 ", tree)


def test_newest_todo_list_replaces_a_missing_plan(reader: Client, session: Session) -> None:
    make_message(session=session, role="user", text="go on")
    make_checkpoint(session=session)
    for call_id, status in (("c1", "pending"), ("c2", "completed")):
        logged(session, call_id, tool="TodoWrite", args={"todos": [{"content": "Find it", "status": status}]})
    text = show(reader, session, "plan/")[1]
    assert [word in text for word in ("Todo list of the agent", "1 of 1 done", "Find it")] == [True] * 3


def test_todo_list_of_a_tool_whose_calls_are_not_logged_is_found_in_the_transcript(
    reader: Client, session: Session
) -> None:
    for status in ("pending", "in_progress"):
        todos = [{"content": f"Find {TOKEN}", "status": status}, {"content": "Tell it", "status": "completed"}]
        asks(session, args={"todos": todos}, tool="TodoWrite")
        answers(session, content="ok")
    make_message(session=session, role="assistant", text="The todos are clear.")
    make_checkpoint(session=session)
    html, text = show(reader, session, "plan/")
    words = ("Todo list of the agent", "1 of 2 done", "Tell it", "message 3, which wrote it", "in progress")
    assert [word in text for word in words] == [True] * 5
    assert f'href="/sessions/{session.pk}/?at=2#m-2"' in html
    assert TOKEN not in html


def test_plan_page_says_where_it_has_looked_for_a_plan(
    reader: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_message(session=session, role="user", text="I have a todo for you.")
    make_checkpoint(session=session)
    assert "neither the logged calls nor the transcript write a todo list" in show(reader, session, "plan/")[1]
    asks(session, args={"todos": [{"content": "Find it", "status": "pending"}]}, tool="TodoWrite")
    make_message(session=session, role="assistant", text="It is clear.")
    make_checkpoint(session=session)
    monkeypatch.setattr(load_newest_todo_list, "MAX_MESSAGES_SEARCHED", 1)
    sentence = "neither the logged calls nor the newest 1 messages of the transcript write a todo list"
    assert sentence in show(reader, session, "plan/")[1]


@pytest.mark.parametrize("is_compressed", [False, True], ids=["text", "compressed"])
def test_long_messages_are_not_searched_for_todo_lists(reader: Client, session: Session, is_compressed: bool) -> None:
    for content in ("Find it", "x" * load_newest_todo_list.MAX_MESSAGE_LENGTH):
        asks(session, args={"todos": [{"content": content, "status": "pending"}]}, tool="TodoWrite")
    make_checkpoint(session=session)
    if is_compressed and connection.vendor == "sqlite":
        body = TextToCompress(Message.objects.get(position=1).body).compress_if_shorter()
        assert len(body) < 1_000
        with connection.cursor() as cursor:
            cursor.execute("UPDATE checkpoints_message SET body = %s WHERE position = 1", [body])
    text = show(reader, session, "plan/")[1]
    assert ("Find it" in text, "message 1, which wrote it" in text) == (True, True)
    Message.objects.filter(position=0).update(body='{"role":"user"}')
    assert "Messages of more than 50,000 characters were not searched." in show(reader, session, "plan/")[1]


def test_message_of_few_characters_and_many_bytes_is_searched_for_todo_lists(reader: Client, session: Session) -> None:
    content = "字" * (load_newest_todo_list.MAX_MESSAGE_LENGTH - 1_000)
    asks(session, args={"todos": [{"content": content, "status": "pending"}]}, tool="TodoWrite")
    make_checkpoint(session=session)
    assert "message 1, which wrote it" in show(reader, session, "plan/")[1]


def test_plan_page_shows_the_first_steps_of_a_long_todo_list(
    reader: Client, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    todos = [{"content": f"Step {number}", "status": "completed"} for number in range(4)]
    asks(session, args={"todos": todos}, tool="TodoWrite")
    make_checkpoint(session=session)
    monkeypatch.setattr(todo_lists, "MOST_STEPS", 3)
    text = show(reader, session, "plan/")[1]
    assert ("4 of 4 done" in text, "Step 2" in text, "Step 3" in text) == (True, True, False)
    assert "1 more step is not shown." in text


def test_reminders_and_slash_commands_are_chips_with_their_text(reader: Client, session: Session) -> None:
    content = f"<command-name>/review</command-name>Hello <system-reminder>Mind {TOKEN}</system-reminder>"
    make_message(session=session, role="user", text=content)
    make_checkpoint(session=session)
    html, text = show(reader, session)
    words = ("Slash command", "/review", "Hello", "Reminder of the program")
    assert [word in text for word in words] == [True] * 4
    assert ("command-name" in html, TOKEN in html) == (False, False)


def test_list_is_filtered_by_project_branch_model_and_version(reader: Client, session: Session) -> None:
    context = {"cwd": "/work/shop", "git_branch": "fix/flaky", "model": "large-1", "program_version": "2.1"}
    body = {"role": "user", "content": "go on", "source": {"context": context}}
    make_message(session=session, body=body)
    make_message(
        session=make_session(session_id="order-18", workspace=session.workspace), body={"role": "user", "content": "x"}
    )
    while indexer.index_next_batch_of_each_kind():
        pass
    for query in ("project=shop", "branch=fix/flaky", "model=large-1", "program=2.1"):
        text = visible_text(reader.get(f"/sessions/?{query}"))
        assert ("order-17" in text, "order-18" in text) == (True, False)
