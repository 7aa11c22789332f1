"""Comparison of versions of two sessions: a fork and its origin, or any two."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.db import clock
from checkpoints.enums import CallStatus, SessionStatus
from checkpoints.formats import parse_json
from checkpoints.formats.digests import compute_hash_chains
from checkpoints.models import AuditEvent, Checkpoint, Message, Segment, Session
from checkpoints.models.run import FORK_RUN_NUMBER
from harness_site.sessions.compare import compare_versions
from harness_site.sessions.compare.call_pairs import pair_calls_of_two_sessions
from harness_site.sessions.compare.compare_versions import Comparison
from harness_site.sessions.compare.message_alignment import Added, Edited, Fold
from harness_site.sessions.selectors import transcript_message_queries
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_message,
    make_messages,
    make_run,
    make_session,
    make_workspace,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.fixture
def origin() -> Session:
    session = make_session(session_id="origin")
    make_run(session=session)
    make_messages(session=session, texts=["Hello.", "What is it?"])
    make_checkpoint(session=session)
    return session


def forked(origin: Session, **fields: Any) -> Session:
    """Create a fork of the newest version, which copies no message."""
    source = origin.checkpoints.order_by("-version")[0]
    fork = make_session(session_id="fork", forked_from=origin, forked_version=source.version, **fields)
    make_run(session=fork)
    segment = Segment.objects.create(session=fork, parent=source.segment, parent_length=source.length)
    fork.head_segment, fork.message_count = segment, source.length
    fork.save()
    make_checkpoint(session=fork)
    return fork


def forked_again(origin: Session, fork: Session) -> Session:
    """Create a second fork of the version of a fork, with the same first version."""
    first = fork.checkpoints.order_by("version")[0]
    second = make_session(
        session_id="second",
        forked_from=origin,
        forked_version=fork.forked_version,
        budget_spent_usd=fork.budget_spent_usd,
        total_tokens=fork.total_tokens,
    )
    make_checkpoint(session=second)
    Checkpoint.objects.filter(session=second).update(budget_spent_usd=first.budget_spent_usd, usage=first.usage)
    return second


def say(session: Session, text: str) -> None:
    make_message(session=session, body={"id": text, "role": "user", "content": text})


def path(one: Session, other: Session, query: str = "") -> str:
    return f"/sessions/{one.pk}/compare/?with={other.pk}{query}"


def compared(one: Session, a: int, other: Session, b: int) -> Comparison:
    found = compare_versions.compare_two_versions(one.pk, a, b, other=other.pk)
    assert found is not None
    return found


def test_fork_is_compared_with_its_origin(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    say(origin, "A broken lamp.")
    make_checkpoint(session=origin)
    say(fork, "A vase, unhurt.")
    make_checkpoint(session=fork)
    found = compared(origin, 2, fork, 2)
    assert [line.kind for line in found.lines] == ["fold", "removed", "added"]
    page = visible_text(reader.get(path(origin, fork, "&a=2")))
    assert f"Version 2 → version 2 of its fork {fork.session_id}" in page
    assert "… 2 messages are the same · read them" in page
    assert "A broken lamp." in page
    assert "A vase, unhurt." in page


def test_fork_is_compared_in_its_newest_version(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    say(origin, "A broken lamp.")
    make_checkpoint(session=origin)
    page = visible_text(reader.get(path(origin, fork)))
    assert f"Version 2 → version 1 of its fork {fork.session_id}" in page
    assert "A broken lamp." in page
    say(fork, "A vase, unhurt.")
    make_checkpoint(session=fork)
    assert "Version 2 → version 2 of its fork" in visible_text(reader.get(path(origin, fork)))
    assert "Version 2 of the fork → version 2 of the original" in visible_text(reader.get(path(fork, origin)))


def test_cost_and_tokens_say_what_a_fork_has_copied(origin: Session, reader: Client) -> None:
    copied: dict[str, Any] = {"budget_spent_usd": "0.004768", "usage": '{"total_tokens":400}'}
    make_checkpoint(session=origin, **copied)
    fork = forked(origin, budget_spent_usd="0.004768", total_tokens=400)
    Checkpoint.objects.filter(session=fork).update(**copied)
    make_checkpoint(session=origin, budget_spent_usd="0.012338", usage='{"total_tokens":1000}')
    assert "$0.00 + $0.004768 copied from the original" in visible_text(reader.get(f"/sessions/{fork.pk}/"))
    page = visible_text(reader.get(path(origin, fork)))
    assert (
        "Cost$0.012338 → $0.004768 −$0.007570 · $0.004768 of the second copied from the original "
        "Tokens1,000 → 400 −600 · 400 of the second copied from the original"
    ) in page
    page = visible_text(reader.get(path(fork, origin)))
    assert "+$0.007570 · $0.004768 of the first copied from the original" in page
    page = visible_text(reader.get(path(fork, forked_again(origin, fork))))
    assert "the same · copied from the originals: $0.004768 of the first, $0.004768 of the second" in page
    make_checkpoint(session=fork, budget_spent_usd="0.006", usage='{"total_tokens":450}')
    Session.objects.filter(pk=fork.pk).update(budget_spent_usd="0.006", total_tokens=450)
    page = visible_text(reader.get(f"/sessions/{fork.pk}/compare/?a=1&b=2"))
    assert "Cost$0.004768 → $0.006000 +$0.001232 · $0.004768 of each copied from the original" in page
    assert "Tokens400 → 450 +50 · 400 of each copied from the original" in page


def test_figures_begin_with_what_became_of_two_sessions(origin: Session, reader: Client) -> None:
    other = make_session(session_id="other", status=SessionStatus.COMPLETED)
    say(other, "A vase, unhurt.")
    make_checkpoint(session=other)
    Session.objects.filter(pk=origin.pk).update(status=SessionStatus.FAILED)
    page = visible_text(reader.get(path(origin, other)))
    assert "Status Failed→Completed of the sessions as they are now Duration" in page.replace(" → ", "→")
    assert "Status" not in visible_text(reader.get(f"/sessions/{origin.pk}/compare/")).partition("Messages")[0]


def test_todo_list_of_the_agent_is_compared_where_a_version_has_no_plan(origin: Session, reader: Client) -> None:
    other = make_session(session_id="other")
    for version, states in enumerate((["completed", "pending"], ["completed", "completed"]), start=1):
        say(other, f"A vase {version}.")
        todos = [{"content": text, "status": state} for text, state in zip(["Look", "Refund"], states, strict=True)]
        make_call(
            session=other,
            call_id=str(version),
            tool="TodoWrite",
            args={"todos": todos},
            step=version,
            side_effects="imported",
            status=CallStatus.COMPLETED,
        )
        make_checkpoint(session=other)
    page = visible_text(reader.get(path(origin, other)))
    assert "Plan steps done0 → 2 +2" in page
    assert "A version without a saved plan has the todo list that its agent kept with a tool." in page
    assert [step.new and step.new.text for step in compared(origin, 1, other, 2).plan] == ["Look", "Refund"]
    within = visible_text(reader.get(f"/sessions/{other.pk}/compare/?a=1&b=2"))
    assert "Plan steps done1 → 2 +1" in within
    assert "todo list" not in visible_text(reader.get(f"/sessions/{origin.pk}/compare/"))


def test_what_two_sessions_have_in_common_has_not_changed_and_what_differs_was_not_edited(
    origin: Session, reader: Client
) -> None:
    other = make_session(session_id="other", title="Vase")
    make_messages(session=other, texts=["Hello.", "What is that?"])
    for session, step in ((origin, "Look"), (other, "Refund it")):
        make_checkpoint(session=session, plan={"steps": [step]})
    response = reader.get(path(origin, other))
    page = visible_text(response).partition("Duration")[2]
    for words in ("the same", "Messages2 1 different", "1 message is the same and folded"):
        assert words in page
    assert "Refund it — “Look” in the first session" in page
    for word in ("unchanged", "Unchanged", "edited", "Edited"):
        assert word not in page.partition("Session data")[0]
    assert f"Compare {origin.title}, version 2, and Vase, version 1" in response.content.decode()
    assert "Compare versions 1 and 2" in reader.get(f"/sessions/{origin.pk}/compare/").content.decode()


def test_calls_of_two_sessions_are_paired_by_tool(origin: Session, reader: Client) -> None:
    other = make_session(session_id="other")
    say(other, "A vase, unhurt.")
    make_checkpoint(session=other)
    for session, calls in (
        (origin, {"run_tests": CallStatus.COMPLETED, "git_push": CallStatus.FAILED}),
        (other, dict.fromkeys(("run_tests", "look_up", "git_push"), CallStatus.COMPLETED)),
    ):
        for tool, status in calls.items():
            make_call(session=session, call_id=tool, tool=tool, issued_at=THEN - timedelta(days=1), status=status)
    found = compared(origin, 1, other, 1)
    pairs = pair_calls_of_two_sessions(found.calls_a, found.calls)
    tools = [tuple(record and record.tool for record in (pair.first, pair.second)) for pair in pairs]
    assert tools == [("run_tests", "run_tests"), (None, "look_up"), ("git_push", "git_push")]
    assert [pair.ended_differently for pair in pairs] == [False, False, True]
    assert "1 call ended differently" in visible_text(reader.get(path(origin, other)))


def test_calls_of_other_tools_are_no_pairs_and_folded_if_there_are_no_others(origin: Session, reader: Client) -> None:
    other = make_session(session_id="other")
    say(other, "A vase, unhurt.")
    make_checkpoint(session=other)
    for session, tool in ((origin, "refund_card"), (other, "change_title")):
        make_call(session=session, tool=tool, issued_at=THEN - timedelta(days=1), status=CallStatus.COMPLETED)
    found = compared(origin, 1, other, 1)
    pairs = pair_calls_of_two_sessions(found.calls_a, found.calls)
    tools = [tuple(record and record.tool for record in (pair.first, pair.second)) for pair in pairs]
    assert tools == [("refund_card", None), (None, "change_title")]
    assert "The sessions have no listed call in common." in visible_text(reader.get(path(origin, other)))
    before = THEN - timedelta(days=1)
    make_call(session=other, call_id="2", tool="refund_card", issued_at=before, status=CallStatus.COMPLETED)
    assert "no listed call in common" not in visible_text(reader.get(path(origin, other)))


def test_fork_that_nobody_resumed_has_undone_nothing(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    make_checkpoint(session=fork, plan={"steps": [{"text": "Close", "status": "todo"}]})
    fork.runs.update(number=FORK_RUN_NUMBER)
    say(origin, "A broken lamp.")
    make_checkpoint(session=origin, plan={"steps": [{"text": "Close", "status": "done"}]})
    sentence = "The fork has made no turn of its own yet."
    page = visible_text(reader.get(path(origin, fork)))
    assert sentence in page
    assert "“done” in the first session, “to do” in the second" in page
    assert sentence in visible_text(reader.get(path(fork, origin)))
    make_run(session=fork)
    assert sentence not in visible_text(reader.get(path(origin, fork)))


def test_edited_call_that_ended_differently_has_both_outcomes(reader: Client) -> None:
    sessions = [make_session(session_id=name) for name in ("fails", "works")]
    for session in sessions:
        call = {"kind": "tool_call", "id": "1", "name": "git_push", "args": {"branch": session.session_id}}
        result = {"kind": "tool_result", "call_id": "1", "content": session.session_id}
        say(session, "Push it.")
        make_message(session=session, body={"role": "assistant", "blocks": [call]})
        is_error = session is sessions[0]
        make_message(session=session, body={"role": "tool", "blocks": [{**result, "is_error": is_error}]})
        make_checkpoint(session=session)
    page = visible_text(reader.get(path(sessions[0], sessions[1])))
    assert "git_push Failed → Completed" in re.sub(r"\s*→\s*", " → ", re.sub("(git_push)(?=F)", "\\1 ", page))


def test_sessions_without_a_common_beginning_have_not_diverged(origin: Session, reader: Client) -> None:
    stranger = make_session(session_id="stranger")
    make_run(session=stranger)
    say(stranger, "A broken lamp.")
    make_checkpoint(session=stranger)
    for session in (origin, stranger):
        make_call(session=session, issued_at=THEN - timedelta(days=1), status=CallStatus.COMPLETED)
    page = visible_text(reader.get(path(origin, stranger)))
    assert "diverged" not in page
    assert "Logged calls1 → 1 up to these versions" in page
    assert "since the sessions diverged" not in page


def test_sessions_are_named_by_their_titles_if_these_differ(reader: Client) -> None:
    sessions = [make_session(session_id=name, title=f"Refund of a {name}") for name in ("lamp", "desk")]
    for session in sessions:
        make_message(session=session, role="user", text="go on")
        make_checkpoint(session=session)
    address = f"/sessions/{sessions[0].pk}/compare/?with={sessions[1].pk}"
    page = visible_text(reader.get(address))
    assert "Version 1 of Refund of a lamp → version 1 of Refund of a desk" in page
    assert "From Refund of a lamp, version" in page
    Session.objects.update(title="Refund")
    assert "Version 1 of lamp → version 1 of desk" in visible_text(reader.get(address))


def test_sessions_with_other_ids_and_times_are_aligned_by_content() -> None:
    one, two = make_session(session_id="one"), make_session(session_id="two")
    for number, session in enumerate((one, two)):
        make_run(session=session)
        order, at = f"100{number}", THEN + timedelta(hours=number)
        call = {"kind": "tool_call", "id": f"call-{number}", "name": "look_up", "args": {"shop": "lamps"}}
        result = {"kind": "tool_result", "call_id": f"call-{number}", "content": "12 lamps"}
        for place, (role, blocks) in enumerate(
            (
                ("system", [{"kind": "text", "text": "You refund orders."}]),
                ("user", [{"kind": "text", "text": f"Please refund order {order} today."}]),
                ("assistant", [call]),
                ("tool", [result]),
                ("assistant", [{"kind": "text", "text": "Done." if number else "It is not possible."}]),
            )
        ):
            body = {"id": f"{order}-{place}", "created_at": at.isoformat(), "role": role, "blocks": blocks}
            make_message(session=session, body=body, created_at=at)
        make_checkpoint(session=session)
    found = compared(one, 1, two, 1)
    assert [line.kind for line in found.lines] == ["fold", "edited", "fold", "removed", "added"]
    assert (found.shared, found.unchanged_count) == (0, 3)
    edited = found.lines[1]
    assert isinstance(edited, Edited)
    assert [piece.text for piece in edited.pieces if piece.change != "same"] == [" 1000", " 1001"]


def test_ids_of_sessions_count_only_if_one_is_a_fork(origin: Session) -> None:
    fork, stranger = forked(origin), make_session(session_id="stranger")
    make_run(session=stranger)
    for session, text in ((origin, "A broken lamp."), (fork, "Nothing was wrong."), (stranger, "Nothing was wrong.")):
        make_message(session=session, body={"id": "m2", "role": "user", "content": text})
        make_checkpoint(session=session)
    assert [line.kind for line in compared(origin, 2, fork, 2).lines] == ["fold", "edited"]
    assert [line.kind for line in compared(origin, 2, stranger, 1).lines] == ["removed"] * 3 + ["added"]


def test_repeated_messages_of_two_sessions_have_not_moved() -> None:
    sessions = []
    for name, texts in (("one", "ok a ok x y z"), ("two", "x y z ok b ok")):
        sessions.append(make_session(session_id=name))
        make_run(session=sessions[-1])
        for place, text in enumerate(texts.split()):
            make_message(session=sessions[-1], body={"id": f"{name}-{place}", "role": "user", "content": text})
        make_checkpoint(session=sessions[-1])
    found = compared(sessions[0], 1, sessions[1], 1)
    assert [line.kind for line in found.lines] == ["removed"] * 3 + ["fold"] + ["added"] * 3


def test_sessions_without_a_common_message_stand_side_by_side(origin: Session, reader: Client) -> None:
    stranger = make_session(session_id="stranger")
    make_run(session=stranger)
    make_messages(session=stranger, texts=["Good morning.", "I need help."])
    make_checkpoint(session=stranger)
    html = reader.get(path(origin, stranger)).content.decode()
    assert '<div class="apart">' in html
    assert 'href="#compared-plan"' in html

    make_message(session=stranger, body=parse_json(Message.objects.filter(session=origin).latest("position").body))
    make_checkpoint(session=stranger)
    assert '<div class="apart">' not in reader.get(path(origin, stranger)).content.decode()
    assert '<div class="apart">' not in reader.get(f"/sessions/{stranger.pk}/compare/").content.decode()


def test_each_line_links_to_its_session(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    say(origin, "A broken lamp.")
    make_checkpoint(session=origin)
    say(fork, "A vase, unhurt.")
    make_checkpoint(session=fork)
    html = reader.get(path(origin, fork, "&a=2")).content.decode()
    for session in (origin, fork):
        assert f'href="/sessions/{session.pk}/?v=2&amp;at=2#m-2"' in html
    assert f'href="/sessions/{fork.pk}/compare/?a=2&amp;b=2&amp;with={origin.pk}"' in html
    assert f"/compare/?a=2&amp;b=2&amp;with={fork.pk}" in html


def test_both_sessions_link_to_the_comparison(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    for session in (origin, fork):
        html = reader.get(f"/sessions/{session.pk}/versions/").content.decode()
        assert f'href="/sessions/{origin.pk}/compare/?with={fork.pk}"' in html


def test_calls_of_both_after_the_fork_are_compared(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    for session, tool in ((origin, "refund_card"), (fork, "send_voucher")):
        say(session, session.session_id)
        make_checkpoint(session=session)
        for call_id, of, minutes in (("old", "look_up", -1), ("new", tool, 1), ("next", "later", 3)):
            at = THEN + timedelta(minutes=minutes)
            make_call(session=session, call_id=call_id, tool=of, issued_at=at, status=CallStatus.COMPLETED)
    for version in (1, 2):
        at = THEN + timedelta(minutes=2 * (version - 1))
        Checkpoint.objects.filter(version=version).update(created_at=at)
    found = compared(origin, 2, fork, 2)
    assert [record.tool for record in found.calls_a.first] == ["refund_card"]
    assert [record.tool for record in found.calls.first] == ["send_voucher"]
    page = visible_text(reader.get(path(origin, fork, "&a=2")))
    assert "Logged calls1 → 1" in page
    assert "Logged calls since the sessions diverged" in page


def test_undecided_call_that_a_fork_has_copied_is_one_of_both(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    say(origin, "Refund it.")
    make_checkpoint(session=origin)
    for number, status in enumerate((CallStatus.INTERRUPTED, CallStatus.COMPLETED), 1):
        call: dict[str, Any] = {
            "call_id": f"call {number}",
            "tool": f"tool_{number}",
            "issued_at": THEN + timedelta(minutes=number),
        }
        make_call(session=origin, status=status, **call)
        make_call(session=fork, status=status, step=-number, **call)
    for session, version, minutes in ((origin, 1, 0), (origin, 2, 3), (fork, 1, 5)):
        at = THEN + timedelta(minutes=minutes)
        Checkpoint.objects.filter(session=session, version=version).update(created_at=at)
    assert [record.tool for record in compared(origin, 2, fork, 1).calls.first] == ["tool_1"]
    assert [record.tool for record in compared(fork, 1, origin, 2).calls_a.first] == ["tool_1"]
    page = visible_text(reader.get(path(origin, fork, "&a=2")))
    assert "Logged calls2 → 1" in page


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        (("order-17", "order-17-b"), ("order-17", "order-17-b")),
        (("support-of-shade-17", "support-of-shade-17-b"), ("support…f-shade-17", "support…shade-17-b")),
    ],
)
def test_sessions_whose_titles_begin_alike_have_their_ids(
    origin: Session, reader: Client, ids: tuple[str, str], shown: tuple[str, str]
) -> None:
    title = "Order 17 arrived with a cracked shade"
    fork = forked(origin)
    Session.objects.filter(pk=origin.pk).update(title=title, session_id=ids[0])
    Session.objects.filter(pk=fork.pk).update(title=f"{title} (fork of v1)", session_id=ids[1])
    page = visible_text(reader.get(path(origin, fork)))
    for name in shown:
        assert f"{name}, version" in page


def test_equal_prefixes_of_independent_sessions_are_shared(origin: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two imports of one conversation have different rows and equal chain digests."""
    twin = make_session(session_id="twin")
    make_run(session=twin)
    make_messages(session=twin, texts=["Hello.", "What is it?", "A vase."])
    make_checkpoint(session=twin)
    read: list[tuple[int, int]] = []
    window = transcript_message_queries.load_and_verify_newest_messages_within_size

    def counted(segment_id: int, first: int, upto: int, **limits: Any) -> Any:
        read.append((first, upto))
        return window(segment_id, first, upto, **limits)

    monkeypatch.setattr(transcript_message_queries, "load_and_verify_newest_messages_within_size", counted)
    found = compared(origin, 1, twin, 1)
    assert found.shared == 2
    assert read == [(2, 3)]
    assert isinstance(found.lines[1], Added)


@pytest.mark.parametrize("parts", mark_all_but_each(2, [0, 1, 64, 65, 700, 2_999]))
def test_common_prefix_is_found_with_few_digests(parts: int) -> None:
    one, two = _long("one", 3_000), _long("two", 3_000, other_from=parts)
    with CaptureQueriesContext(connection) as queries:
        found = compared(one, 1, two, 1)
    assert found.shared == parts
    digests = [query for query in queries if "chain" in query["sql"] and "body" not in query["sql"]]
    assert len([query for query in digests if "checkpoint" not in query["sql"]]) <= 3


@pytest.mark.unsealed("its number of statements is that without seals")
def test_messages_of_a_long_common_prefix_are_not_read(reader: Client, django_assert_num_queries: Queries) -> None:
    origin = _long("origin", 3_000)
    fork = forked(origin)
    make_message(session=fork, text="Only this is new.")
    make_checkpoint(session=fork)
    Message.objects.filter(segment__session=origin).update(body="not read, or it would not be JSON")
    found = compared(origin, 1, fork, 2)
    assert (found.shared, found.lines[0]) == (3_000, Fold(3_000, 0))
    assert [line.message.text for line in found.lines if isinstance(line, Added)] == ["Only this is new."]
    with django_assert_num_queries(11):
        compared(origin, 1, fork, 2)


def _long(name: str, count: int, other_from: int | None = None) -> Session:
    """Create a version with `count` messages, which differ from position `other_from` on."""
    session = make_session(session_id=name)
    make_run(session=session)
    segment = session.head_segment
    bodies = [f'{{"role":"user","content":"{number}{_tone(number, other_from)}"}}' for number in range(count)]
    Message.objects.bulk_create(
        Message(
            session=session, segment=segment, position=place, role="user", created_at=clock.now(), body=body, chain=link
        )
        for place, (body, link) in enumerate(zip(bodies, compute_hash_chains(bodies), strict=True))
    )
    session.message_count = count
    make_checkpoint(session=session)
    return session


def _tone(number: int, other_from: int | None) -> str:
    return "!" if other_from is not None and number >= other_from else "."


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize("messages", [1, 3])
def test_query_count_is_independent_of_the_differences(
    origin: Session, reader: Client, messages: int, django_assert_num_queries: Queries
) -> None:
    fork = forked(origin)
    for session in (origin, fork):
        for number in range(messages):
            make_message(session=session, text=f"{session.session_id} {number}")
            make_call(session=session, call_id=str(number), issued_at=clock.now())
        make_checkpoint(session=session)
    with django_assert_num_queries(43):
        reader.get(path(origin, fork))


def test_audit_entries_are_created_for_both_sessions(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    assert reader.get(path(origin, fork)).status_code == 200
    seen = AuditEvent.objects.filter(kind="viewed").order_by("session_id").values_list("session_id", flat=True)
    assert list(seen) == [origin.pk, fork.pk]


def test_session_of_another_workspace_is_not_found(origin: Session, reader: Client) -> None:
    foreign = make_session(workspace=make_workspace(slug="elsewhere"), title="Not for you")
    make_run(session=foreign)
    make_checkpoint(session=foreign)
    for one, other in ((origin, foreign), (foreign, origin)):
        answer = reader.get(path(one, other))
        assert answer.status_code == 404
        assert "Not for you" not in visible_text(answer)
    assert not AuditEvent.objects.filter(kind="viewed").exists()


@pytest.mark.parametrize("value", ["x", "-1", "²", "999999", "9" * 30])
def test_invalid_session_is_not_found(origin: Session, reader: Client, value: str) -> None:
    assert reader.get(f"/sessions/{origin.pk}/compare/?with={value}").status_code == 404


def test_each_version_is_searched_in_its_session(origin: Session, reader: Client) -> None:
    fork = forked(origin)
    make_checkpoint(session=fork)
    assert reader.get(path(origin, fork, "&a=1&b=2")).status_code == 200
    assert reader.get(path(origin, fork, "&a=2&b=1")).status_code == 404


def test_session_with_itself_is_an_ordinary_comparison(origin: Session, reader: Client) -> None:
    make_checkpoint(session=origin)
    assert "Version 1 → version 2" in visible_text(reader.get(path(origin, origin)))


def test_session_without_versions_cannot_be_compared(origin: Session, reader: Client) -> None:
    page = visible_text(reader.get(path(origin, make_session(session_id="empty"))))
    assert "One of the two sessions has no version yet." in page


def test_text_of_agents_is_escaped(reader: Client) -> None:
    script = "<script>alert(1)</script>"
    one, other = make_session(session_id=script, title=script), make_session(session_id=f"{script}2")
    for session in (one, other):
        make_run(session=session)
        make_message(session=session, text=f"{script}{session.pk}")
        make_checkpoint(session=session)
        make_call(session=session, tool=script, sentence=script, issued_at=clock.now() - timedelta(days=1))
    html = reader.get(path(one, other)).content.decode()
    assert script not in html
    assert "&lt;script&gt;alert(1)" in html
