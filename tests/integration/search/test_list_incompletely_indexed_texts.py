"""Unreadable and too long texts are skipped by the indexer and reported."""

import threading
from io import StringIO
from time import process_time, sleep

import pytest
from django.core.management import call_command
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import Message, ToolCall
from harness_site.search import text_extraction
from harness_site.search.index_status import load_index_status
from harness_site.search.list_incompletely_indexed_texts import list_incompletely_indexed_texts
from harness_site.search.models import Kind, Passage, Problem
from harness_site.search.text_extraction import LONGEST, ExtractedText
from tests.integration.search.conftest import Search, complete
from tests.support import redos_texts
from tests.support.factories import make_call, make_message, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> str:
    """Id of a message whose parsing fails."""
    original = text_extraction.extract_masked_message_text

    def read(body: str, message_id: str) -> ExtractedText:
        if message_id == "m1":
            raise RecursionError("a value without end")
        return original(body, message_id)

    monkeypatch.setattr(text_extraction, "extract_masked_message_text", read)
    return "m1"


def test_unreadable_text_is_skipped_and_reported(
    unreadable: str, reader: Client, search: Search, caplog: pytest.LogCaptureFixture
) -> None:
    session = make_session(session_id="order-17")
    for text in ("a bulb", "a bad one", "another bulb"):
        make_message(session=session, text=text)
    out = StringIO()
    call_command("index_search", stdout=out)
    assert load_index_status().behind == 0
    assert len(search("bulb")) == 2
    assert "message 1 of session order-17: could not be read" in out.getvalue()
    assert "not in the search index" in caplog.text
    page = visible_text(reader.get("/sessions/?q=bulb"))
    assert "1 text is not indexed, or only in part" in page
    assert "message 1 of session order-17: could not be read" in page
    Message.objects.filter(message_id=unreadable).delete()
    assert list_incompletely_indexed_texts().total == 0


def test_unreadable_call_is_indexed_again_when_it_changes(monkeypatch: pytest.MonkeyPatch, search: Search) -> None:
    original = text_extraction.extract_masked_call_text

    def read(call: ToolCall) -> ExtractedText:
        if call.revision == 1:
            raise RecursionError
        return original(call)

    call = make_call(session=make_session(), args={"item": "bulb"}, status=CallStatus.ISSUED)
    ToolCall.objects.filter(pk=call.pk).update(revision=1)
    monkeypatch.setattr(text_extraction, "extract_masked_call_text", read)
    complete()
    assert [text.kind for text in list_incompletely_indexed_texts().texts] == [Kind.CALL]
    ToolCall.objects.filter(pk=call.pk).update(revision=2, status=CallStatus.COMPLETED)
    complete()
    assert list_incompletely_indexed_texts().total == 0
    assert len(search("bulb")) == 1


def test_beginning_of_a_very_long_text_is_found(search: Search) -> None:
    session = make_session()
    make_message(session=session, text="bulb " + "x " * (LONGEST // 2) + "shade")
    args = {"items": [{"name": "bulb"}, *[1] * LONGEST], "last": "shade"}
    make_message(session=session, blocks=[{"kind": "tool_call", "id": "c", "name": "buy", "args": args}])
    complete()
    assert [text.problem for text in list_incompletely_indexed_texts().texts] == [Problem.CUT, Problem.CUT]
    assert len(search("bulb")) == 2
    assert search("shade") == []


@pytest.mark.parametrize("text", ["x" * (LONGEST - 20), "a " * 1000])
def test_text_within_the_limit_is_indexed_completely(text: str) -> None:
    make_message(session=make_session(), text=text)
    complete()
    assert list_incompletely_indexed_texts().total == 0


@pytest.mark.parametrize("label", ["\x00", "a" * 300, "\ud800"])
def test_unstorable_label_does_not_stop_the_indexer(label: str) -> None:
    make_session(title="the bulb", labels=to_canonical_json([label]))
    complete()
    assert load_index_status().behind == 0
    assert "the bulb" in Passage.objects.get(kind=Kind.SESSION).text


def test_other_threads_run_while_hostile_texts_are_indexed() -> None:
    bodies = [
        to_canonical_json({"role": "assistant", "content": redos_texts.TEXTS[name](4_000_000)})
        for name in ("token beginnings", "letters and colons", "zero bytes", "digits", "escaped quotes", "hangul")
    ]
    reading = threading.Thread(
        target=lambda: [text_extraction.extract_masked_message_text(body, "m") for body in bodies]
    )
    longest, last = 0.0, process_time()
    reading.start()
    while reading.is_alive():
        sleep(0.005)
        longest, last = max(longest, process_time() - last), process_time()
    # Seconds of processor time, whatever else the machine does; patterns that try everything take minutes.
    assert longest < 5.0
