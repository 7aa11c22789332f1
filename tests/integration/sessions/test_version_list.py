import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.models import Checkpoint, Run, Segment, Session
from harness_site.sessions.selectors import version_list
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_message,
    make_messages,
    make_run,
    make_session,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    return session


def rewrite(session: Session, keep: int, *texts: str) -> None:
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=keep)
    session.message_count = keep
    session.save()
    make_messages(session=session, texts=texts)


def rows(session: Session) -> list[tuple[int, int, int]]:
    return [(row.version.version, row.added, row.removed) for row in version_list.load_version_page(session.pk).rows]


def test_each_version_shows_its_added_messages(session: Session) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    make_messages(session=session, texts=["c"])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    assert rows(session) == [(3, 0, 0), (2, 1, 0), (1, 2, 0)]


def test_version_shows_the_prompt_it_answers_and_a_link_to_its_changes(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["Ship it.", "Shipped."])
    make_checkpoint(session=session)
    make_messages(session=session, texts=["Mail her.", "Mailed."])
    make_checkpoint(session=session)
    page = reader.get(f"/sessions/{session.pk}/versions/")
    words = visible_text(page)
    assert "Mail her. +2 messages" in words
    assert "Ship it. +2 messages" in words
    assert f'href="/sessions/{session.pk}/compare/?a=1&amp;b=2"' in page.content.decode()
    assert words.count("Compare with v") == 1


def test_version_without_a_prompt_shows_its_last_text_and_the_tools_it_called(session: Session, reader: Client) -> None:
    run = make_run(session=session, host="worker-7")
    Run.objects.filter(pk=run.pk).update(started_at=THEN)
    make_messages(session=session, texts=["Ship it.", "I look at it."])
    make_checkpoint(session=session, run=run, length=1)
    first = make_checkpoint(session=session, run=run, length=2)
    Checkpoint.objects.filter(session=session).update(created_at=THEN)
    make_checkpoint(session=session, run=run)
    for number, tool in enumerate(["Edit", "Read", "Edit", "Bash", "Write"]):
        make_call(session=session, run=run, call_id=str(number), tool=tool, step=3)
    words = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert first.version == 2
    assert "run 2 worker-7 I look at it. +1 message" in words
    assert "5 logged calls: Edit ×2, Bash, Read, …" in words


def test_version_names_the_arguments_of_its_call_in_the_order_of_the_caller(session: Session, reader: Client) -> None:
    for number, tool in enumerate(("refund_card", "refund_later")):
        args = {"amount": "40.00", "order": number}
        call = {"kind": "tool_call", "id": "c1", "name": tool, "args": args}
        make_message(session=session, body={"role": "assistant", "blocks": [call]})
        make_checkpoint(session=session)
    make_call(session=session, call_id="c1", step=1, args={"order": 0, "amount": "40.00"})
    words = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert "Refund card: order 0, amount 40.00" in words
    assert "Refund later: amount 40.00, order 1" in words


def test_prompts_before_a_rewritten_conversation_are_not_shown(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["Ship it.", "Shipped."])
    make_checkpoint(session=session)
    rewrite(session, 0, "Summary of it.", "Go on.")
    make_checkpoint(session=session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert "Summary of it." in words
    assert "Ship it." not in words


def test_rewritten_version_shows_its_removed_messages(session: Session) -> None:
    make_messages(session=session, texts=["a", "b", "c"])
    make_checkpoint(session=session)
    rewrite(session, 1, "B")
    make_checkpoint(session=session)
    rewrite(session, 0, "summary")
    make_checkpoint(session=session)
    assert rows(session) == [(3, 1, 2), (2, 1, 2), (1, 3, 0)]


def test_answer_that_only_grew_is_continued_and_not_rewritten(session: Session, reader: Client) -> None:
    def answer(*texts: str) -> None:
        make_message(session=session, blocks=[{"kind": "text", "text": text} for text in texts])

    make_messages(session=session, texts=["a"])
    answer("look")
    make_checkpoint(session=session)
    for texts in (["look", "found"], ["look", "found", "done"], ["Look"]):
        rewrite(session, 1)
        answer(*texts)
        if texts[-1] == "done":
            make_messages(session=session, texts=["thanks"])
        make_checkpoint(session=session)
    found = version_list.load_version_page(session.pk).rows
    assert [row.is_answer_continued for row in found] == [False, True, True, False]
    page = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert page.count("The last answer was continued") == 2
    assert "The last answer was continued, +1 message" in page
    assert page.count("the conversation was rewritten") == 1


def test_versions_before_a_continued_answer_say_what_they_added(session: Session, reader: Client) -> None:
    text = {"kind": "text", "text": "One moment."}
    call = {"kind": "tool_call", "id": "c1", "name": "refund", "args": {"order": 17}}
    make_message(session=session, role="user", text="Please refund it.")
    make_message(session=session, role="assistant", blocks=[text])
    make_checkpoint(session=session)
    rewrite(session, 1)
    make_message(session=session, role="assistant", blocks=[text, call])
    make_checkpoint(session=session)
    make_message(session=session, role="assistant", blocks=[{"kind": "reasoning", "text": "Wait."}])
    make_checkpoint(session=session)
    rewrite(session, 2)
    make_message(session=session, role="assistant", blocks=[{"kind": "reasoning", "text": "Wait."}, call])
    make_checkpoint(session=session)
    page = reader.get(f"/sessions/{session.pk}/versions/").content.decode()
    said = [re.findall(r'class="said"[^>]*>([^<]+)', row) for row in page.split('<tr id="v-')[1:]]
    assert said == [["Refund: order 17"], ["Answer of the model"], ["Refund: order 17"], ["Please refund it."]]


def test_calls_that_have_not_happened_in_a_fork_are_stored_results(session: Session, reader: Client) -> None:
    fork = make_session(forked_from=session, forked_version=2)
    values: dict[str, Any] = {"session": fork, "tool": "Edit", "status": CallStatus.COMPLETED}
    make_call(call_id="c1", step=-3, answered_version=1, **values)
    for number in (1, 2):
        make_call(call_id=f"later{number}", step=-number, answered_version=None, **values)
    make_checkpoint(session=fork)
    page = visible_text(reader.get(f"/sessions/{fork.pk}/versions/"))
    assert "Logged calls 1Files" in page
    assert "1 logged call: Edit" in page
    assert "+2 stored results of calls that have not happened in this fork" in page


def test_fork_shares_the_messages_of_its_origin(session: Session) -> None:
    make_messages(session=session, texts=["a", "b"])
    forked = make_session()
    make_run(session=forked)
    forked.head_segment = Segment.objects.create(session=forked, parent=session.head_segment, parent_length=2)
    forked.message_count = 2
    forked.save()
    make_checkpoint(session=forked)
    make_messages(session=forked, texts=["c"])
    make_checkpoint(session=forked)
    rewrite(forked, 2, "C", "d")
    make_checkpoint(session=forked)
    assert rows(forked) == [(3, 2, 1), (2, 1, 0), (1, 2, 0)]


def test_version_is_compared_with_the_remaining_previous_one(session: Session) -> None:
    for text in "abc":
        make_messages(session=session, texts=[text])
        make_checkpoint(session=session)
    session.checkpoints.filter(version=2).delete()
    assert rows(session) == [(3, 2, 0), (1, 1, 0)]


def test_costs_and_tokens_are_differences(session: Session) -> None:
    make_checkpoint(session=session, budget_spent_usd="0.1", usage='{"input_tokens":10,"output_tokens":5}')
    make_checkpoint(session=session, budget_spent_usd='"0.25"', usage='{"total_tokens":100}')
    make_checkpoint(session=session, budget_spent_usd="damaged", usage="damaged")
    third, second, first = version_list.load_version_page(session.pk).rows
    assert (first.version.cost, first.version.tokens) == (Decimal("0.1"), 15)
    assert (second.cost_delta, second.tokens_delta) == (Decimal("0.15"), 85)
    assert (third.version.cost, third.cost_delta, third.version.tokens, third.tokens_delta) == (None, None, None, None)


def test_tokens_are_unknown_where_a_kind_went_down_although_the_total_went_up(session: Session, reader: Client) -> None:
    for input_tokens, output in ((900, 120), (1032, 30), (1040, 32)):
        make_checkpoint(session=session, usage=f'{{"input_tokens":{input_tokens},"output_tokens":{output}}}')
    third, second, _first = version_list.load_version_page(session.pk).rows
    assert (second.tokens_delta, second.have_tokens_fallen) == (None, True)
    assert (third.tokens_delta, third.have_tokens_fallen) == (10, False)
    page = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert "– tokens" in page
    assert "+42 tokens" not in page


def test_first_version_states_its_tokens(session: Session, reader: Client) -> None:
    for total in (1500, 1800, 2000):
        make_checkpoint(session=session, usage=f'{{"total_tokens":{total}}}')
    page = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert [words in page for words in ("+200 tokens", "+300 tokens", "+1,500 tokens")] == [True] * 3
    session.checkpoints.filter(version=1).delete()
    assert "+1,800 tokens" not in visible_text(reader.get(f"/sessions/{session.pk}/versions/"))


def test_page_describes_each_version(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session, plan={"steps": [{"text": "Pay", "status": "todo"}]}, phase="post_llm")
    rewrite(session, 1, "B", "c")
    make_checkpoint(
        session=session, plan={"steps": [{"text": "Pay", "status": "done"}, "Mail"]}, budget_spent_usd="0.043"
    )
    page = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    # Versions of the same second have milliseconds.
    Checkpoint.objects.filter(version=2).update(created_at=THEN + timedelta(milliseconds=7))
    for first_at, shown in ((THEN, "10:42:07.125"), (THEN - timedelta(seconds=1), "10:42:07")):
        Checkpoint.objects.filter(version=1).update(created_at=first_at)
        assert f" {shown} Turn" in visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert "−1 +2 messages: the conversation was rewritten" in page
    assert "Pay: done" in page
    assert "plan: Mail" in page
    assert "$0.043 +$0.012" in page
    assert "Model answer run 1 worker-3 +2 messages with a plan of 1 step" in page


def test_session_without_versions_is_explained(reader: Client) -> None:
    assert "No version has been saved yet." in visible_text(reader.get(f"/sessions/{make_session().pk}/versions/"))


def test_pages_are_consecutive(session: Session, reader: Client) -> None:
    for _ in range(version_list.PAGE + 2):
        make_checkpoint(session=session)
    first = reader.get(f"/sessions/{session.pk}/versions/").content.decode()
    assert first.count('<tr id="v-') == version_list.PAGE
    assert 'name="before" value="3"' in first
    second = reader.get(f"/sessions/{session.pk}/versions/?before=3").content.decode()
    assert second.count('<tr id="v-') == 2
    assert 'name="before"' not in second


def test_versions_selected_for_comparison_stay_selected_on_another_page(session: Session, reader: Client) -> None:
    for _ in range(version_list.PAGE + 5):
        make_checkpoint(session=session)

    def read_selected_versions(query: str) -> dict[str, str]:
        page = reader.get(f"/sessions/{session.pk}/versions/?{query}").content.decode()
        return dict(re.findall(r'type="radio" name="(\w)" value="(\d+)"[^>]* checked', page))

    newest = version_list.PAGE + 5
    assert read_selected_versions("") == {"a": str(newest - 1), "b": str(newest)}
    assert read_selected_versions("before=6") == {"a": "4", "b": "5"}
    assert read_selected_versions(f"before=6&a=2&b={newest}") == {"a": "2", "b": str(newest)}
    assert read_selected_versions("a=2&b=9") == {"a": "2", "b": "9"}
    assert read_selected_versions("before=6&a=9999&b=x") == {"a": "4", "b": "5"}
    assert read_selected_versions("before=1&a=2&b=3") == {}
    words = visible_text(reader.get(f"/sessions/{session.pk}/versions/?before=6&a=2&b={newest}"))
    assert f"v{newest} Selected on another page of this list v5" in words


@pytest.mark.parametrize("count", [2, 4])
def test_query_count_is_independent_of_the_versions(
    session: Session, reader: Client, count: int, django_assert_num_queries: Queries
) -> None:
    for number in range(count):
        rewrite(session, 0, str(number))
        make_checkpoint(session=session)
    with django_assert_num_queries(17):
        reader.get(f"/sessions/{session.pk}/versions/")


def test_version_that_ends_with_a_result_has_the_text_of_the_agent_or_its_call(
    session: Session, reader: Client
) -> None:
    answer = "I send **149.00 EUR**:\n\n- to the [card](https://a.example)\n- by mail\n\n"
    answer += "| what | value |\n|---|---|\n| price | 149 |\n| password | plum-horse-9 |\n\n```python\nprint(17)\n```"
    result: list[dict[str, Any]] = [{"kind": "tool_result", "call_id": "c1", "content": "paid"}]
    call: list[dict[str, Any]] = [{"kind": "tool_call", "id": "c1", "name": "refund_card", "args": {"order": 17}}]
    for blocks in ([{"kind": "text", "text": answer}, *call], call):
        make_message(session=session, role="assistant", blocks=blocks)
        make_message(session=session, role="tool", blocks=result)
        make_checkpoint(session=session)
    page = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert (
        "I send 149.00 EUR: to the card · by mail · what, value · price, 149 · password, ‹masked› +2 messages" in page
    )
    assert "Refund card: order 17 +2 messages" in page


def test_version_that_only_has_results_names_their_tools(session: Session, reader: Client) -> None:
    tools = {"c1": "book_flight", "c2": "look_up", "c3": "look_up", "c4": "x" * 300}
    calls: list[dict[str, Any]] = [
        {"kind": "tool_call", "id": call_id, "name": tool, "args": {}} for call_id, tool in tools.items()
    ]
    make_message(session=session, role="assistant", blocks=calls)
    make_checkpoint(session=session)
    for call_ids in (["c1"], ["c2", "c3"], ["c4"]):
        for call_id in call_ids:
            result = {"kind": "tool_result", "call_id": call_id, "content": "paid " * 1000}
            make_message(session=session, role="tool", blocks=[result])
        make_checkpoint(session=session)
    page = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert "Result of book_flight +1 message" in page
    assert "Results of look_up ×2 +2 messages" in page
    assert "Result of a tool +1 message" in page


def test_version_whose_messages_were_replaced_says_what_they_are(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["Ship it."])
    make_checkpoint(session=session)
    make_message(session=session, role="assistant", text="Shipped.")
    make_checkpoint(session=session)
    rewrite(session, 1, "Ship it tomorrow.")
    make_checkpoint(session=session)
    assert "Answer of the model +1 message" in visible_text(reader.get(f"/sessions/{session.pk}/versions/"))


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (
            '{"harness.framework": "LangGraph"}',
            "Versions outside of a run were written by the session store of LangGraph, which does not know of runs.",
        ),
        (
            "{}",
            "Versions outside of a run were appended while no run owned the session, with append_checkpoint or over "
            "the HTTP API.",
        ),
    ],
)
def test_page_says_why_versions_belong_to_no_run(session: Session, reader: Client, metadata: str, reason: str) -> None:
    Session.objects.filter(pk=session.pk).update(metadata=metadata)
    make_messages(session=session, texts=["Please refund order 17.", "Refunded."])
    make_checkpoint(session=session, length=1)
    pages = [f"/sessions/{session.pk}/versions/", f"/sessions/{session.pk}/timeline/"]
    assert not any("Versions outside of a run" in visible_text(reader.get(page)) for page in pages)
    make_checkpoint(session=session)
    Checkpoint.objects.filter(session=session, version=2).update(run=None)
    for page in pages:
        assert reason in visible_text(reader.get(page))


def test_pages_agree_at_which_version_a_call_was_logged_and_its_message_saved(reader: Client) -> None:
    """A framework that stores an answer while it is written replaces it by a longer one in the next version."""
    session = make_session()
    make_run(session=session)
    make_messages(session=session, texts=["Refund."])
    make_checkpoint(session=session)
    text = {"kind": "text", "text": "One moment."}
    blocks: list[dict[str, Any]] = [text, {"kind": "tool_call", "id": "c1", "name": "refund", "args": {}}]
    for number in (1, 2):
        rewrite(session, 1)
        make_message(session=session, role="assistant", blocks=blocks[:number])
        make_checkpoint(session=session)
    call = make_call(session=session, call_id="c1", tool="refund", step=1, status=CallStatus.COMPLETED)
    transcript = reader.get(f"/sessions/{session.pk}/").content.decode()
    assert re.findall(r">(v[0-9]+)</a><a class=\"permalink\"[^>]*at=([0-9]+)", transcript) == [("v1", "0"), ("v3", "1")]
    assert "v3, message 2 logged at v1" in visible_text(reader.get(f"/sessions/{session.pk}/calls/{call.pk}/"))
    rows = {row.version.version: row.calls for row in version_list.load_version_page(session.pk).rows}
    assert rows == {3: 0, 2: 0, 1: 1}
