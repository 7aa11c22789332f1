import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.models import Checkpoint, Session
from harness_site.core.word_diff import DiffPiece
from harness_site.sessions.compare.message_alignment import Edited
from harness_site.sessions.compare.message_part_differences import EditedField
from harness_site.sessions.selectors import transcript_message_queries
from tests.integration.sessions.compare_helpers import compared, lines, rewrite, say
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_message,
    make_messages,
    make_run,
    make_session,
    make_user,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    return session


def test_shared_messages_are_not_read(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    say(session, "a", "b")
    make_checkpoint(session=session)
    say(session, "c")
    make_checkpoint(session=session)
    read: list[tuple[int, int]] = []
    window = transcript_message_queries.load_and_verify_newest_messages_within_size

    def counted(segment_id: int, first: int, upto: int, **limits: Any) -> Any:
        read.append((first, upto))
        return window(segment_id, first, upto, **limits)

    monkeypatch.setattr(transcript_message_queries, "load_and_verify_newest_messages_within_size", counted)
    found = compared(session, 1, 2)
    assert (found.shared, lines(found)) == (2, [(2, 0), ("+", "c")])
    assert read == [(2, 3)]


def test_reversed_comparison_is_symmetric(session: Session) -> None:
    say(session, "a", "b")
    make_checkpoint(session=session)
    say(session, "c")
    make_checkpoint(session=session)
    assert lines(compared(session, 2, 1)) == [(2, 0), ("-", "c")]


def test_edited_message_shows_changed_words(session: Session) -> None:
    say(session, "hello", "The order qualifies for a partial refund.", "Anything else?")
    make_checkpoint(session=session)
    rewrite(session, 1)
    say(session, "The order qualifies for a full refund.", "Anything else?")
    make_checkpoint(session=session)
    found = compared(session, 1, 2)
    assert lines(found) == [
        (1, 0),
        ("~", "The order qualifies for a partial refund.", "The order qualifies for a full refund."),
        (1, 2),
    ]
    edited = found.lines[1]
    assert isinstance(edited, Edited)
    assert edited.pieces[1:3] == (DiffPiece("del", " partial"), DiffPiece("ins", " full"))
    assert (found.added_count, found.removed_count, found.edited_count, found.unchanged_count) == (0, 0, 1, 2)


def test_messages_with_equal_ids_are_matched(session: Session) -> None:
    say(session, "one", id="m1")
    make_checkpoint(session=session)
    rewrite(session, 0)
    say(session, "something else entirely", id="m1")
    make_checkpoint(session=session)
    assert lines(compared(session, 1, 2)) == [("~", "one", "something else entirely")]


def test_messages_with_different_ids_are_not_matched(session: Session) -> None:
    say(session, "the very same words", id="m1")
    make_checkpoint(session=session)
    rewrite(session, 0)
    say(session, "the very same words!", id="m2")
    make_checkpoint(session=session)
    assert lines(compared(session, 1, 2)) == [("-", "the very same words"), ("+", "the very same words!")]


def test_compaction_matches_copied_messages(session: Session) -> None:
    say(session, *[f"message {number}" for number in range(6)])
    make_checkpoint(session=session)
    rewrite(session, 0)
    say(session, "A summary of it all", "message 4", "message 5")
    make_checkpoint(session=session)
    assert lines(compared(session, 1, 2)) == [
        ("-", "message 0"),
        ("-", "message 1"),
        ("-", "message 2"),
        ("-", "message 3"),
        ("+", "A summary of it all"),
        (2, 1),
    ]


def test_cost_tokens_plan_and_calls_are_compared(session: Session) -> None:
    a = make_checkpoint(
        session=session,
        budget_spent_usd="0.019",
        usage='{"total_tokens":100}',
        plan={"goal": "x", "steps": [{"text": "Pay", "done": False}]},
    )
    b = make_checkpoint(
        session=session,
        budget_spent_usd="0.031",
        usage='{"total_tokens":3208}',
        plan={"goal": "y", "steps": [{"text": "Pay", "done": True}]},
    )
    Checkpoint.objects.filter(pk=a.pk).update(created_at=THEN)
    Checkpoint.objects.filter(pk=b.pk).update(created_at=THEN + timedelta(minutes=1))
    make_call(session=session, call_id="before", step=1, status=CallStatus.COMPLETED)
    between = make_call(session=session, call_id="between", step=2)
    make_call(session=session, call_id="after", step=3, status=CallStatus.COMPLETED)
    found = compared(session, 1, 2)
    assert [record.pk for record in found.calls.first] == [between.pk]
    assert [record.pk for record in compared(session, 2, 1).calls.first] == [between.pk]
    assert found.b.cost is not None
    assert found.a.cost is not None
    assert found.b.cost - found.a.cost == Decimal("0.012")
    assert found.is_plan_changed
    assert found.plan_rest == (EditedField("goal", (DiffPiece("del", "x"), DiffPiece("ins", "y"))),)


def test_page_describes_the_changes(session: Session, reader: Client) -> None:
    say(session, "hello", "The order qualifies for a partial refund.")
    make_checkpoint(session=session, plan={"steps": [{"text": "Pay", "status": "todo"}]}, budget_spent_usd="0.019")
    rewrite(session, 1)
    say(session, "The order qualifies for a full refund.", "Sent.")
    make_checkpoint(session=session, plan={"steps": [{"text": "Pay", "status": "doing"}]}, budget_spent_usd="0.031")
    response = reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2")
    page = visible_text(response)
    assert "Version 1 → version 2" in page
    assert (
        "Messages2 → 3 +1, 1 edited Plan steps done0 unchanged Logged calls0 between the two versions "
        "Cost$0.019 → $0.031 +$0.012 Tokens– not known"
    ) in page
    assert "… 1 unchanged message · read it · show it here" in page
    assert "Pay — was “to do”, now “in progress”" in page
    html = response.content.decode()
    assert 'id="session-head"' in html
    assert "qualifies for a <del>partial</del><ins>full</ins> refund." in html
    assert 'href="?a=2&amp;b=1"' in html
    assert f'data-copy="http://testserver/sessions/{session.pk}/compare/?a=1&amp;b=2"' in html


def test_default_comparison_is_newest_with_previous(session: Session, reader: Client) -> None:
    for _ in range(3):
        make_checkpoint(session=session)
    assert "Version 2 → version 3" in visible_text(reader.get(f"/sessions/{session.pk}/compare/"))
    assert "Version 2 → version 3" in visible_text(reader.get(f"/sessions/{session.pk}/compare/?b=3"))
    assert "Version 1 → version 3" in visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1"))


def test_version_compared_with_itself_is_unchanged(session: Session, reader: Client) -> None:
    say(session, "a")
    make_checkpoint(session=session)
    assert lines(compared(session, 1, 1)) == [(1, 0)]
    words = visible_text(reader.get(f"/sessions/{session.pk}/compare/"))
    assert "1 unchanged message is folded" in words
    assert "This session has only one version, so nothing differs." in words
    make_checkpoint(session=session, budget_spent_usd="0.07", usage='{"total_tokens":100}')
    words = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=2&b=2"))
    assert "Cost$0.07 unchanged Tokens100 unchanged" in words
    words = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=1"))
    assert "Both sides are version 1, so nothing differs." in words


def test_session_without_versions_cannot_be_compared(reader: Client) -> None:
    response = reader.get(f"/sessions/{make_session().pk}/compare/")
    assert response.status_code == 200
    assert "A comparison needs two versions." in visible_text(response)


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize("messages", [1, 3])
def test_query_count_is_independent_of_the_changes(
    session: Session, reader: Client, messages: int, django_assert_num_queries: Queries
) -> None:
    make_checkpoint(session=session)
    for number in range(messages):
        say(session, str(number))
        make_call(session=session, call_id=str(number), issued_at=THEN - timedelta(days=1))
    make_checkpoint(session=session)
    Checkpoint.objects.filter(version=1).update(created_at=THEN - timedelta(days=2))
    with django_assert_num_queries(20):
        reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2")


def test_calls_of_a_transcript_without_times_are_counted_by_version(session: Session, reader: Client) -> None:
    for _ in range(3):
        make_checkpoint(session=session)
    Checkpoint.objects.update(created_at=THEN)
    calls = [
        make_call(session=session, call_id=name, step=step, side_effects="imported", status=CallStatus.COMPLETED)
        for name, step in (("a", 1), ("b", 2), ("c", 2), ("d", 3))
    ]
    assert [record.pk for record in compared(session, 1, 2).calls.first] == [calls[1].pk, calls[2].pk]
    assert compared(session, 3, 1).calls.count == 3
    assert "Logged calls2 " in visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    rows = reader.get(f"/sessions/{session.pk}/versions/").context["page"].rows
    assert [row.calls for row in rows] == [1, 2, 1]


def test_versions_have_the_same_logged_calls_in_their_list_and_their_comparison(
    session: Session, reader: Client
) -> None:
    for number in range(3):
        make_checkpoint(session=session)
        Checkpoint.objects.filter(version=number + 1).update(created_at=THEN + timedelta(minutes=number))
    logged_at_second = make_call(session=session, step=2, issued_at=THEN + timedelta(minutes=1, seconds=1))
    rows = reader.get(f"/sessions/{session.pk}/versions/").context["page"].rows
    assert [(row.version.version, row.calls) for row in rows] == [(3, 0), (2, 1), (1, 0)]
    assert [record.pk for record in compared(session, 1, 2).calls.first] == [logged_at_second.pk]
    assert compared(session, 2, 3).calls.count == 0
    assert "Logged calls1 between the two versions" in visible_text(
        reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2")
    )


def test_call_logged_at_the_older_version_has_its_record_where_the_newer_one_saved_its_message(
    session: Session, reader: Client
) -> None:
    make_checkpoint(session=session)
    call = {"kind": "tool_call", "id": "c1", "name": "refund_card", "args": {"order": 17}}
    make_message(session=session, body={"role": "assistant", "blocks": [call]})
    record = make_call(session=session, call_id="c1", args={"order": 17}, step=1, status=CallStatus.FAILED)
    make_checkpoint(session=session)
    found = compared(session, 1, 2)
    assert (found.calls.count, [each.pk for each in found.calls.first_at_start]) == (0, [record.pk])
    assert "Failed" in visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))


def test_arguments_are_in_the_order_of_the_caller(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    args = {"amount": "40.00", "currency": "EUR", "order": 17}
    call = {"kind": "tool_call", "id": "c1", "name": "refund_card", "args": args}
    make_message(session=session, body={"role": "assistant", "blocks": [call]})
    make_call(session=session, call_id="c1", args={"order": 17, "amount": "40.00", "currency": "EUR"}, step=1)
    make_checkpoint(session=session)
    Checkpoint.objects.filter(version=1).update(created_at=THEN - timedelta(days=1))
    words = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    assert "order 17 amount 40.00 currency EUR" in words


def test_edit_is_shown_as_a_difference_with_its_status(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    args = {"file_path": "/srv/lamp.py", "old_string": "lamp = off", "new_string": "lamp = on\nlight = 1"}
    outcomes = (("c1", True), ("c2", False), ("c3", None), ("c4", None))
    for name, is_error in outcomes:
        call = {"kind": "tool_call", "id": name, "name": "Edit", "args": args}
        make_message(session=session, body={"role": "assistant", "blocks": [call]})
        if is_error is not None:
            result = {"kind": "tool_result", "call_id": name, "content": "Answer.", "is_error": is_error}
            make_message(session=session, role="tool", blocks=[result])
    make_checkpoint(session=session)
    make_call(
        session=session,
        call_id="c3",
        tool="Edit",
        args=args,
        status=CallStatus.DISCARDED,
        side_effects="imported",
        step=2,
    )
    response = reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2")
    words, html = visible_text(response), response.content.decode()
    heads = re.findall(r"Edit ?/srv/lamp.py ?\+2 −1 ?(\w*)( ?no result in the file)? (?:1 )?− ?lamp", words)
    assert heads == [("Failed", ""), ("Completed", ""), ("Discarded", "no result in the file"), ("", "")]
    assert "old_string" not in words
    assert "Tool · " not in words
    assert words.count("Answer.") == 2
    assert (html.count('<div class="del">'), html.count('<div class="ins">')) == (4, 8)
    assert html.index('class="del"') < html.index('class="ins"')


def test_edited_call_says_what_differs_and_hides_its_secrets_in_all_arguments(session: Session, reader: Client) -> None:
    def show(old: dict[str, Any], new: dict[str, Any], **fields: Any) -> str:
        rewrite(session, 0)
        for args, more in ((old, {}), (new, fields)):
            call = {"kind": "tool_call", "id": "c1", "name": "Bash", "args": args}
            make_message(session=session, body={"role": "assistant", "id": "m", "blocks": [call], **more})
            make_checkpoint(session=session)
            rewrite(session, 0)
        b = session.latest_version
        html = reader.get(f"/sessions/{session.pk}/compare/?a={b - 1}&b={b}").content.decode()
        return html.partition('id="compared-transcript">')[2].partition("<footer")[0]

    hidden = "Only data that is not shown here differs"
    command = {"command": "login hunter2hunter2", "password": "hunter2hunter2"}
    timed = show({**command, "timeout": 1}, {**command, "timeout": 2})
    assert "$ </span>login ‹masked›" in timed
    assert "<dd><del>1</del><ins>2</ins>" in timed
    assert "hunter2" not in timed
    assert hidden not in timed
    assert hidden in show({**command, "order": 1}, {**command, "order": "1"})
    assert hidden in show(command, {**command, "password": "another1another1"})
    assert hidden in show(command, command, created_at="2026-01-01T00:00:00+00:00")


def test_tokens_that_only_one_version_knows_are_shown(session: Session, reader: Client) -> None:
    make_checkpoint(session=session, usage="{}")
    make_checkpoint(session=session, usage='{"total_tokens":3208}')
    first, second = (visible_text(reader.get(f"/sessions/{session.pk}/compare/?{query}")) for query in ("", "a=2&b=1"))
    assert "Tokens– → 3,208 the first is not known" in first
    assert "Tokens3,208 → – the second is not known" in second


def test_first_result_names_the_tool_of_its_unchanged_call(session: Session, reader: Client) -> None:
    calls = [{"kind": "tool_call", "id": f"c{number}", "name": f"tool_{number}", "args": {}} for number in range(2)]
    make_message(session=session, body={"role": "assistant", "blocks": calls})
    make_checkpoint(session=session)
    for number in range(2):
        result = {"kind": "tool_result", "call_id": f"c{number}", "content": "done"}
        make_message(session=session, role="tool", blocks=[result])
    make_checkpoint(session=session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    assert "Tool · tool_0 · " in words
    assert "Tool · tool_1 · " in words


def test_edited_message_with_another_text_beside_its_call_compares_the_arguments(
    session: Session, reader: Client
) -> None:
    def save(order: int, *texts: str) -> None:
        rewrite(session, 0)
        call = {"kind": "tool_call", "id": "c1", "name": "refund", "args": {"order": order}}
        blocks = [*({"kind": "text", "text": text} for text in texts), call]
        make_message(session=session, body={"role": "assistant", "id": "m", "blocks": blocks})
        make_checkpoint(session=session)

    save(17, "It is within the policy.")
    save(18)
    html = reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2").content.decode()
    assert "<del>It is within the policy.</del>" in html
    assert re.search(r"<dt>order</dt><dd>\s*<del>17</del><ins>18</ins>", html)
    assert '<b class="mono">refund</b>' in html
    save(18, "It is within the policy.")
    rewrite(session, 0)
    call = {"kind": "tool_call", "id": "c2", "name": "send_mail", "args": {"to": "alex"}}
    make_message(session=session, body={"role": "assistant", "id": "m", "blocks": [call]})
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/compare/?a=3&b=4").content.decode()
    assert '<b class="mono"><del>refund</del></b>' in html
    assert '<b class="mono"><ins>send_mail</ins></b>' in html


def test_json_result_of_a_tool_is_a_labelled_list(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    for content in ('{"item": "Lamp", "paid": 40}', "plain text"):
        result = {"kind": "tool_result", "call_id": "c1", "content": content}
        make_message(session=session, role="tool", blocks=[result])
    make_checkpoint(session=session)
    response = reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2")
    assert "item Lamp paid 40 " in visible_text(response)
    assert "Tool · 2025" in visible_text(response)  # neither a message nor the log has the call
    assert '<p class="words mono">plain text</p>' in response.content.decode()


def test_command_is_shown_as_in_the_transcript(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    results = (
        {"output": "nothing to commit", "metadata": {"exit_code": 1, "duration_seconds": 0.5}},
        {"output": "", "metadata": {"exit_code": 0, "duration_seconds": 0.5}},
    )
    for number, content in enumerate(results):
        args = {"command": ["bash", "-lc", f"git commit -m v{number}"], "workdir": "/srv"}
        call = {"kind": "tool_call", "id": f"c{number}", "name": "shell", "args": args}
        result = {"kind": "tool_result", "call_id": f"c{number}", "content": json.dumps(content)}
        make_message(session=session, body={"role": "assistant", "blocks": [call]})
        make_message(session=session, role="tool", blocks=[result])
    make_checkpoint(session=session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    assert re.findall(r"shell ?(exit 1|Completed) in /srv \$ (git commit -m v\d\s+\w+ \w+)", words) == [
        ("exit 1", "git commit -m v0 nothing to"),
        ("Completed", "git commit -m v1 No output"),
    ]
    assert "Tool · " not in words
    assert not any(raw in words for raw in ("-lc", "exit_code", "duration_seconds"))


def test_call_of_an_mcp_server_shows_its_arguments_and_its_result(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    for number, has_result in enumerate((True, False)):
        call = {"kind": "tool_call", "id": f"c{number}", "name": "mcp__mail__send_mail", "args": {"order": 17 + number}}
        make_message(session=session, body={"role": "assistant", "blocks": [call]})
        if has_result:
            result = {"kind": "tool_result", "call_id": f"c{number}", "content": "Sent."}
            make_message(session=session, role="tool", blocks=[result])
    make_checkpoint(session=session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    assert re.findall(r"send_mail ?MCP server mail ?(\w*) Arguments order (\d+)( Result Sent\.)?", words) == [
        ("Completed", "17", " Result Sent."),
        ("", "18", ""),
    ]


def test_unfolded_messages_have_anchors_also_if_they_are_results_in_their_calls(
    session: Session, reader: Client
) -> None:
    say(session, "Pay them.")
    for number in range(60):
        call = {"kind": "tool_call", "id": f"c{number}", "name": "pay", "args": {"order": number}}
        make_message(session=session, body={"role": "assistant", "blocks": [call]})
        result = {"kind": "tool_result", "call_id": f"c{number}", "content": "Paid."}
        make_message(session=session, role="tool", blocks=[result])
    make_checkpoint(session=session)
    say(session, "Done.")
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2&open=0&open=50").content.decode()
    assert re.findall(r'id="m-(\d+)"', html) == [str(position) for position in range(100)]


def test_prompt_of_an_editor_is_shown_without_its_state(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    state = "# Context from my IDE setup:\n\n## Open tabs:\n" + "- lamp.py: src/lamp.py\n" * 200
    make_message(session=session, text=f"{state}\n## My request for Codex:\nRepair the lamp.")
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/compare/?a=1&b=2").content.decode()
    state_end = html.index("</details>", html.index("State of the editor"))
    assert html.index("Open tabs") < state_end < html.index("Repair the lamp.")


def test_table_of_an_added_message_is_a_table_and_a_longer_text_leads_to_the_whole(
    session: Session, reader: Client
) -> None:
    make_messages(session=session, texts=["before"])
    make_checkpoint(session=session)
    table = "| | before | after |\n|---|---|---|\n| total | 19.889999 | 19.89 |\n| tests | 47 | 52 |"
    make_messages(session=session, texts=["One line.\n" * 9 + "\n" + table])
    make_checkpoint(session=session)
    address = f"/sessions/{session.pk}/compare/?a=1&b=2"
    html = reader.get(address).content.decode()
    assert "<table" in html
    assert "19.889999</td>" in html
    assert "Show all" not in html
    make_messages(session=session, texts=["One line.\n" * 14 + "\n" + table + "\n| more | 1 | 2 |" * 20])
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/compare/?a=2&b=3").content.decode()
    assert f'<a href="/sessions/{session.pk}/?v=3&amp;at=2#m-2">Show all</a>' in html
    assert "| before" not in html


def test_record_of_a_program_is_shown_as_in_the_transcript(session: Session, client: Client) -> None:
    client.force_login(make_user())
    say(session, "a")
    make_checkpoint(session=session)
    attachment = {"type": "hook_deferred_tool", "toolInput": {"amount": 40}}
    make_message(
        session=session, body={"role": "system", "content": [{"type": "attachment", "attachment": attachment}]}
    )
    make_checkpoint(session=session)
    page = visible_text(client.get(f"/sessions/{session.pk}/compare/?a=1&b=2"))
    assert "Hook hook deferred tool" in page
    assert "type attachment" not in page
