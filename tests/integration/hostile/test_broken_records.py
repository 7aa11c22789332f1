"""A record that cannot be shown is named, and everything else on its page is shown."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest
from django.db import OperationalError
from django.db.models import Model
from django.template import Context, Template, TemplateSyntaxError
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, Role, SessionStatus
from checkpoints.models import AuditEvent, Checkpoint, Decision, LateResult, Message, Run, Session, ToolCall
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, convert_rows_or_mark_unreadable
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.models import NoticedCall
from harness_site.search import indexer
from harness_site.sessions.session_list_csv_export import generate_csv_lines
from tests.integration.notifications.conftest import make_webhook
from tests.support.client_login import sign_in
from tests.support.exhaustive_mode import choose_each
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
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
FAR: Final = datetime(9000, 1, 1, tzinfo=UTC)
LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
DEEP: Final = "[" * 3000 + "]" * 3000
#: What may be wrong with a row, by its model: a column, and what stands in it.
BROKEN: Final[list[tuple[type[Model], str, Any]]] = [
    (ToolCall, "status", "weird"),
    (Checkpoint, "phase", "weird"),
    (ToolCall, "risk", "weird"),
    (ToolCall, "reason", "weird"),
    (ToolCall, "args", "{not json"),
    (ToolCall, "args", DEEP),
    (ToolCall, "args", '{"a": 1e999}'),
    (ToolCall, "args", "[1]"),
    (ToolCall, "result", "{not json"),
    (ToolCall, "result", DEEP),
    (ToolCall, "decide_within", timedelta(days=10**8)),
    (ToolCall, "issued_at", FIRST),
    (ToolCall, "issued_at", FAR),
    (ToolCall, "interrupted_at", FAR),
    (ToolCall, "interrupted_at", FIRST),
    (ToolCall, "approvals", -1),
    (ToolCall, "side_effects", ",,,"),
    (Decision, "evidence", "{not json"),
    (Decision, "evidence", DEEP),
    (Decision, "evidence", "[]"),
    (Decision, "result", DEEP),
    (Decision, "actor_kind", "weird"),
    (Decision, "created_at", FIRST),
    (Decision, "created_at", LAST),
    (LateResult, "result", DEEP),
    (LateResult, "received_at", LAST),
    (Session, "labels", "{not json"),
    (Session, "labels", DEEP),
    (Session, "metadata", DEEP),
    (Session, "result", DEEP),
    (Session, "status", "weird"),
    (Session, "created_at", FIRST),
    (Session, "updated_at", LAST),
    (Run, "status", "weird"),
    (Run, "started_at", FIRST),
    (Run, "heartbeat_at", LAST),
    (AuditEvent, "details", "{not json"),
    (AuditEvent, "details", DEEP),
    (AuditEvent, "kind", "weird"),
    (AuditEvent, "actor_kind", "weird"),
    (AuditEvent, "created_at", LAST),
    (AuditEvent, "created_at", FIRST),
    (Message, "body", DEEP),
    (Message, "body", "{not json"),
    (Message, "created_at", LAST),
]
CHOSEN: Final = choose_each(6, BROKEN)
#: How many rows are broken at once, each in a session of its own; all of these stand on one page of a list.
BESIDE: Final = 15
LISTS: Final = (
    *("/review/", "/review/?tab=interrupted&sort=deadline", "/review/?tab=awaiting", "/review/?tab=decided"),
    *("/review/?tab=awaiting&deadline=day", "/sessions/", "/sessions/?q=lamp", "/calls/"),
    *("/audit/?subject=sessions", "/overview/", "/review/news/?since=2020-01-01T00:00:00Z"),
)
#: Where not every session is shown.
SHORT: Final = ("/overview/", "/review/news/?since=2020-01-01T00:00:00Z")
OF_ONE: Final = ("", "timeline/", "calls/", "history/", "versions/")


def make_story(number: int) -> Session:
    """Create a session with one row of each kind, whose calls have distinct tools."""
    session = make_session(
        session_id=f"order-{number}", title=f"Lamp order-{number}", status=SessionStatus.NEEDS_REVIEW
    )
    run = make_run(session=session)
    make_message(session=session, text=f"the lamp {number}")
    make_checkpoint(session=session)
    now = clock.now()
    for name, status in (("lost", CallStatus.INTERRUPTED), ("asked", CallStatus.AWAITING_APPROVAL)):
        fields: dict[str, Any] = {"decide_within": timedelta(hours=1), "issued_at": now, "tool": f"{name}_{number}"}
        fields |= {"interrupted_at": now} if name == "lost" else {}
        call = make_call(session=session, run=run, call_id=f"{name}-{number}", status=status, **fields)
        make_late_result(call=call)
    done = make_call(
        session=session,
        run=run,
        call_id=f"done-{number}",
        status=CallStatus.COMPLETED,
        tool=f"done_{number}",
        result="x",
    )
    make_decision(call=done, kind=DecisionKind.CONFIRM_LANDED, evidence='{"text": "seen"}', result="x")
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=AuditKind.RUN_STARTED,
        actor_kind=ActorKind.MACHINE,
        actor=f"run {number}",  # events of different actors are not one line
        details=f'{{"number": {number}}}',
    )
    return session


@pytest.fixture
def reader(client: Client) -> Client:
    client.raise_request_exception = False
    return sign_in(client, make_user(role=Role.ADMIN))


def break_(session: Session, model: type[Model], column: str, value: Any) -> None:
    own: dict[type[Model], Callable[[], Any]] = {
        Session: lambda: Session.objects.filter(pk=session.pk),
        Run: lambda: session.runs.all(),
        Decision: lambda: Decision.objects.filter(session=session),
        LateResult: lambda: LateResult.objects.filter(session=session),
    }
    rows = own[model]() if model in own else model._default_manager.filter(session=session)
    assert rows.update(**{column: value})


def addresses_of(session: Session, calls: int = 3) -> list[str]:
    """Return the URLs of a session and of its first calls."""
    found = [f"/sessions/{session.pk}/{page}" for page in OF_ONE]
    for call in session.tool_calls.order_by("pk")[:calls]:
        found += [f"/review/calls/{call.pk}/", f"/sessions/{session.pk}/calls/{call.pk}/"]
    return found


def unanswered(reader: Client, addresses: Iterable[str], *, altered: bool = False) -> dict[str, int]:
    """Return the addresses without a page, with their status; `altered` calls have no card but a page that says why."""
    expected = {address: 409 if altered and address.startswith("/review/calls/") else 200 for address in addresses}
    found = {address: reader.get(address).status_code for address in expected}
    return {address: status for address, status in found.items() if status != expected[address]}


def make_stories(count: int) -> list[Session]:
    made = [make_story(number) for number in range(1, count + 1)]
    while indexer.index_next_batch_of_each_kind():
        pass
    return made


@pytest.fixture
def stories(db: None) -> list[Session]:
    return make_stories(3)


@pytest.mark.parametrize("start", range(0, len(CHOSEN), BESIDE))
def test_broken_record_does_not_break_a_page(reader: Client, start: int) -> None:
    """Several sessions, each with another broken record, between two intact ones."""
    broken = CHOSEN[start : start + BESIDE]
    first, *between, last = make_stories(len(broken) + 2)
    for session, (model, column, value) in zip(between, broken, strict=True):
        break_(session, model, column, value)
    for address in LISTS:
        response = reader.get(address)
        assert response.status_code == 200, (address, broken)
        for session in (first, last):
            assert address in SHORT or session.session_id in response.content.decode(), (address, broken)
    #: What is not of a call is on the pages of each call alike.
    calls = [3 if model in {ToolCall, Decision, LateResult} else 1 for model, _, _ in broken]
    #: The digest of these is stored beside them.
    altered = [model is ToolCall and column in {"args", "result"} for model, column, _ in broken]
    lost = [
        unanswered(reader, addresses_of(session, count), altered=is_altered)
        for session, count, is_altered in zip(between, calls, altered, strict=True)
    ]
    assert [(row, pages) for row, pages in zip(broken, lost, strict=True) if pages] == []
    make_webhook()
    create_due_notices()
    assert NoticedCall.objects.filter(tool_call_id__in=calls_of(first, last)).count() == 4


def calls_of(*sessions: Session) -> list[int]:
    return list(ToolCall.objects.filter(session__in=sessions).values_list("pk", flat=True))


def test_unknown_session_status_is_shown_as_stored(reader: Client, stories: list[Session]) -> None:
    break_(stories[1], Session, "status", "we\u202eird")
    for address in ("/sessions/", f"/sessions/{stories[1].pk}/"):
        words = visible_text(reader.get(address))
        assert "Unknown status: we" in words, address
        assert "\u202e" not in words, address
    exported: Any = reader.get("/sessions/export/")
    csv = b"".join(exported.streaming_content).decode()
    assert "Lamp order-2,refund-desk,we" in csv
    assert "order-3" in csv
    page: Any = reader.get(f"/sessions/{stories[1].pk}/export/html/")
    assert "Unknown status: we" in b"".join(page.streaming_content).decode()


def test_unknown_run_status_is_shown_after_a_takeover(reader: Client, stories: list[Session]) -> None:
    first = stories[1].runs.get()
    make_checkpoint(session=stories[1], run=first)
    make_message(session=stories[1], text="taken over")
    make_checkpoint(session=stories[1], run=make_run(session=stories[1]))
    break_(stories[1], Run, "status", "weird")
    assert unanswered(reader, addresses_of(stories[1])) == {}
    assert "was replaced by another run" in visible_text(reader.get(f"/sessions/{stories[1].pk}/"))


def test_unreadable_record_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def read(row: SimpleNamespace) -> int:
        return 1 // int(row.pk - 17)

    rows = [SimpleNamespace(pk=18), SimpleNamespace(pk=17)]
    assert convert_rows_or_mark_unreadable(rows, read, "session") == [1, UnreadableRecord("session", 17)]
    assert "The session 17 cannot be read." in caplog.text
    lines = list(generate_csv_lines([UnreadableRecord("session", 17)]))
    assert "session 17 cannot be shown" in lines[1]


@pytest.mark.parametrize(
    ("element", "expected"), [("li", "<li class"), ("tr", "<tr><td colspan"), ("div", "<div class")]
)
def test_placeholder_is_shown_for_a_failing_element(
    element: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        pk = 17

        @property
        def name(self) -> str:
            raise ZeroDivisionError

    rows = [SimpleNamespace(pk=1, name="one"), Broken(), SimpleNamespace(pk=3, name="three")]
    source = "{% for row in rows %}{% record row 'call' element %}[{{ row.name }}]{% endrecord %}{% endfor %}"
    html = Template(source).render(Context({"rows": rows, "element": element}))
    assert html.startswith("[one]")
    assert html.endswith("[three]")
    assert expected in html
    assert "This record cannot be shown: call 17." in html
    assert 'href="/review/calls/17/"' in html
    assert "ZeroDivisionError" in caplog.text


def test_database_error_is_not_attributed_to_a_record() -> None:
    class Away:
        pk = 17

        @property
        def name(self) -> str:
            raise OperationalError

    with pytest.raises(OperationalError):
        Template("{% record row 'call' 'li' %}{{ row.name }}{% endrecord %}").render(Context({"row": Away()}))


def test_list_must_name_its_record_type() -> None:
    with pytest.raises(TemplateSyntaxError, match="needs the record"):
        Template("{% record row %}{% endrecord %}")


def test_altered_call_has_no_sentence_in_the_queue(reader: Client, stories: list[Session]) -> None:
    break_(stories[1], ToolCall, "args", DEEP)
    words = visible_text(reader.get("/review/?tab=interrupted"))
    assert "A call is not shown, because its data are not as they were written" in words
    assert "Lost 2: " not in words
    assert "Lost 1: amount 40.00" in words
