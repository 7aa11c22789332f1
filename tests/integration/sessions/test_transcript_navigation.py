"""Start of a finished session, outline, jumps to times, and hidden kinds of content."""

import html as html_text
import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, Role, SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import Session, ToolCall
from harness_site.sessions.selectors import prompt_outline_and_version_summaries
from tests.integration.sessions.test_transcript_page import positions
from tests.support.factories import THEN, make_call, make_checkpoint, make_message, make_run, make_session, make_user
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
    assert "20 messages are folded here Show all 20" in text
    assert "Show the next" not in text
    assert "2 messages before the first prompt" in text
    assert re.findall(r'data-place="(\d+)"', html) == ["1", "2", "44"]
    assert "Fix it.10:42:07 · 42 messages" in text  # without the state of the editor
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
    monkeypatch.setattr(prompt_outline_and_version_summaries, "MAX_PROMPTS", 2)
    monkeypatch.setattr(prompt_outline_and_version_summaries, "_HALF", 1)

    def places(query: str) -> list[tuple[str, str]]:
        response = reader.get(f"/sessions/{finished.pk}/{query}")
        outline = response.content.decode().partition('id="outline"')[2].partition("</nav>")[0]
        return re.findall(r'data-place="(\d+)"|(Earlier prompts|Later prompts)', outline)

    assert places("?v=1&at=2") == [("", "Earlier prompts"), ("2", ""), ("", "Later prompts")]
    assert places("?v=1&at=45") == [("", "Earlier prompts"), ("44", "")]
    assert "2 messages before the first prompt" in visible_text(reader.get(f"/sessions/{finished.pk}/"))


@pytest.mark.parametrize(
    ("prompts", "answers", "is_shown"), [(0, 1, False), (1, 5, False), (2, 0, True), (1, 60, True), (0, 60, True)]
)
def test_outline_of_a_short_transcript_with_one_prompt_is_hidden(
    reader: Client, prompts: int, answers: int, is_shown: bool
) -> None:
    session = make_session(status=SessionStatus.COMPLETED)
    make_run(session=session, owner=False)
    for number in range(prompts):
        write(session, "user", f"Prompt {number}")
    for number in range(answers):
        write(session, "assistant", f"Step {number}")
    make_checkpoint(session=session)
    page = reader.get(f"/sessions/{session.pk}/")
    outline = page.content.decode().partition('id="outline"')[2].partition("</nav>")[0]
    assert ("Go to the newest message" in outline, " hidden>" in outline) == (is_shown, not is_shown)


def test_search_without_a_result_stays_where_the_reader_is(finished: Session, reader: Client) -> None:
    address = f"/sessions/{finished.pk}/"
    stayed = reader.get(address, {"find": "zzqqy", "here": "20"})
    assert stayed.headers["Location"] == f"{address}?v=1&find=zzqqy&at=20#m-20"
    html = reader.get(f"{address}?v=1&find=zzqqy&at=20").content.decode()
    assert " data-found-nothing " in html
    opened = reader.get(address, {"find": "zzqqy"})
    assert "No message of version 1 contains “zzqqy”." in visible_text(opened)
    for shown in ('id="newest"', "before the first prompt"):
        assert shown in opened.content.decode()


def test_typed_time_opens_the_first_message_at_or_after_it(session: Session, reader: Client) -> None:
    start = datetime.fromisoformat("2026-02-14T21:50:30+00:00")  # 22:50 in Berlin
    for minutes in (0, 20, 100, 3 * 1440):
        write(session, "user", str(minutes), start + timedelta(minutes=minutes))
    make_checkpoint(session=session)
    reader.cookies["harness_zone"] = "Europe/Berlin"

    def led(where: str, **here: str) -> str:
        location = reader.get(f"/sessions/{session.pk}/jump/", {"where": where} | here).headers["Location"]
        return location.partition("?v=1&")[2]

    places = {
        "22:50": 0,
        "23:00": 1,
        "0:15": 2,
        "00:31": 3,
        "2026-02-15": 2,
        "2026-02-14 22:51": 1,
        "#3": 2,
        "0": 0,
        "22:49": 3,
    }
    assert {where: led(where) for where in places} == {
        where: f"at={position}#m-{position}" for where, position in places.items()
    }
    assert led("2030-01-01 9:00") == "at=3&none=late&where=2030-01-01+9%3A00#m-3"
    assert led("2019-01-01") == "at=0&none=early&where=2019-01-01#m-0"
    assert led("2026-02-14 22:49") == "at=0&none=early&where=2026-02-14+22%3A49#m-0"
    assert led("23:59") == "at=3&none=late&where=23%3A59#m-3"
    assert led("5") == "at=3&none=number&where=5#m-3"
    early = reader.get(f"/sessions/{session.pk}/?v=1&at=0&none=early&where=2019-01-01")
    assert "This session begins later. You are at its first message. Close" in visible_text(early)
    assert 'name="where" value="2019-01-01" aria-invalid="true"' in early.content.decode()
    assert [led(where, here="2") for where in ("25:00", "soon")] == [
        f"at=2&none=place&where={typed}#m-2" for typed in ("25%3A00", "soon")
    ]
    newest = reader.get(f"/sessions/{session.pk}/jump/", {"where": "soon"}, follow=True)
    assert newest.redirect_chain == [(f"/sessions/{session.pk}/?none=place&where=soon", 302)]
    assert "neither a time nor a message number" in visible_text(newest)
    assert 'name="where" value="soon" aria-invalid="true"' in newest.content.decode()
    Session.objects.update(has_times=False)
    assert led("22:50", here="0") == "at=0&none=time&where=22%3A50#m-0"
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


def test_versions_state_the_tokens_of_messages_that_state_none(session: Session, reader: Client) -> None:
    address = f"/sessions/{session.pk}/"
    make_message(session=session, role="assistant", text="One.")
    make_checkpoint(session=session, usage='{"input_tokens":100,"output_tokens":10}')
    make_message(session=session, role="assistant", text="Two.")
    make_message(session=session, role="assistant", text="Three.")
    make_checkpoint(session=session, usage='{"input_tokens":1300,"output_tokens":44}')
    assert re.search(r'data-reading="tokens" aria-pressed="false" hidden>', reader.get(address).content.decode())
    Session.objects.update(total_tokens=1344)
    page = reader.get(address)
    assert re.search(r'data-reading="tokens" aria-pressed="false">', page.content.decode())
    text = visible_text(page)
    assert "Tokens of version 1: in 100 · out 10" in text
    assert text.count("Tokens of version") == 2
    assert text.index("Three.") < text.index("Tokens of version 2: in 1,200 · out 34")
    usage = {"input_tokens": 5, "output_tokens": 6}
    make_message(session=session, body={"role": "assistant", "content": "Four.", "usage": usage})
    make_checkpoint(session=session, usage='{"input_tokens":1305,"output_tokens":50}')
    assert visible_text(reader.get(address)).count("Tokens of version") == 2
    make_message(session=session, role="assistant", text="Five.")
    assert "Tokens of version 1" not in visible_text(reader.get(f"{address}?v=3&before=1"))


def test_version_whose_totals_went_down_has_a_dash_for_its_tokens(session: Session, reader: Client) -> None:
    for text, input_tokens, output in (("One.", 900, 120), ("Two.", 1000, 30), ("Three.", 1010, 45)):
        usage = {"input_tokens": input_tokens, "output_tokens": output}
        make_message(session=session, role="assistant", text=text)
        make_checkpoint(session=session, usage=json.dumps(usage))
    Session.objects.update(total_tokens=1055)
    page = reader.get(f"/sessions/{session.pk}/")
    text = visible_text(page)
    assert "Tokens of version 2: –" in text
    assert 'so what it used is unknown.">–</span>' in page.content.decode()
    assert "Tokens of version 3: in 10 · out 15" in text


def test_session_without_prompts_opens_with_its_first_message(session: Session, reader: Client) -> None:
    for number in range(60):
        make_message(session=session, role="assistant", text=f"Message {number}.")
    make_checkpoint(session=session)
    response = reader.get(f"/sessions/{session.pk}/")
    found = positions(response.content.decode())
    assert (found[0], found[1], found[-1]) == (0, 36, 59)
    text = visible_text(response)
    assert "35 messages are folded here Show the next 24 Show all 35" in text
    assert "Go to the first message" in text


@pytest.mark.parametrize("headers", [HTMX, {}], ids=["as part of the page", "as a page"])
def test_all_folded_messages_are_opened_together(session: Session, reader: Client, headers: dict[str, str]) -> None:
    for number in range(60):
        make_message(session=session, role="assistant", text=f"Message {number}.")
    make_checkpoint(session=session)
    path = f"/sessions/{session.pk}/?v=1&after=1&until=36&all=1"
    assert f'href="{path}#m-1"' in html_text.unescape(reader.get(f"/sessions/{session.pk}/").content.decode())
    opened = reader.get(path, headers=headers).content.decode()
    assert positions(opened) == list(range(1, 36))
    assert 'class="more between"' not in opened


def test_more_folded_messages_than_one_request_opens_are_not_offered_together(
    session: Session, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        make_message(session=session, role="assistant", text=f"Message {number}.")
    make_checkpoint(session=session)
    monkeypatch.setattr("harness_site.sessions.templatetags.harness_session_pages.MAX_OPENED_TOGETHER", 34)
    monkeypatch.setattr("harness_site.sessions.views.transcript_pages.MAX_OPENED_TOGETHER", 34)
    assert "Show all" not in visible_text(reader.get(f"/sessions/{session.pk}/"))
    path = f"/sessions/{session.pk}/?v=1&after=1&until=36&all=1"
    assert positions(reader.get(path, headers=HTMX).content.decode()) == list(range(1, 25))


def test_outline_leads_to_the_newest_message_from_each_place(session: Session, reader: Client) -> None:
    for number in range(60):
        make_message(session=session, role="assistant", text=f"Message {number}.")
    make_checkpoint(session=session)
    make_message(session=session, role="assistant", text="The last one.")
    make_checkpoint(session=session)
    here = f"/sessions/{session.pk}/"
    for query, target in (("", "#end"), ("?v=2&at=20", f"{here}#end"), ("?v=1&at=20", f"{here}?v=1&at=59#m-59")):
        page = html_text.unescape(reader.get(here + query).content.decode())
        assert re.findall(r'<a href="([^"]*)" data-key="G">', page) == [target], query


def test_commands_name_their_folder_only_if_the_session_began_in_another_one(session: Session, reader: Client) -> None:
    for number, folder in enumerate(("/srv/app", "/srv/app/web")):
        args = {"command": ["ls"], "workdir": folder}
        call = {"kind": "tool_call", "id": f"c{number}", "name": "shell", "args": args}
        make_message(session=session, body={"role": "assistant", "blocks": [call]})
    make_checkpoint(session=session)
    address = f"/sessions/{session.pk}/"
    assert re.findall(r"in (/srv\S*) \$ ls", visible_text(reader.get(address))) == ["/srv/app", "/srv/app/web"]
    Session.objects.update(metadata=to_canonical_json({"working_directories": ["/srv/app", "/srv/app/web"]}))
    assert re.findall(r"in (/srv\S*) \$ ls", visible_text(reader.get(address))) == ["/srv/app/web"]


def test_calls_of_an_imported_transcript_show_what_the_file_states(session: Session, reader: Client) -> None:
    for number, (mode, status) in enumerate(
        (("plan", CallStatus.ISSUED), ("bypass", CallStatus.DISCARDED), ("bypass", CallStatus.COMPLETED))
    ):
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
    metadata = {"import": {"format": "codex"}, "permission_modes": ["plan, read-only", "bypass"]}
    Session.objects.update(metadata=to_canonical_json(metadata))
    text = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert (text.count("Imported"), text.count("· imported")) == (1, 0)
    Session.objects.update(metadata=to_canonical_json({"import": {"format": "claude-agent-sdk"}}))
    assert "Mirrored from Claude Agent SDK" in visible_text(reader.get(f"/sessions/{session.pk}/"))
    first, second = text.index("No result in the file yet"), text.index("pay Discarded")
    assert first < text.index("permissions: plan") < second < text.index("permissions: bypass")
    assert "Permissions, one after the other: plan, read-only; bypass" in text
    assert text.count("permissions: ") == 2  # the third call has the mode of the second
    number = ToolCall.objects.latest("pk").pk
    for path in (
        f"/sessions/{session.pk}/",
        f"/sessions/{session.pk}/calls/",
        f"/sessions/{session.pk}/calls/{number}/",
    ):
        shown = reader.get(path).content.decode()
        assert 0 < shown.index("zebra") < shown.index("apple"), path


@pytest.mark.parametrize(("role", "groups"), [(Role.AUDITOR, 2), (Role.APPROVER, 5)])
def test_list_of_keys_has_those_for_decisions_for_who_may_decide(
    session: Session, client: Client, role: Role, groups: int
) -> None:
    client.force_login(make_user(name="bob", role=role))
    keys = client.get(f"/sessions/{session.pk}/").content.decode().partition('<dialog id="keys"')[2]
    assert keys.count("<h3>") == groups


@pytest.mark.parametrize(
    ("tool", "args", "shown"),
    [
        ("Task", {"prompt": "Compare all adapters."}, '<details class="task">'),
        ("WebFetch", {"url": "https://shop.example/", "prompt": "Which adapters?"}, "Which adapters?"),
    ],
)
def test_results_that_may_be_hidden_are_those_of_the_tool_and_not_what_it_was_asked(
    session: Session, reader: Client, tool: str, args: dict[str, str], shown: str
) -> None:
    make_message(
        session=session, role="assistant", blocks=[{"kind": "tool_call", "id": "c1", "name": tool, "args": args}]
    )
    make_message(
        session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "c1", "content": "There are four."}]
    )
    make_checkpoint(session=session)
    page = reader.get(f"/sessions/{session.pk}/").content.decode()
    assert re.search(r'class="[^"]*returned" dir="auto"><p>There are four.', page)
    assert shown in page
