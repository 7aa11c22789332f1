"""Search in a transcript for words, errors, decisions and message numbers."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client

from checkpoints.enums import CallStatus, Role
from checkpoints.framework_states import message_list_without_lease
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.integrity import verify_session_rows
from checkpoints.models import Segment, Session, ToolCall
from checkpoints.sessions.new_session_fields import NewSessionFields
from harness_site.accounts.models import MaskingSettings
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions import transcript_search
from harness_site.sessions.selectors import (
    conversation_window,
    find_words_errors_and_decisions,
    transcript_message_queries,
)
from harness_site.sessions.selectors.conversation_window import TranscriptVersion
from harness_site.sessions.selectors.find_words_errors_and_decisions import (
    Landmark,
    LandmarkSpot,
    find_next_error_or_decision,
    may_have_errors,
)
from harness_site.sessions.selectors.prompt_outline_and_version_summaries import load_prompt_outline
from tests.conftest import Open
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_messages,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.long_session import make_long_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    return session


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(role=Role.AUDITOR))
    return client


def asked(session: Session, call_id: str, *, tool: str = "pay", is_error: bool = False) -> None:
    """Create a call and its result as two messages."""
    ask = [{"kind": "tool_call", "id": call_id, "name": tool, "args": {}}]
    make_message(session=session, role="assistant", blocks=ask)
    answer = [{"kind": "tool_result", "call_id": call_id, "content": "x", "is_error": is_error}]
    make_message(session=session, role="tool", blocks=answer)


def found(session: Session, words: str, here: int) -> tuple[int, int | None, int | None, int]:
    at = transcript_search.find_nearest_transcript_hits(
        conversation_window.get_newest_transcript_version(session), SearchQuery.parse(words), here
    )
    return at.before, at.previous, at.following, at.after


def first(place: TranscriptVersion, *words: str) -> list[int | None]:
    return [transcript_search.find_first_hit_position(place, SearchQuery.parse(each)) for each in words]


def test_words_are_found_in_any_case_and_language(session: Session) -> None:
    make_messages(session=session, texts=["A LAMP", "none", "the „lamp“", "Straße 注文", 'a "quoted"\nline', "lamp"])
    assert found(session, "lamp", 2) == (1, 0, 5, 1)
    assert found(session, "lamp", 1) == (1, 0, 2, 2)
    place = conversation_window.get_newest_transcript_version(session)
    assert first(place, "注文", "STRASSE", 'A "q', "“", "nowhere", "%", "_") == [3, None, 4, 2, None, None, None]


def test_message_that_a_framework_wrote_is_found_and_shown_like_another_one(open_checkpointer: Open) -> None:
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "Where is the LAMP? " * 20},
        {
            "role": "assistant",
            "blocks": [{"kind": "tool_call", "id": "c1", "name": "look", "args": {"in": "shop " * 60}}],
        },
        {"role": "tool", "blocks": [{"kind": "tool_result", "call_id": "c1", "content": "no " * 99, "is_error": True}]},
    ]
    cp = open_checkpointer()
    description = NewSessionFields("Where is the lamp?")
    message_list_without_lease.write_next_version_built_by_callback(
        cp.store, "framework", description, lambda row, newest: VersionContent(None, added=said)
    )
    assert [type(body) for body in read_stored_bodies()] == [bytes if connection.vendor == "sqlite" else str] * 3
    session = Session.objects.get(session_id="framework")
    at = conversation_window.get_newest_transcript_version(session)
    assert first(at, "lamp", "shop", "nowhere") == [0, 1, None]
    assert find_next_error_or_decision(session, at, Landmark.ERROR, beyond=-1) == LandmarkSpot(1)
    assert [(prompt.position, prompt.title[:18]) for prompt in load_prompt_outline(at).prompts] == [
        (0, "Where is the LAMP?")
    ]
    bodies = [
        message.body
        for message in transcript_message_queries.load_and_verify_newest_messages_within_size(at.segment_id or 0, 0, 3)
    ]
    assert [json.loads(body) for body in bodies] == said
    verify_session_rows.require_session_unaltered(cp.store.using, session)


def test_page_of_a_hit_has_the_number_of_all_hits(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_messages(session=session, texts=["lamp"] * 137)
    make_checkpoint(session=session)
    address = f"/sessions/{session.pk}/?v=1&find=lamp&at=1"
    assert "lamp in message 2 2 of 137" in visible_text(reader.get(address))
    monkeypatch.setattr(transcript_search, "LIMIT", 100)
    assert "lamp in message 2 2 of more than 102" in visible_text(reader.get(address))


def read_stored_bodies() -> list[str | bytes]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT body FROM checkpoints_message ORDER BY position")
        return [body for (body,) in cursor.fetchall()]


def test_several_words_match_in_any_order_and_phrases_exactly(session: Session) -> None:
    make_messages(session=session, texts=["the shade", "a lamp", "its shade, cracked, and the lamp", "a cracked shade"])
    place = conversation_window.get_newest_transcript_version(session)
    assert first(place, "lamp shade", "cracked shade", '"cracked shade"', "lamp nowhere") == [2, 2, 3, None]


def test_older_version_is_searched_as_it_was(session: Session) -> None:
    make_messages(session=session, texts=["a", "lamp"])
    make_checkpoint(session=session)
    session.head_segment = Segment.objects.create(session=session, parent=session.head_segment, parent_length=1)
    session.save()
    make_message(session=session, text="shade")
    make_checkpoint(session=session)
    assert first(conversation_window.get_newest_transcript_version(session), "lamp") == [None]
    old = conversation_window.find_transcript_version(session, 1)
    assert old is not None
    assert first(old, "lamp", "shade") == [1, None]


def test_calls_results_and_unknown_blocks_are_found(session: Session) -> None:
    asked(session, "c1")
    make_message(session=session, blocks=[{"kind": "hologram", "depth": 17}])
    make_message(session=session, body={"role": "user", "content": [{"type": "thinking", "thinking": "hmm"}]})
    assert first(conversation_window.get_newest_transcript_version(session), "pay", "hologram", "hmm") == [0, 2, 3]


def test_masked_text_is_not_found(session: Session, reader: Client) -> None:
    MaskingSettings.objects.create(workspace=make_workspace(), words="violet-*")
    make_message(session=session, text="the password: hunter22 and violet-1")
    ask = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"secret": {"inner": "nested-99"}}}]
    make_message(session=session, role="assistant", blocks=ask)
    make_checkpoint(session=session)
    for words in ("hunter22", "violet-1", "nested-99"):
        assert "No message of version" in visible_text(reader.get(f"/sessions/{session.pk}/", {"find": words}))
    assert reader.get(f"/sessions/{session.pk}/", {"find": "the password"}).status_code == 302


@pytest.mark.unsealed("its messages have no chain of the library")
def test_search_opens_the_first_match_and_continues_from_there(reader: Client) -> None:
    pk = make_long_session(300, logged=False)
    response = reader.get(f"/sessions/{pk}/", {"find": "order-"})
    assert response.headers["Location"] == f"/sessions/{pk}/?v=3&find=order-&at=16#m-16"
    page = reader.get(response.headers["Location"])
    assert "order- in message 17 1 of 29 Previous Next Clear" in visible_text(page)
    html = page.content.decode()
    assert '<span class="btn" aria-disabled="true">Previous</span>' in html  # so that "Next" stays where it is
    assert '<code><mark class="current">order-</mark>16</code>' in html
    assert "<code><mark>order-</mark>24</code>" in html
    assert f'href="/sessions/{pk}/?v=3&amp;find=order-&amp;at=24#m-24" data-key="n"' in html
    last = reader.get(f"/sessions/{pk}/?v=3&find=order-&at=296")
    assert "order- in message 297 29 of 29 Previous Next Clear" in visible_text(last)


def test_only_messages_with_all_words_have_marks(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["Batch 11 is paid", "Batch 12 is paid", "Batch 13 is paid"])
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/?find=batch+12&at=1").content.decode()
    assert re.findall("<mark[^>]*>[^<]*", html) == ['<mark class="current">Batch 12']


def test_match_in_folded_text_is_located(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["word " * 4000 + "THE END"])
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/?find=the+end&at=0").content.decode()
    address = f"/sessions/{session.pk}/messages/0/?v=1&amp;find=the+end"
    assert f'Found in what is folded: <a href="{address}#found">' in html
    whole = reader.get(address.replace("&amp;", "&")).content.decode()
    assert '<mark id="found">THE END</mark>' in whole
    nowhere = reader.get(f"/sessions/{session.pk}/?find=nowhere&at=0").content.decode()
    assert "Found in what is folded" not in nowhere


def test_match_in_a_folded_result_is_shown_at_its_call(session: Session, reader: Client) -> None:
    ask = [{"kind": "tool_call", "id": "c1", "name": "dump", "args": {"why": "look " * 200 + "needle"}}]
    make_message(session=session, role="assistant", blocks=ask)
    told = [{"kind": "tool_result", "call_id": "c1", "content": "word " * 4000 + "THE END"}]
    make_message(session=session, role="tool", blocks=told)
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/?find=%22the+end%22&at=1").content.decode()
    assert f'<a href="/sessions/{session.pk}/messages/0/?v=1&amp;find=%22the+end%22#found">' in html
    html = reader.get(f"/sessions/{session.pk}/?find=needle&at=0").content.decode()
    assert '<details open class="long">' in html
    assert "Found in what is folded" not in html


def test_match_in_a_call_is_marked_on_its_page(session: Session, reader: Client) -> None:
    call = make_call(session=session, args={"order": "17", "why": "cracked shade"})
    html = reader.get(f"/sessions/{session.pk}/calls/{call.pk}/?find=shade+cracked").content.decode()
    assert '<mark id="found">cracked</mark> <mark>shade</mark>' in html
    assert "<mark" not in reader.get(f"/sessions/{session.pk}/calls/{call.pk}/").content.decode()


def test_hostile_search_words_are_escaped(session: Session, reader: Client) -> None:
    make_message(session=session, text="x")
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/", {"find": "\"><script>alert(1)</script>\0'"}).content.decode()
    assert "<script>alert" not in html


def landmark(session: Session, wanted: Landmark, beyond: int, *, back: bool = False) -> LandmarkSpot | None:
    return find_next_error_or_decision(
        session, conversation_window.get_newest_transcript_version(session), wanted, beyond=beyond, back=back
    )


def has_errors(session: Session) -> bool:
    return may_have_errors(session, conversation_window.get_newest_transcript_version(session))


def test_errors_are_found_in_results_and_in_the_call_log(session: Session) -> None:
    make_message(session=session, text='not one: "is_error":true')
    make_checkpoint(session=session)
    assert has_errors(session) is False
    asked(session, "c1", is_error=True)
    make_checkpoint(session=session)
    assert has_errors(session) is True
    make_message(session=session)
    asked(session, "c2")
    make_checkpoint(session=session)
    failed = make_call(session=session, call_id="c2", tool="pay", args={}, step=2, status=CallStatus.FAILED)
    open_one = make_call(session=session, call_id="c3", tool="pay", step=3)
    assert landmark(session, Landmark.ERROR, -1) == LandmarkSpot(1)
    assert landmark(session, Landmark.ERROR, 1) == LandmarkSpot(4, failed.pk)
    assert landmark(session, Landmark.ERROR, 4) == LandmarkSpot(None, open_one.pk)
    assert landmark(session, Landmark.ERROR, 6, back=True) == LandmarkSpot(4, failed.pk)
    assert landmark(session, Landmark.ERROR, 4, back=True) == LandmarkSpot(1)
    assert landmark(session, Landmark.ERROR, 1, back=True) is None


def test_refusal_that_gave_a_stored_result_is_no_error(session: Session) -> None:
    first = make_call(
        session=session, call_id="never-saved", tool="pay", args={}, step=0, status=CallStatus.COMPLETED, result="x"
    )
    ToolCall.objects.filter(pk=first.pk).update(replay_count=1)
    asked(session, "again", is_error=True)
    make_checkpoint(session=session)
    assert landmark(session, Landmark.ERROR, -1) is None
    assert has_errors(session) is False
    asked(session, "other", tool="look", is_error=True)
    make_checkpoint(session=session)
    assert landmark(session, Landmark.ERROR, -1) == LandmarkSpot(2)


def test_error_is_at_its_call_although_a_later_message_names_that(session: Session) -> None:
    ask = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {}}]
    make_message(session=session, role="assistant", blocks=ask)
    make_message(session=session, blocks=[{"type": "attachment", "id": "c1"}])  # of a hook
    answer = [{"kind": "tool_result", "call_id": "c1", "content": "x", "is_error": True}]
    make_message(session=session, role="tool", blocks=answer)
    make_checkpoint(session=session)
    assert landmark(session, Landmark.ERROR, -1) == LandmarkSpot(0)


def test_command_that_failed_is_an_error(session: Session) -> None:
    for number, code in enumerate((0, 2)):
        asked(session, f"c{number}", tool="shell")
        make_checkpoint(session=session)
        make_call(
            session=session,
            call_id=f"c{number}",
            tool="shell",
            args={},
            step=number,
            status=CallStatus.COMPLETED,
            result=f"Exit code {code}",
        )
        assert has_errors(session) is bool(code)
    assert landmark(session, Landmark.ERROR, -1) == LandmarkSpot(2, ToolCall.objects.get(exit_code=2).pk)


def test_failed_call_or_a_transcript_that_is_too_long_to_search_may_have_errors(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    assert has_errors(session) is False
    call = make_call(session=session, step=1, status=CallStatus.FAILED)
    assert has_errors(session) is True
    call.delete()
    monkeypatch.setattr(find_words_errors_and_decisions, "_MAX_MESSAGES_SEARCHED_FOR_ANY_ERROR", 1)
    assert has_errors(session) is True


def test_decisions_are_found_at_their_calls(session: Session) -> None:
    for number in range(3):
        asked(session, f"c{number}")
        make_checkpoint(session=session)
    calls = [
        make_call(session=session, call_id=f"c{number}", step=number, status=CallStatus.COMPLETED)
        for number in range(3)
    ]
    make_decision(call=calls[0])
    make_decision(call=calls[2])
    assert landmark(session, Landmark.DECISION, -1) == LandmarkSpot(0, calls[0].pk)
    assert landmark(session, Landmark.DECISION, 0) == LandmarkSpot(4, calls[2].pk)
    assert landmark(session, Landmark.DECISION, 4) is None
    assert landmark(session, Landmark.DECISION, 4, back=True) == LandmarkSpot(0, calls[0].pk)


def test_jump_opens_the_position(session: Session, reader: Client) -> None:
    asked(session, "c1", is_error=True)
    make_checkpoint(session=session)
    jump = f"/sessions/{session.pk}/jump/"

    def led(**query: str) -> str:
        return reader.get(jump, query).headers["Location"]

    assert led(where="2") == f"/sessions/{session.pk}/?v=1&at=1#m-1"
    beyond = led(where="999")
    assert beyond == f"/sessions/{session.pk}/?v=1&at=1&none=number&where=999#m-1"
    assert "no message with this number. Message 2 is the last one." in visible_text(reader.get(beyond))
    assert led(to="error") == f"/sessions/{session.pk}/?v=1&at=0#m-0"
    assert led(to="error", at="0") == f"/sessions/{session.pk}/?v=1&at=0&none=error#m-0"
    address = led(to="decision", at="1", back="1")
    assert parse_qs(urlsplit(address).query)["none"] == ["decision"]
    assert "There is no decision before message 2." in visible_text(reader.get(address))
    call = make_call(session=session, call_id="c9", step=1)
    assert led(to="error", at="0") == f"/sessions/{session.pk}/#call-{call.pk}"
    assert reader.get(jump, {"v": "7"}).status_code == 404


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize(("count", "more", "searches"), [(300, 0, 2), (900, 2, 1), (1_500, 2, 0)])
def test_query_count_is_constant_deep_in_a_long_transcript(
    reader: Client, count: int, more: int, searches: int, django_assert_num_queries: Queries
) -> None:
    """Two more queries read the prompts around the position beyond the outline, and up to two search for an error."""
    pk = make_long_session(count)
    reader.get(f"/sessions/{pk}/")
    with django_assert_num_queries(14 + more + searches):
        reader.get(f"/sessions/{pk}/?at=150")
    with django_assert_num_queries(16 + more + searches):
        assert "No message of version" in visible_text(reader.get(f"/sessions/{pk}/?at=150&find=nobody+says+this"))
