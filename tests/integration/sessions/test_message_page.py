"""Pages of single messages and calls, their media, and copy buttons."""

import base64
import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.models import Session
from harness_site.sessions.message_media_sources import MAX_AUDIO
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_message,
    make_messages,
)
from tests.support.page_text import get_session_page, visible_text

pytestmark = pytest.mark.django_db

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_message_leads_to_the_messages_beside_it(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["first"])
    blocks = [{"kind": "tool_call", "id": "c1", "name": "look", "args": {}}]
    make_message(session=session, role="assistant", blocks=blocks)
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "c1", "content": "seen"}])
    make_message(session=session, role="assistant", text="last")
    make_checkpoint(session=session)
    found = [
        re.findall(
            r'rel="(prev|next)" href="[^"]*/messages/(\d)/', get_session_page(reader, session, f"messages/{at}/")
        )
        for at in range(4)
    ]
    call = [("prev", "0"), ("next", "3")]  # its page shows its result, too
    assert found == [[("next", "1")], call, call, [("prev", "2")]]


def test_long_text_is_folded_and_complete_on_its_page(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["word " * 4000 + "THE END"])
    make_checkpoint(session=session)
    html = get_session_page(reader, session)
    assert "THE END" not in html
    assert f'href="/sessions/{session.pk}/messages/0/?v=1"' in html
    assert "Show all · 20 KB" in visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert "THE END" in get_session_page(reader, session, "messages/0/?v=1")


def test_encrypted_reasoning_is_named_and_not_shown(session: Session, reader: Client) -> None:
    thought: dict[str, Any] = {
        "type": "reasoning",
        "summary": [],
        "content": None,
        "encrypted_content": "gAAAAABo1WTN" * 10,
    }
    make_message(session=session, role="assistant", blocks=[thought])
    make_checkpoint(session=session)
    html = get_session_page(reader, session)
    assert "gAAAAABo1WTN" not in html
    assert '<details class="reasoning"><summary>Reasoning, encrypted</summary>' in html
    assert "Only the provider of the model can read this text (120 bytes)." in visible_text(
        reader.get(f"/sessions/{session.pk}/")
    )
    copied = reader.get(f"/sessions/{session.pk}/messages/0/?v=1&as=text")
    assert copied.content.decode() == "Reasoning, encrypted"
    assert "gAAAAABo1WTN" in get_session_page(reader, session, "messages/0/?v=1")  # as it is stored


def test_text_that_is_json_is_shown_as_data(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=['[{"snippet": "Heat pumps", "url": "https://example.org/"}]', "[not JSON]"])
    make_checkpoint(session=session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert "snippet Heat pumps url https://example.org/" in words
    assert "[not JSON]" in words


def read_pages(reader: Client, html: str) -> tuple[str, int]:
    """Read all pages of a long text; return it and the number of pages."""
    text, count = "", 0
    address = re.search(r'<p class="fold"><a href="([^"]*text=[^"]*)"', html)
    link = address[1] if address else None
    link = link and link.replace("page=2", "page=1")
    while link:
        html = reader.get(unescape(link)).content.decode()
        body = re.search(r'<div class="tool-output"[^>]*>(.*?)</div></div>', html, re.DOTALL)
        assert body is not None
        text, count = text + unescape(re.sub("<[^>]*>", "", body[1])), count + 1
        following = re.search(r'rel="next" href="([^"]*)"', html)
        link = following[1] if following else None
    return text, count


def test_text_of_two_megabytes_is_folded_and_paged(session: Session, reader: Client) -> None:
    ask = [{"kind": "tool_call", "id": "c1", "name": "dump", "args": {"n": 1}}]
    make_message(session=session, role="assistant", blocks=ask)
    secret = "password=hunter2hunter2 "
    big = "word " * 19_998 + secret + "x " * 200_000 + "THE END" + " y" * 750_000
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "c1", "content": big}])
    make_checkpoint(session=session)
    html = get_session_page(reader, session)
    assert len(html) < 40_000
    assert "Show all · 2.0 MB" in visible_text(reader.get(f"/sessions/{session.pk}/"))
    whole = get_session_page(reader, session, "messages/0/?v=1")
    assert len(whole) < 200_000
    assert "Page 2 of 21 · 2.0 MB" in visible_text(reader.get(f"/sessions/{session.pk}/messages/0/?v=1"))
    text, count = read_pages(reader, whole)
    assert (count, len(text.replace("‹masked›", ""))) == (21, len(big) - len("hunter2hunter2"))
    assert "hunter" not in text
    found = reader.get(f"/sessions/{session.pk}/messages/0/?v=1&find=end")
    assert "Page 6 of 21" in visible_text(found)
    assert 'id="found"' in found.content.decode()
    assert reader.get(f"/sessions/{session.pk}/messages/0/?v=1&text=0123&page=7").status_code == 200


def test_logged_call_is_complete_on_its_page(session: Session, reader: Client) -> None:
    args = {"text": "y" * 300_000, "api_key": "k-12345"}
    call = make_call(session=session, args=args, status=CallStatus.COMPLETED, result="x" * 100_000)
    make_checkpoint(session=session)
    assert "x" * 100_000 not in get_session_page(reader, session)
    html = get_session_page(reader, session, f"calls/{call.pk}/")
    assert "x" * 100_000 in html
    text, count = read_pages(reader, html)
    assert (count, "y" * 300_000 in text, "k-12345" in text) == (4, True, False)


def test_image_is_loaded_lazily_from_its_own_url(session: Session, reader: Client) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    make_message(session=session, blocks=[{"type": "image_url", "image_url": {"url": url}}])
    make_checkpoint(session=session)
    html = get_session_page(reader, session)
    assert f'<img src="/sessions/{session.pk}/messages/0/images/1/?v=1" loading="lazy"' in html
    assert "base64" not in html
    response = reader.get(f"/sessions/{session.pk}/messages/0/images/1/?v=1")
    assert response.content == PIXEL
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_image_in_a_result_is_served(session: Session, reader: Client) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    ask = [{"kind": "tool_call", "id": "c1", "name": "draw", "args": {}}]
    make_message(session=session, role="assistant", blocks=ask)
    picture = [{"kind": "image", "url": url}]
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "c1", "content": picture}])
    make_checkpoint(session=session)
    assert f'src="/sessions/{session.pk}/messages/1/images/1/?v=1"' in get_session_page(reader, session)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/pixel.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:text/html;base64,PHN2Zz4=",
        "data:image/png;base64,AAA",
        "data:image/png,AAAA",
        "javascript:alert(1)",
    ],
)
def test_other_content_is_not_served_as_an_image(session: Session, reader: Client, url: str) -> None:
    make_message(session=session, blocks=[{"kind": "image", "url": url}])
    make_checkpoint(session=session)
    for index in (0, 1, 2, 10**30):
        assert reader.get(f"/sessions/{session.pk}/messages/0/images/{index}/").status_code == 404


def test_recording_is_served_completely_and_by_range(session: Session, reader: Client) -> None:
    recording = b"RIFF" + bytes(range(200))
    data = {"mimeType": "audio/x-wav", "data": base64.b64encode(recording).decode()}
    blocks: list[dict[str, object]] = [
        {"inlineData": data},
        {"type": "audio", "data": data["data"], "mimeType": "audio/midi", "transcript": "la"},
    ]
    make_message(session=session, blocks=blocks)
    make_checkpoint(session=session)
    html, path = get_session_page(reader, session), f"/sessions/{session.pk}/messages/0/audio/1/?v=1"
    assert f'<audio controls preload="none" src="{path}"></audio>' in html
    assert (html.count("<audio"), data["data"] in html) == (1, False)
    assert "The recording is not played: data:audio/midi" in html
    whole = reader.get(path)
    assert (whole.content, whole.headers["Content-Type"]) == (recording, "audio/wav")
    assert whole.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    for asked, status, content, span in (
        ("bytes=0-1", 206, b"RI", "bytes 0-1/204"),
        ("bytes=200-", 206, recording[200:], "bytes 200-203/204"),
        ("bytes=204-", 416, b"", "bytes */204"),
    ):
        part = reader.get(path, headers={"Range": asked})
        assert (part.status_code, part.content, part.headers["Content-Range"]) == (status, content, span)
    assert reader.get(path, headers={"Range": "lines=1-2"}).content == recording
    assert (
        f'src="data:audio/x-wav;base64,{data["data"]}"'
        in b"".join(
            reader.get(f"/sessions/{session.pk}/export/html/").streaming_content  # type: ignore[attr-defined]
        ).decode()
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/sound.mp3",
        "data:audio/midi;base64,AAAA",
        "data:text/html;base64,PHN2Zz4=",
        "data:audio/wav;base64,AAA",
        "data:audio/wav,AAAA",
        f"data:audio/wav;base64,{'A' * MAX_AUDIO}",
    ],
    ids=["remote", "midi", "html", "damaged", "plain", "too large"],
)
def test_other_content_is_not_served_as_a_recording(session: Session, reader: Client, url: str) -> None:
    make_message(session=session, blocks=[{"kind": "audio", "url": url}])
    make_checkpoint(session=session)
    for index in (0, 1, 10**30):
        assert reader.get(f"/sessions/{session.pk}/messages/0/audio/{index}/").status_code == 404


def test_copied_text_is_complete_and_masked(session: Session, reader: Client) -> None:
    args = {"order": 17, "password": "hunter22", "note": "y" * 20_000}
    ask = {"kind": "tool_call", "id": "c&1", "name": "pay", "args": args}
    prose = {"kind": "text", "text": "I *pay* " + "now " * 5_000}
    make_message(session=session, role="assistant", blocks=[prose, ask])
    told = {"kind": "tool_result", "call_id": "c&1", "content": "paid <b>"}
    make_message(session=session, role="tool", blocks=[told])
    make_checkpoint(session=session)
    addresses = re.findall(r'data-copy-url="([^"]+)"', get_session_page(reader, session))
    message, call, arguments = (reader.get(address.replace("&amp;", "&")) for address in addresses)
    shown = {"order": 17, "password": "‹masked›", "note": "y" * 20_000}
    assert json.loads(arguments.content) == shown
    assert json.loads(call.content) == {"call_id": "c&1", "tool": "pay", "arguments": shown, "result": "paid <b>"}
    assert message.content.decode() == f"{prose['text']}\n\n{call.content.decode()}"
    assert message.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert message.headers["X-Content-Type-Options"] == "nosniff"
    logged = make_call(
        session=session, call_id="c&1", tool="pay", args={"order": 18}, step=1, status=CallStatus.COMPLETED
    )
    address = f"/sessions/{session.pk}/calls/{logged.pk}/?as=arguments"
    assert f'data-copy-url="{address}"' in get_session_page(reader, session)
    assert json.loads(reader.get(address).content) == {"order": 18}
