"""Secrets of every form in every field are masked on every page and in every export and message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind, Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import ToolCall
from harness_site.core.masking import mask_argument_secrets_throughout_session, masker
from harness_site.notifications import compose_and_send_email, webhook_requests
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.load_notice_message_content import load_and_build_notice_message
from harness_site.notifications.models import Delivery, Event, Notice
from harness_site.search.models import Passage
from tests.integration.review.payment_agents import awaiting
from tests.integration.search.conftest import complete
from tests.support.client_login import record_reauthentication
from tests.support.exhaustive_mode import mark_all_but_each
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

#: What is written, and the secret that stands in it.
WRITTEN = {
    "stripe": ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWDarjtT1zdp7dc"),
    "terminal": ("sk_live_\x1b[31m5fD40\x1b[0mIrMzkXEbskuU2aeq8ed", "IrMzkXEbskuU2aeq8ed"),
    "escaped": ("sk\\_live\\_6gE51JsNalYFctlvV3bfr9fe", "6gE51JsNalYFctlvV3bfr9fe"),
    "entities": ("sk&#95;live&#x5f;7hF62KtObmZGdumwW4cgs0gf", "7hF62KtObmZGdumwW4cgs0gf"),
    "marked": ("sk_live_8iG73**LuPcn**AHevnxX5dht1hg", "AHevnxX5dht1hg"),
    "linked": ("sk_live_9jH84[MvQdoBIfwoyY](https://x.example/)6eiu2ih", "MvQdoBIfwoyY"),
    "npm": ("npm_aK3dT9qLmW2xZ7vB5nC8rY4sU6jH1gF0eDpQ", "aK3dT9qLmW2xZ7vB5nC8rY4sU6jH1gF0eDpQ"),
    "pypi": ("pypi-AgEIcHlwaS5vcmcCJDU3YmE4", "AgEIcHlwaS5vcmcCJDU3YmE4"),
    "hugging face": ("hf_QwErTyUiOpAsDfGhJkLzXcVbNm", "QwErTyUiOpAsDfGhJkLzXcVbNm"),
    "sendgrid": ("SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf", "ngeVfQFYQlKU0ufo8x5d1A"),
    "pgp": (
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBGPgpBody\n-----END PGP PRIVATE KEY BLOCK-----",
        "lQOYBGPgpBody",
    ),
    "option": ("mysqldump --password Opt10nSecret shop", "Opt10nSecret"),
    "curl": ("curl -u shop:CurlSecret99 https://x.example/", "CurlSecret99"),
    "pwd": ("Server=db;Uid=sa;Pwd=PwdSecret77;", "PwdSecret77"),
    "header": ('{"name": "Authorization", "value": "HeaderSecret5"}', "HeaderSecret5"),
    "plural": ('passwords: ["PluralSecret1", "PluralSecret2"]', "PluralSecret"),
    "encoded": ("state=1%26token%3DEncodedSecret8%26x", "EncodedSecret8"),
    "card": ("card 4111 1111 1111 1111", "4111 1111 1111 1111"),
    "address": ("postgres://app:AddressSecret3@db.example/app", "AddressSecret3"),
    "link": ("see https://x.example/?access_token=LinkSecret44&page=2", "LinkSecret44"),
    "element": ("<password>ElementSecret6</password>", "ElementSecret6"),
}
ALL = "\n\n".join(text for text, _ in WRITTEN.values())
#: Given in fields that are secret by their names, and said elsewhere; a card as a number; a key as the name of a field.
NAMED = "hunter2-of-the-shop"
NUMBER = 5555555555554444
KEY = WRITTEN["stripe"][0]
SECRETS = [*(secret for _, secret in WRITTEN.values()), NAMED, str(NUMBER), "4eC39HqL"]
ARGS = {
    "password": NAMED,
    "note": ALL,
    "headers": [{"name": "Authorization", "value": "Basic c2hvcDpOYW1lZA"}, ["Cookie", "NestedCookie1"]],
    "argv": ["curl", "-u", "shop:ArgvSecret2", "--token", "ArgvSecret3"],
    "number": NUMBER,
    KEY: "a key as a name",
}
SECRETS += ["c2hvcDpOYW1lZA", "NestedCookie1", "ArgvSecret2", "ArgvSecret3"]


@pytest.fixture
def call() -> ToolCall:
    """Call of a session with all secrets in every field that a page shows."""
    session = make_session(
        title=f"Login with {NAMED} and {KEY}",
        agent=f"agent {KEY}",
        session_id=f"order {KEY}",
        result=to_canonical_json({"said": ALL, "number": NUMBER}),
        labels=to_canonical_json([f"label {KEY}"]),
        metadata=to_canonical_json({KEY: NUMBER}),
    )
    make_run(session=session)
    make_message(session=session, text=f"{ALL}\n\nThe password is {NAMED}. And:\n\n```sh\n{ALL}\n```\n\n    {KEY}")
    asked = {"kind": "tool_call", "id": f"call {KEY}", "name": f"pay {KEY}", "args": ARGS}
    image = {"kind": "image", "url": f"https://x.example/a.png?token={NAMED}", "alt": f"image {KEY}"}
    make_message(session=session, role="assistant", blocks=[{"kind": "reasoning", "text": ALL}, asked, image])
    content = to_canonical_json({"password": {"deep": [NAMED]}, "said": ALL, "number": NUMBER, KEY: 1})
    returned = {"kind": "tool_result", "call_id": f"call {KEY}", "content": content}
    make_message(session=session, role="tool", blocks=[returned])
    make_message(session=session, role=KEY, text=f"It answered {NAMED}: {ALL}")
    plan = {"steps": [{"id": "1", "title": f"Pay with {NAMED} {KEY}", "status": "done"}], "password": NAMED}
    make_checkpoint(session=session, plan=plan, payload=to_canonical_json({"number": 1, KEY: NAMED}), length=1)
    make_checkpoint(session=session, plan=plan, payload=to_canonical_json({"number": NUMBER, KEY: 2, "token": NAMED}))
    made = make_call(
        session=session,
        call_id=f"call {KEY}",
        tool=f"pay {KEY}",
        args=ARGS,
        sentence=f"Log in with {NAMED}, {KEY} and {NUMBER}",
        result=f"{NAMED} {ALL}",
        error_type=f"Error {KEY}",
        error_message=f"refused {NAMED} {ALL}",
    )
    make_late_result(call=made, result=f"late {NAMED} {ALL}")
    make_decision(
        call=made,
        kind=DecisionKind.CONFIRM_LANDED,
        final=False,
        reason=f"because {NAMED} {ALL}",
        result=f"{NAMED} {KEY}",
        evidence=to_canonical_json({"link": f"https://x.example/?token={NAMED}", "text": f"{KEY} {NAMED}"}),
    )
    complete()
    return made


def pages(call: ToolCall) -> Iterator[str]:
    base = f"/sessions/{call.session_id}"
    yield from ("/", "/review/", "/review/?tab=awaiting", "/review/?tab=decided", "/calls/", "/audit/")
    yield "/review/news/?since=2020-01-01T00:00:00Z"
    yield from (
        "/sessions/",
        "/sessions/?q=answered",
        "/sessions/?q=late",
        "/sessions/?q=refused",
        "/sessions/?q=because",
        "/sessions/?q=label",
    )
    yield from (f"{base}/", f"{base}/?v=1", f"{base}/?find=answered", f"{base}/?at=2&find=said", f"{base}/?before=3")
    for position in range(4):
        yield from (f"{base}/messages/{position}/", f"{base}/messages/{position}/?as=text")
    yield f"{base}/messages/1/?as=arguments&call={quote(call.call_id)}"
    yield from (f"{base}/calls/", f"{base}/calls/{call.pk}/", f"{base}/calls/{call.pk}/?find=late")
    yield from (f"{base}/calls/{call.pk}/?as=text", f"{base}/calls/{call.pk}/?as=arguments")
    yield from (f"{base}/versions/", f"{base}/compare/?a=1&b=2", f"{base}/fork/", f"{base}/timeline/")
    yield from (f"{base}/workflows/", f"{base}/peers/", f"{base}/plan/", f"{base}/history/")
    yield from (f"/review/calls/{call.pk}/", f"/review/calls/{call.pk}/?answer=1")
    yield from (
        f"{base}/export/jsonl/",
        f"{base}/export/html/",
        f"{base}/export/print/",
        "/sessions/export/",
        "/calls/export/",
        "/sessions/export/?q=answered",
    )
    yield "/audit/export/"


def variants(secret: str) -> set[str]:
    """Return the forms of a secret in a page: plain, its beginning, and encoded for HTML, URLs and JSON."""
    start = secret[:9]
    return {start, escape(start), quote(start), json.dumps(start)[1:-1]}


def leaks(text: str) -> list[str]:
    return [secret for secret in SECRETS if any(variant in text for variant in variants(secret))]


@pytest.mark.parametrize(
    ("status", "role"), mark_all_but_each(3, product([CallStatus.INTERRUPTED, CallStatus.AWAITING_APPROVAL], Role))
)
def test_responses_contain_no_secret(client: Client, call: ToolCall, role: Role, status: CallStatus) -> None:
    ToolCall.objects.update(status=status)
    client.force_login(make_user(role=role))
    leaking = {}
    for page in pages(call):
        response = client.get(page, follow=True)
        assert response.status_code in {200, 404}, page
        content = response.getvalue()
        headers = " ".join(f"{name}: {value}" for name, value in response.headers.items())
        if found := leaks(content.decode() + headers):
            text = content.decode() + headers
            at = min(text.index(each) for secret in found for each in variants(secret) if each in text)
            leaking[page] = (found, text[max(0, at - 80) : at + 40])
    assert leaking == {}


def test_edit_of_arguments_shows_no_secret_and_keeps_the_values(client: Client) -> None:
    call = awaiting(args=ARGS, sentence=f"Pay with {NAMED}")
    client.force_login(make_user(role=Role.APPROVER))
    with masker.use_masking_rules(masker.USUAL):
        shown = json.dumps(masker.mask_json_value(ARGS) | {"more": 1})
    form = {"kind": "edit", "written_as": "json", "args": shown, "reason": "r", "revision": call.revision}
    preview = client.post(f"/review/calls/{call.pk}/change/", form)
    assert not leaks(preview.content.decode())
    assert call.args_digest not in preview.content.decode()
    typed = client.post(f"/review/calls/{call.pk}/", form).content.decode()
    assert not leaks(typed)
    digest = typed.partition('name="shown" value="')[2].partition('"')[0]
    assert client.post(f"/review/calls/{call.pk}/", form | {"shown": digest}).status_code == 302
    call.refresh_from_db()
    assert json.loads(call.args) == json.loads(to_canonical_json(ARGS)) | {"more": 1}


def test_messages_contain_no_secret(call: ToolCall) -> None:
    make_user(role=Role.APPROVER)
    create_due_notices()
    notice = Notice.objects.get(event=Event.INTERRUPTED)
    told = load_and_build_notice_message(notice)
    assert told is not None
    mail = compose_and_send_email.compose_notification_email(Delivery(notice=notice, recipient="a@example.com"), told)
    bodies = [part.get_content() for part in mail.iter_parts()]
    sent = [
        str(mail["Subject"]),
        *bodies,
        json.dumps(webhook_requests.build_json_payload("1", told)),
        json.dumps(webhook_requests.build_slack_payload(told)),
    ]
    assert not leaks("\n".join(sent))
    assert "Log in with ‹masked›" in str(mail["Subject"])


def test_search_index_contains_no_secret(call: ToolCall) -> None:
    assert not leaks("\n".join(Passage.objects.values_list("text", flat=True)))


@pytest.mark.parametrize("secret", [NAMED, KEY, str(NUMBER), "IrMzkXEbskuU2aeq8ed", "6gE51JsNalYFctlvV3bfr9fe"])
@pytest.mark.parametrize("length", mark_all_but_each(3, [4, 6, 100], first=1))
def test_secret_cannot_be_found_by_guessing_its_prefix(
    client: Client, call: ToolCall, secret: str, length: int
) -> None:
    client.force_login(make_user(role=Role.AUDITOR))
    guess, miss = secret[:length], f"{secret[:length]}x"
    for place in (f"/sessions/{call.session_id}/?find=", "/sessions/?q=", "/sessions/export/?q="):
        for word in (guess, miss):
            response = client.get(place + quote(word), follow=True)
            assert str(response.get("Harness-Total", "record 0")) == "record 0", place
            content = response.getvalue()
            assert b"<mark>" not in content, place
            assert b'<ol class="matches">' not in content, place


def test_passage_that_becomes_secret_is_no_longer_found(client: Client) -> None:
    session = make_session()
    make_message(session=session, text=f"my word is {NAMED}, remember")
    complete()
    client.force_login(make_user(role=Role.AUDITOR))
    assert NAMED in client.get(f"/sessions/?q={NAMED}").content.decode().replace("<mark>", "").partition("<main")[2]
    make_call(session=session, args={"password": NAMED})
    assert "<mark>" not in client.get(f"/sessions/?q={NAMED[:8]}").content.decode()
    assert client.get(f"/sessions/export/?q={NAMED[:8]}").headers["Harness-Total"] == "record 0"
    assert "<mark>" not in client.get(f"/sessions/{session.pk}/?find={NAMED[:8]}", follow=True).content.decode()


def test_names_with_secrets_are_linked_by_reference(client: Client, call: ToolCall) -> None:
    client.force_login(make_user(role=Role.AUDITOR))
    queue = client.get("/review/").content.decode()
    for name in ("tool", "agent"):
        token = queue.partition(f'href="?{name}=')[2].partition('"')[0]
        assert token.startswith("masked."), name
        assert f"call-{call.pk}" in client.get(f"/review/?{name}={token}").content.decode()
        assert f"call-{call.pk}" not in client.get(f"/review/?{name}=other").content.decode()
    label = client.get(f"/sessions/{call.session_id}/").content.decode().partition("?label=")[2].partition('"')[0]
    assert f"/sessions/{call.session_id}/" in client.get(f"/sessions/?label={label}").content.decode()


def test_sentence_with_a_short_secret_is_masked(client: Client) -> None:
    session = make_session()
    call = make_call(session=session, args={"pin_token": "7", "door": 2}, sentence="Open door 2 with 7")
    client.force_login(make_user(role=Role.APPROVER))
    page = client.get(f"/review/calls/{call.pk}/").content.decode()
    assert "Open door 2 with 7" not in page
    assert "Refund card: pin token ‹masked›, door 2" in page.partition("<title>")[2].partition("</title>")[0]
    assert call.args_digest not in page


def test_reader_with_permission_sees_all_values(client: Client, call: ToolCall) -> None:
    client.force_login(make_user(role=Role.ADMIN))
    record_reauthentication(client).post("/accounts/secrets/", {"next": "/"})
    page = client.get(f"/review/calls/{call.pk}/").content.decode()
    for secret in (NAMED, KEY, str(NUMBER), call.args_digest):
        assert secret in page, page[:3000]


def test_secret_of_one_call_is_masked_in_other_calls_of_its_session(client: Client) -> None:
    session = make_session()
    make_run(session=session)
    make_call(session=session, call_id="login", tool="log_in", args={"password": NAMED}, status=CallStatus.COMPLETED)
    sentence = f"Mail {NAMED} to the customer"
    lost = make_call(session=session, call_id="mail", tool="mail", args={"n": 1}, sentence=sentence)
    awaits = CallStatus.AWAITING_APPROVAL
    waiting = make_call(session=session, call_id="2", tool="mail", args={"n": 2}, status=awaits, sentence=sentence)
    make_decision(call=lost, kind=DecisionKind.CONFIRM_LANDED, final=False, reason=f"{NAMED} was sent")
    client.force_login(make_user(name="dora", role=Role.ADMIN))
    day = "from=2025-03-04T00:00:00Z&to=2025-03-05T00:00:00Z"
    addresses = [f"/review/?tab={tab}" for tab in ("interrupted", "awaiting", "decided")]
    addresses += ["/review/news/?since=2020-01-01T00:00:00Z", f"/review/outages/?tool=mail&{day}"]
    addresses += [f"/review/calls/{call.pk}/" for call in (lost, waiting)]
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200, address
        assert NAMED not in response.content.decode(), address
    create_due_notices()
    for notice in Notice.objects.all():
        told = load_and_build_notice_message(notice)
        assert told is not None
        assert NAMED not in repr(told)
        assert masker.MASK in repr(told)


def test_secrets_of_the_newest_thousand_calls_of_each_session_are_masked() -> None:
    old, busy = make_session(title=f"Log in with {NAMED}"), make_session(session_id="busy")
    make_run(session=old)
    make_call(session=old, args={"password": NAMED})
    made = make_call(session=busy, args={"n": 1})
    fields: dict[str, Any] = {"session": busy, "run": made.run, "workspace": made.workspace, "step": 1, "args": "{}"}
    fields |= {"tool": "pay", "status": CallStatus.COMPLETED, "side_effects": "mutate", "issued_at": made.issued_at}
    names = [f"call {number}" for number in range(1_000)]
    ToolCall.objects.bulk_create(
        [ToolCall(**fields, call_id=name, idempotency_key=name, args_digest="d", result="1") for name in names]
    )
    assert mask_argument_secrets_throughout_session.load_known_secrets_of_sessions([old.pk, busy.pk]) == {
        old.pk: frozenset({NAMED})
    }
