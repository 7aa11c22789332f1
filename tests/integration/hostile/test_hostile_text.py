"""Every large hostile text on every page and in every export, within a time bound.

The texts are short here; how the work grows with their size is measured where they are rendered.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from checkpoints.enums import AuditKind
from checkpoints.formats.digests import digest_text
from checkpoints.models import AuditEvent, Checkpoint, Message, Session, ToolCall
from harness_site.core.streamed_downloads import HTML, JSONL
from harness_site.search.list_incompletely_indexed_texts import list_incompletely_indexed_texts
from tests.integration.search.conftest import complete
from tests.support import redos_texts
from tests.support.exhaustive_mode import choose_each, mark_all_but_each
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_run,
    make_session,
    make_user,
)
from tests.support.linear_growth import processor_seconds

pytestmark = pytest.mark.django_db(transaction=True)

SIZE = 400
#: Texts in one message, and in the arguments of one call.
TOGETHER = 8
#: Seconds of the processor for one answer: a page shows dozens of these texts.
BOUND = 20.0
GROUPS: dict[str, dict[str, str]] = {
    "secrets": {name: make(SIZE) for name, make in redos_texts.SECRETS.items()},
    "controls": {name: make(SIZE) for name, make in redos_texts.CONTROLS.items()},
    "markdown": {name: make(SIZE) for name, make in redos_texts.MARKDOWN.items()},
    "code": {name: f"```python\n{make(SIZE)}\n```" for name, make in redos_texts.CODE.items()},
    "json": {name: make(SIZE) for name, make in redos_texts.JSON.items()},
    "unrepresentable": redos_texts.UNREPRESENTABLE,
}


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user())
    return client


def hostile_session(texts: dict[str, str]) -> Session:
    """Two versions that say each text as words, as arguments and as a result, and a logged call with each of them.

    Each message says several texts, and each logged call has several arguments, so that few pages show them all.
    """
    session = make_session(session_id="hostile")
    run = make_run(session=session)
    make_message(session=session, text="Begin.")
    make_checkpoint(session=session, plan={"steps": ["one"]})
    for number, group in enumerate(batched(texts.values(), TOGETHER)):
        ids = [f"c{number}-{each}" for each in range(len(group))]
        words = [{"kind": "text", "text": text} for text in group]
        calls = [
            {"kind": "tool_call", "id": id_, "name": "pay", "args": text} for id_, text in zip(ids, group, strict=True)
        ]
        make_message(session=session, role="assistant", blocks=[*words, *calls])
        results = [
            {"kind": "tool_result", "call_id": id_, "content": text} for id_, text in zip(ids, group, strict=True)
        ]
        images = [{"kind": "image", "url": text, "alt": text} for text in group]
        make_message(session=session, role="tool", blocks=[*results, *images])
        make_call(
            session=session,
            run=run,
            call_id=ids[0],
            tool="pay",
            step=1,
            args={f"note {each}": text for each, text in enumerate(group)},
            result=group[number % len(group)],
        )
    for body in redos_texts.MESSAGES.values() if texts is redos_texts.UNREPRESENTABLE else ():
        make_message(session=session, body=body)
    make_checkpoint(session=session, plan={"steps": list(texts.values())})
    return session


def batched(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(texts)
    while group := list(islice(remaining, size)):
        yield group


def addresses(session: Session) -> Iterator[str]:
    """Return the URLs of all pages that show texts of a session."""
    below = f"/sessions/{session.pk}/"
    for tab in ("calls/", "versions/", "timeline/", "plan/", "history/", "compare/?a=1&b=2"):
        yield f"{below}{tab}"
    yield from (f"{below}?at={at}" for at in range(0, session.message_count, 24))
    # A result is shown with its call.
    answered = range(2, session.message_count - len(redos_texts.MESSAGES), 2)
    # Each text is on a page of its own in one of the forms, and on the pages of the transcript in all of them.
    for number, position in choose_each(3, [*enumerate(sorted({*range(session.message_count)} - {*answered}))]):
        yield f"{below}messages/{position}/{('', '?as=message')[number % 2]}"
    calls = ToolCall.objects.filter(session=session).values_list("pk", flat=True)
    for number, pk in choose_each(2, [*enumerate(calls)]):
        yield (f"/review/calls/{pk}/", f"{below}calls/{pk}/", f"{below}calls/{pk}/?as=call")[number % 3]
    yield from (f"{below}?find={quote(word)}" for word in ("aaaaaaaaab", "://"))
    yield from ("/review/", "/calls/", "/sessions/", "/sessions/?q=aaa", "/overview/", "/audit/")


@pytest.mark.parametrize("group", mark_all_but_each(2, GROUPS))
def test_every_page_renders_hostile_texts(group: str, reader: Client) -> None:
    session = hostile_session(GROUPS[group])
    complete()
    assert list_incompletely_indexed_texts().total == 0
    answers: list[Any] = []
    for address in addresses(session):
        seconds = processor_seconds(lambda: answers.append(reader.get(address, follow=True)))  # noqa: B023
        assert (answers.pop().status_code, address) == (200, address)
        assert seconds < BOUND, address


@pytest.mark.parametrize("group", mark_all_but_each(2, GROUPS, first=1))
def test_every_export_of_hostile_texts_is_complete(group: str, reader: Client) -> None:
    session = hostile_session(GROUPS[group])
    for name, form in {"jsonl": JSONL, "html": HTML}.items():
        response: Any = reader.get(f"/sessions/{session.pk}/export/{name}/")
        whole = b"".join(response.streaming_content).decode()
        assert whole.rstrip().endswith(form.ending)
        if form is JSONL:
            assert [json.loads(line, parse_constant=pytest.fail) for line in whole.splitlines()]


@pytest.mark.parametrize(
    "name",
    mark_all_but_each(2, ["990 levels", "an infinite number", "400 levels of lists", "20,000 open levels"], first=1),
)
def test_corrupt_rows_are_shown_as_text(name: str, reader: Client) -> None:
    """Rows as left by a damaged disk, an older version or a manual change."""
    text = redos_texts.UNREPRESENTABLE[name]
    session = hostile_session({"plain": "nothing special"})
    call = ToolCall.objects.get(session=session)
    make_decision(call=call, evidence=text)
    happened(session)
    digest = digest_text(text)
    ToolCall.objects.update(args=text, args_digest=digest, result=text, result_digest=digest)
    Message.objects.filter(position__gt=0).update(body=text)
    Checkpoint.objects.update(plan=text, usage=text, payload=text, budget_spent_usd=text[:64])
    AuditEvent.objects.update(details=text)
    Session.objects.update(metadata=text, labels=text, result=text)
    complete()
    for address in addresses(session):
        assert (reader.get(address, follow=True).status_code, address) == (200, address)
    for form_name, form in {"jsonl": JSONL, "html": HTML}.items():
        response: Any = reader.get(f"/sessions/{session.pk}/export/{form_name}/")
        assert b"".join(response.streaming_content).decode().rstrip().endswith(form.ending)
    assert text[:20] in reader.get(f"/sessions/{session.pk}/messages/1/?as=message").content.decode()
    changed = reader.post(f"/review/calls/{call.pk}/change/", {"arguments": text})
    assert changed.status_code < 500


def happened(session: Session) -> None:
    AuditEvent.objects.create(
        workspace=session.workspace, session=session, kind=AuditKind.TAKEOVER, actor="run 1", actor_kind="machine"
    )
