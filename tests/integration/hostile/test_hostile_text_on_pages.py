"""Hostile text in every field is shown as text on every page."""

import json
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, Role
from checkpoints.models import Decision
from harness_site.core.hidden_characters import replace_hidden_characters_by_names
from harness_site.review import argument_edit_parsing_and_originals
from harness_site.search import indexer
from tests.support.client_login import sign_in
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import make_call, make_late_result, make_run, make_session, make_user
from tests.support.hidden_character_texts import (
    TOGETHER,
    list_hidden_characters,
    list_pages_of_session,
    make_hostile_session,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    return sign_in(client, make_user(role=Role.ADMIN))


def check(response: Any, address: str) -> str:
    assert response.status_code == 200, address
    html = str(response.content.decode())
    assert list_hidden_characters(html) == set(), address
    assert not any(list_hidden_characters(f"{name}{value}") for name, value in response.headers.items())
    assert response.headers["Content-Type"].startswith("text/plain") or "<script id=evil>" not in html
    return html


@pytest.mark.parametrize("text", mark_all_but_each(6, TOGETHER))
def test_every_page_shows_hostile_text_as_text(reader: Client, text: str) -> None:
    session = make_hostile_session(text)
    while indexer.index_next_batch_of_each_kind():
        pass
    for address in list_pages_of_session(session):
        html = check(reader.get(address), address)
        assert "cannot be shown" not in html, address


@pytest.mark.parametrize("text", mark_all_but_each(3, TOGETHER, first=1))
def test_readable_exports_show_hidden_characters_and_records_keep_them(reader: Client, text: str) -> None:
    session = make_hostile_session(text)
    for address in (f"/sessions/{session.pk}/export/html/", "/sessions/export/", "/audit/export/", "/calls/export/"):
        content = streamed(reader.get(address))
        assert list_hidden_characters(content) == set(), address
        assert "<script id=evil>" not in content or "/html/" not in address
    assert "</html>" in streamed(reader.get(f"/sessions/{session.pk}/export/html/"))
    lines = streamed(reader.get(f"/sessions/{session.pk}/export/jsonl/"))
    assert list_hidden_characters(lines) == set()
    records = [json.loads(line) for line in lines.splitlines()]
    assert any(text in leaves(record) for record in records)


def streamed(response: Any) -> str:
    assert response.status_code == 200
    return str(b"".join(response.streaming_content).decode())


def leaves(value: Any) -> list[str]:
    """Return every text in a JSON value, including keys."""
    if isinstance(value, dict):
        return [text for key, inner in value.items() for text in (key, *leaves(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in leaves(inner)]
    return [value] if isinstance(value, str) else []


def test_desktop_notification_is_text(reader: Client) -> None:
    for text in TOGETHER:
        make_hostile_session(text)
    told = reader.get("/review/news/?since=2020-01-01T00:00:00Z").json()["news"]
    assert told
    for one in told:
        assert list_hidden_characters(one["title"] + one["body"]) == set()


def test_unchanged_suggested_result_is_the_stored_one(reader: Client) -> None:
    """A text field shows hidden characters by name, and submits the stored text."""
    session = make_session()
    make_run(session=session)
    call = make_call(session=session)
    result = "done \x1b[31m\u202e\x00\ud800 ok"
    make_late_result(call=call, result=result)
    page = visible_text(reader.get(f"/review/calls/{call.pk}/"))
    assert "done ␛[31m‹U+202E›␀‹U+D800› ok" in page
    data = {
        "kind": "confirm_landed",
        "reason": "x",
        "revision": call.revision,
        "result": replace_hidden_characters_by_names(result),
    }
    assert reader.post(f"/review/calls/{call.pk}/", data).status_code == 302
    assert Decision.objects.get(tool_call=call).result_text == result


def test_edited_arguments_keep_hidden_characters(reader: Client) -> None:
    session = make_session()
    make_run(session=session)
    args = {"note\u202e": "a\u200bb\x02", "amount": 1, "emoji": "👩\u200d🔬"}
    call = make_call(session=session, args=args, status=CallStatus.AWAITING_APPROVAL)
    shown = argument_edit_parsing_and_originals.format_masked_arguments_if_editable(call.args)
    assert shown is not None
    assert list_hidden_characters(shown) == set()
    assert argument_edit_parsing_and_originals.parse_and_unmask_edited_arguments(
        shown.replace('"amount": 1', '"amount": 2'), call.args
    ) == {
        **args,
        "amount": 2,
    }
