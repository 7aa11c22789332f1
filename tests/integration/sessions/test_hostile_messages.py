"""Hostile text in every field that agents, tools, customers or hosts fill."""

from html.parser import HTMLParser
from typing import Any

import pytest
from django.db.models import F, Value
from django.db.models.functions import Replace
from django.test import Client

from checkpoints.enums import ActorKind, AuditKind, CallStatus
from checkpoints.models import AuditEvent, Checkpoint, Decision, LateResult, Message, Run, Session, ToolCall
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_late_result,
    make_message,
    make_run,
    make_session,
    make_user,
)

pytestmark = pytest.mark.django_db

#: Closes whatever it stands in, and leaves something behind that would be seen.
EVIL = "'\"></script></title></textarea--><script id=evil>alert(1)</script><b id=evil>{{ 7 }} {% now %}"
BIDI = "\u202e\u2066"
#: Becomes half of a surrogate pair, as the library stores it: escaped.
HALF = "@HALF@"
ARGS = {EVIL: EVIL, "half": HALF, "nul": "\0"}
STORED = [
    (Message, "body"),
    (Checkpoint, "plan"),
    (ToolCall, "args"),
    (ToolCall, "result"),
    (Decision, "result"),
    (LateResult, "result"),
    (AuditEvent, "details"),
]
PAGES = [
    "/sessions/",
    "/sessions/?q={evil}&agent={evil}",
    "/sessions/{pk}/",
    "/sessions/{pk}/?v=1",
    "/sessions/{pk}/messages/0/",
    "/sessions/{pk}/messages/1/",
    "/sessions/{pk}/versions/",
    "/sessions/{pk}/compare/?a=1&b=2",
    "/sessions/{pk}/calls/",
    "/sessions/{pk}/calls/?tool={evil}",
    "/sessions/{pk}/calls/{call}/",
    "/sessions/{pk}/plan/",
    "/sessions/{pk}/history/",
]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.evil: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id") == "evil" or tag in {"iframe", "object", "embed", "style", "base"}:
            self.evil.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.evil.append(name)
            if name in {"href", "src", "action"} and not (value or "").startswith(("/", "?", "#", "http")):
                self.evil.append(f"{name}={value}")
            if name == "class" and ("evil" in (value or "") or "<" in (value or "")):
                self.evil.append(f"{name}={value}")


@pytest.fixture
def evil() -> tuple[Session, int]:
    session = make_session(
        session_id=EVIL + BIDI, agent=EVIL, title=EVIL + BIDI, labels='["<script id=evil>"]', result='"<b id=evil>"'
    )
    run = make_run(session=session, host=EVIL)
    _say(session)
    _save(session)
    call = _log(run)
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=AuditKind.RUN_STARTED,
        actor_kind=ActorKind.TOKEN,
        actor=EVIL,
        details='{"<script id=evil>":"' + HALF + '<script id=evil>","b":["<b id=evil>"]}',
    )
    for model, name in STORED:
        halved = Replace(F(name), Value(HALF), Value("\\ud800"))
        assert model._default_manager.filter(**{f"{name}__contains": HALF}).update(**{name: halved}) > 0
    return session, call.pk


def _say(session: Session) -> None:
    blocks: list[dict[str, Any]] = [
        {"kind": "text", "text": f"{EVIL} [x](javascript:alert(1)) <b id=evil>unclosed {HALF} \x00 {BIDI}"},
        {"kind": "text", "text": "```" + EVIL + "\n" + EVIL + "\n```"},
        {"kind": "reasoning", "text": EVIL},
        {"kind": "image", "url": "javascript:alert(1)", "alt": EVIL},
        {"kind": EVIL, EVIL: [EVIL]},
        {"kind": "tool_call", "id": EVIL, "name": EVIL, "args": ARGS},
        {"kind": "tool_call", "id": "unlogged", "name": EVIL, "args": EVIL},
    ]
    make_message(session=session, role=EVIL[:32], blocks=blocks)
    answer: list[Any] = [{"kind": "image", "url": EVIL}, EVIL, {"kind": "text", "text": f'["{BIDI}", "{HALF}"]'}]
    make_message(
        session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "unlogged", "content": answer}]
    )
    make_message(session=session, blocks=[{"kind": "tool_result", "call_id": EVIL + "!", "content": EVIL}])


def _save(session: Session) -> None:
    plan = {"steps": [{"text": EVIL, "status": EVIL, EVIL: EVIL}], EVIL: BIDI + HALF}
    make_checkpoint(session=session, length=0, plan={"steps": [{"text": EVIL, "status": "todo"}]})
    make_checkpoint(session=session, plan=plan)
    make_checkpoint(session=session)


def _log(run: Run) -> ToolCall:
    call = make_call(
        session=run.session,
        call_id=EVIL,
        tool=EVIL,
        args=ARGS,
        step=2,
        sentence=EVIL,
        side_effects="<b id=evil>",
        error_type=EVIL,
        error_message=EVIL,
        status=CallStatus.COMPLETED,
        result=EVIL + HALF + BIDI,
        run=run,
    )
    link = '{"link":"javascript:alert(1)","text":"<script id=evil>"}'
    make_decision(call=call, actor=EVIL, reason=EVIL + BIDI, evidence=link, result=EVIL + HALF)
    make_late_result(call=call, result=EVIL + HALF)
    return call


@pytest.mark.unsealed("its messages have no chain of the library")
@pytest.mark.parametrize("page", PAGES)
def test_hostile_text_is_escaped(client: Client, evil: tuple[Session, int], page: str) -> None:
    session, call = evil
    client.force_login(make_user())
    response = client.get(page.format(pk=session.pk, call=call, evil="<script id=evil>"))
    assert response.status_code == 200
    html = response.content.decode()
    reader = _Reader()
    reader.feed(html)
    assert reader.evil == []
    assert "&lt;script id=evil&gt;" in html
    assert not set(html) & set("\u202e\u2066\x00")


@pytest.mark.parametrize("value", ["<script id=evil>", "\u202e", "%ff", "'"])
def test_hostile_url_is_escaped(client: Client, value: str) -> None:
    session = make_session()
    make_run(session=session)
    client.force_login(make_user())
    for page in (f"/sessions/{session.pk}/", "/sessions/find/"):
        response = client.get(page, {"v": value, "id": value})
        assert response.status_code == 404
        html = response.content.decode()
        reader = _Reader()
        reader.feed(html)
        assert reader.evil == []
        assert "\u202e" not in html
