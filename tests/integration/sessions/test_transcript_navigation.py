"""Start of a finished session, outline, jumps to times, and hidden kinds of content."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import Session, ToolCall
from harness_site.sessions.selectors import prompt_outline
from tests.integration.sessions.test_transcript_page import positions
from tests.support.factories import THEN, make_call, make_checkpoint, make_message, make_run, make_session
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def write(session: Session, role: str, text: str, at: datetime = THEN) -> None:
    make_message(session=session, role=role, text=text, created_at=at)


@pytest.fixture
def finished() -> Session:
    session = make_session(status=SessionStatus.COMPLETED)
    make_run(session=session, owner=False)
    write(session, "system", "You help.")
    write(session, "user", "<command-name>/clear</command-name>")
    write(session, "user", "# Context from my IDE setup:\n## Open tabs:\n- a.py\n## My request for Codex:\nFix it.")
    for number in range(40):
        write(session, "assistant", f"Step {number}")
    write(session, "user", "<environment_context>" + "cwd " * 400 + "</environment_context>")
    editor = "# Context from my IDE setup:" + " tab" * 460
    write(session, "user", f"{editor}\n## My request for Codex:\nAnd the " + "second request " * 20)
    write(session, "assistant", "All of it is done.")
    write(session, "tool", "A note after the answer")
    make_checkpoint(session=session)
    make_call(session=session, step=1, side_effects="imported", status=CallStatus.COMPLETED)
    return session


def test_session_opens_with_first_prompt_and_newest_messages(finished: Session, reader: Client) -> None:
    here = f"/sessions/{finished.pk}/"
    response = reader.get(here)
    html = response.content.decode()
    assert positions(html) == [2, *range(23, 47)]
    assert f'hx-get="{here}?since=23"' in html
    text = visible_text(response)
    assert "Not in the transcript yet" not in text
    assert "20 messages are folded here" in text
    assert "2 messages before the first prompt" in text
    assert re.findall(r'data-place="(\d+)"', html) == ["1", "2", "44"]
    assert "Fix it.10:42 · 42 messages" in text  # without the state of the editor
    assert re.search(r"And the second request [a-z ]*…10:42", text)
    between = reader.get(f"{here}?v=1&after=3&until=23", headers=HTMX).content.decode()
    assert positions(between) == list(range(3, 23))
    assert 'class="more between"' not in between
    shorter = reader.get(f"{here}?v=1&after=0&until=45", headers=HTMX)
    assert positions(shorter.content.decode()) == list(range(24))
    assert "21 messages are folded here" in visible_text(shorter)
    Session.objects.update(status=SessionStatus.ACTIVE)
    running = reader.get(here)
    assert positions(running.content.decode()) == [2, *range(23, 47)]
    assert "20 messages are folded here" in visible_text(running)


def test_outline_shows_the_nearest_of_many_prompts(
    finished: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_outline, "MAX_PROMPTS", 2)
    monkeypatch.setattr(prompt_outline, "_HALF", 1)

    def places(query: str) -> list[tuple[str, str]]:
        response = reader.get(f"/sessions/{finished.pk}/{query}")
        outline = response.content.decode().partition('id="outline"')[2].partition("</nav>")[0]
        return re.findall(r'data-place="(\d+)"|(Earlier prompts|Later prompts)', outline)

    assert places("?v=1&at=2") == [("", "Earlier prompts"), ("2", ""), ("", "Later prompts")]
    assert places("?v=1&at=45") == [("", "Earlier prompts"), ("44", "")]
    assert "2 messages before the first prompt" in visible_text(reader.get(f"/sessions/{finished.pk}/"))


def test_typed_time_opens_the_first_message_at_or_after_it(session: Session, reader: Client) -> None:
    start = datetime.fromisoformat("2026-02-14T21:50:30+00:00")  # 22:50 in Berlin
    for minutes in (0, 20, 100, 3 * 1440):
        write(session, "user", str(minutes), start + timedelta(minutes=minutes))
    make_checkpoint(session=session)
    reader.cookies["harness_zone"] = "Europe/Berlin"

    def led(where: str) -> str:
        location = reader.get(f"/sessions/{session.pk}/jump/", {"where": where}).headers["Location"]
        return location.partition("?v=1&")[2]

    places = {
        "22:50": 0,
        "23:00": 1,
        "0:15": 2,
        "00:31": 3,
        "2026-02-15": 2,
        "2026-02-14 22:51": 1,
        "2030-01-01 9:00": 3,
        "#3": 2,
        "0": 0,
        "22:49": 3,
    }
    assert {where: led(where) for where in places} == {
        where: f"at={position}#m-{position}" for where, position in places.items()
    }
    assert [led(where) for where in ("25:00", "soon")] == ["at=0&none=place#m-0"] * 2
    assert "neither a time nor a message number" in visible_text(reader.get(f"/sessions/{session.pk}/?at=0&none=place"))
    Session.objects.update(has_times=False)
    assert led("22:50") == "at=0&none=time#m-0"
    without_times = visible_text(reader.get(f"/sessions/{session.pk}/?at=0&none=time"))
    assert "have no times" in without_times
    assert "22:50:30" not in without_times


@pytest.mark.parametrize(
    ("cookie", "hidden"), [(None, "tokens"), ("", ""), ("tools.reasoning", "tools reasoning"), ('"><b>.prose', "prose")]
)
def test_choice_of_content_kinds_is_remembered(
    session: Session, reader: Client, cookie: str | None, hidden: str
) -> None:
    usage: dict[str, Any] = {"input_tokens": 1200, "output_tokens": 34}
    make_message(session=session, body={"role": "assistant", "content": "Done.", "source": {"usage": usage}})
    make_checkpoint(session=session)
    if cookie is not None:
        reader.cookies["harness_reading"] = cookie
    response = reader.get(f"/sessions/{session.pk}/")
    html = response.content.decode()
    assert f'data-hide="{hidden}"' in html
    assert html.count('aria-pressed="false"') == len(hidden.split())
    assert "in 1,200 · out 34" in visible_text(response)


def test_calls_of_an_imported_transcript_show_what_the_file_states(session: Session, reader: Client) -> None:
    for number, (mode, status) in enumerate((("plan", CallStatus.ISSUED), ("bypass", CallStatus.DISCARDED))):
        args = {"zebra": 1, "apple": number}
        call = {"kind": "tool_call", "id": f"c{number}", "name": "pay", "args": args}
        source = {"context": {"permission_mode": mode}}
        make_message(session=session, body={"role": "assistant", "blocks": [call], "source": source})
        make_message(session=session, text="Go on.")
        make_call(
            session=session, call_id=f"c{number}", tool="pay", args=args, status=status, side_effects="imported", step=1
        )
    make_checkpoint(session=session)
    assert "Imported" not in visible_text(reader.get(f"/sessions/{session.pk}/"))
    metadata = {"import": {"format": "codex"}, "permission_modes": ["plan", "bypass"]}
    Session.objects.update(metadata=to_canonical_json(metadata))
    text = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert (text.count("Imported"), text.count("· imported")) == (1, 0)
    Session.objects.update(metadata=to_canonical_json({"import": {"format": "claude-agent-sdk"}}))
    assert "Mirrored from Claude Agent SDK" in visible_text(reader.get(f"/sessions/{session.pk}/"))
    first, second = text.index("No result in the file yet"), text.index("Discarded no result in the file")
    assert first < text.index("permissions: plan") < second < text.index("permissions: bypass")
    number = ToolCall.objects.latest("pk").pk
    for path in (
        f"/sessions/{session.pk}/",
        f"/sessions/{session.pk}/calls/",
        f"/sessions/{session.pk}/calls/{number}/",
    ):
        shown = reader.get(path).content.decode()
        assert 0 < shown.index("zebra") < shown.index("apple"), path
