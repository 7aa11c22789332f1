"""Hostile text in e-mails, webhooks, CSV files, logs and terminals is only text."""

import csv as reading
import json
import logging
import re
from email.message import EmailMessage
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from checkpoints.enums import Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import ToolCall
from harness_site import send_email
from harness_site.core import csv_rows
from harness_site.core.log_formatter_and_filter import OneEntryFormatter
from harness_site.core.streamed_downloads import build_safe_file_name
from harness_site.notifications import compose_and_send_email, webhook_requests
from harness_site.notifications.create_due_notices import create_due_notices
from harness_site.notifications.load_notice_message_content import load_and_build_notice_message
from harness_site.notifications.models import Delivery, WebhookFormat
from harness_site.notifications.send_due_deliveries import DeliveryRound
from harness_site.review import evidence_files
from harness_site.review.models import EvidenceFile
from tests.integration.notifications.conftest import (  # noqa: F401 - fixtures
    Start,
    mail,
    make_user_with_address,
    make_webhook,
    start_mail_server,
    told,
    web,
)
from tests.support.client_login import sign_in
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import make_decision, make_run, make_session, make_user
from tests.support.hidden_character_texts import HOSTILE, list_hidden_characters, make_hostile_calls, stored

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]

#: The headers of a message of the site, in any order.
HEADERS = {
    *("subject", "from", "to", "date", "auto-submitted", "message-id", "x-harness-delivery", "mime-version"),
    "content-type",
}


def waiting(text: str) -> list[ToolCall]:
    """Create pending calls of distinct tools, so that each gets its own message."""
    session = make_session(agent=stored(text)[:200], session_id=stored(text)[:255])
    calls = list(make_hostile_calls(make_run(session=session), text))
    for number, call in enumerate(calls):
        call.tool = f"{call.tool[:190]}{number}"
        call.save()
    return calls


@pytest.mark.parametrize("text", mark_all_but_each(3, HOSTILE.values()), ids=HOSTILE.keys())
def test_mail_has_only_the_headers_and_lines_of_the_site(text: str, alice: User) -> None:
    for call in waiting(text)[:3]:
        create_due_notices()
        delivery = Delivery.objects.filter(notice__noticed__tool_call=call).get()
        said = load_and_build_notice_message(delivery.notice)
        assert said is not None
        composed = compose_and_send_email.compose_notification_email(delivery, said)
        head, *_ = composed.as_bytes().partition(b"\n\n")
        names = [line.partition(b":")[0].decode().lower() for line in head.split(b"\n") if line[:1].strip()]
        assert sorted(names) == sorted(HEADERS)
        assert "=?" not in str(composed["Subject"])
        assert list_hidden_characters(str(composed["Subject"])) == set()
        plain, page = (part.get_content() for part in composed.iter_parts() if isinstance(part, EmailMessage))
        assert list_hidden_characters(plain) | list_hidden_characters(page) == set()
        assert len(plain.splitlines()) == 10 + bool(said.items[0].deadline)
        assert "<script id=evil>" not in page


@pytest.fixture
def alice(db: None) -> User:
    return make_user_with_address("alice", Role.APPROVER)


def test_encoded_word_is_sent_as_text(start_mail_server: Start, alice: User) -> None:  # noqa: F811 - a fixture
    office = start_mail_server()
    word = HOSTILE["encoded words"]
    session = make_session(agent=word, session_id=word)
    call = next(iter(make_hostile_calls(make_run(session=session), word)))
    assert told() == DeliveryRound(sent=1)
    (got,) = office.messages
    assert sorted(line.partition(":")[0].lower() for line in got["headers"]) == sorted(HEADERS)
    assert got["subject"].startswith("[Harness] Needs a decision: = ?utf-8?q?=0D=0AReply-To:_thief@evil.example")
    assert "\nReply-To" not in got["text"]
    assert f"{call.sentence}\n" in got["text"].replace("\r\n", "\n")


def test_header_injection_is_refused(settings: Any) -> None:
    composed = EmailMessage()
    composed["Subject"] = "x =?utf-8?q?=0D=0ABcc:_all@example.com?="
    with pytest.raises(send_email.HeaderContainsLineBreak, match=r"Subject .* line break"):
        send_email.send_email_through_server(composed, "https://harness.example/")


@pytest.mark.parametrize("text", mark_all_but_each(3, HOSTILE.values()), ids=HOSTILE.keys())
@pytest.mark.parametrize("form", [WebhookFormat.JSON, WebhookFormat.SLACK])
def test_webhook_contains_only_text(text: str, form: WebhookFormat) -> None:
    make_webhook(format=form)
    call = waiting(text)[0]
    create_due_notices()
    said = load_and_build_notice_message(Delivery.objects.filter(notice__noticed__tool_call=call).get().notice)
    assert said is not None
    content = (
        webhook_requests.build_slack_payload(said)
        if form == WebhookFormat.SLACK
        else webhook_requests.build_json_payload("1", said)
    )
    body = json.dumps(content, ensure_ascii=False)
    assert body.encode()
    assert list_hidden_characters(body) == set()
    if form == WebhookFormat.SLACK:
        shown = content["text"] + content["blocks"][1]["text"]["text"]
        own = re.sub(r"<https://harness\.example/[^|>]*\|", "", shown).replace(">\n", "\n").removesuffix(">")
        assert not set(own) & set("<>*`")
        assert not re.search(r"(?<!\w)@\w", own)
        assert all(block["text"]["verbatim"] for block in content["blocks"][:-1])


def test_slack_list_is_cut_between_lines() -> None:
    make_webhook()
    for _ in range(10):
        list(make_hostile_calls(make_run(session=make_session()), "<&>" * 60))
    create_due_notices()
    said = max(
        (load_and_build_notice_message(one.notice) for one in Delivery.objects.all()),
        key=lambda one: one.count if one else 0,
    )
    assert said is not None
    text = webhook_requests.build_slack_payload(said)["blocks"][1]["text"]["text"]
    assert len(text) < 3000
    *lines, rest = text.splitlines()
    assert all(line.startswith("• <https://") and line.endswith(">") for line in lines)
    assert rest == f"… and {said.count - len(lines)} more."


SIGNS = "=+-@＝＋－＠"


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("before", ["", "x;", "x; ", 'x;"', "x\t", "x|", "x\n", " ", "\t", "\n", '"', ";;", "\u2003"])
def test_csv_cells_start_no_formula(sign: str, before: str) -> None:
    line = csv_rows.mask_and_format_csv_line([f"{before}{sign}1+1", "z"])
    for separators in (",", ";", "\t", "|", ";|\t,"):
        for cell in re.split(f"[{re.escape(separators)}\n]", line):
            assert not cell.strip().strip('"').strip().startswith(tuple(SIGNS)), (separators, cell)


@pytest.mark.parametrize("text", ["plain", "a, b; c", "a-b=c", '{"a": 1, "b": -2}', "2026-01-01T00:00:00.000Z"])
def test_other_csv_cells_are_unchanged(text: str) -> None:
    assert next(reading.reader([csv_rows.mask_and_format_csv_line([text])])) == [text]


@pytest.mark.parametrize("text", [*HOSTILE.values(), "../../etc/passwd", "CON.txt", "nul .log", "a" * 400 + ".png"])
def test_download_name_is_valid_on_every_system(client: Client, text: str) -> None:
    name = build_safe_file_name(stored(text))
    assert list_hidden_characters(name) == set()
    assert not set(name) & set('\\/:*?"<>|%\n\t')
    assert 0 < len(name) <= 150
    assert name == name.strip(" .")
    assert name.partition(".")[0].strip().upper() not in {"CON", "NUL", "AUX", "PRN"}
    call = next(iter(make_hostile_calls(make_run(session=make_session()), "x")))
    file = evidence_files.delete_orphans_and_store_evidence_file(
        call, SimpleUploadedFile("seen.txt", b"password=hunter22"), given_by="dave"
    )
    EvidenceFile.objects.filter(pk=file.pk).update(name=stored(text)[:255])
    make_decision(call=call, evidence=to_canonical_json({"file": evidence_files.build_evidence_reference(file)}))
    answer = sign_in(client, make_user()).get(f"/review/evidence/{file.pk}/")
    assert answer.status_code == 200
    assert answer.headers["Content-Disposition"].startswith("attachment; filename")
    assert answer.headers["Content-Disposition"].isascii()


@pytest.mark.parametrize("text", mark_all_but_each(3, HOSTILE.values()), ids=HOSTILE.keys())
def test_text_cannot_forge_a_log_entry(text: str) -> None:
    said = StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(OneEntryFormatter("{asctime} {levelname} {name}: {message}", style="{"))
    try:
        raise ValueError(f"{text}\n2026-01-01 00:00:00,000 INFO site: all is well")
    except ValueError as error:
        record = logging.LogRecord(
            "site", logging.ERROR, "x", 1, "about %s\n2026-01-01 ERROR x: y", (text,), (type(error), error, None)
        )
    handler.handle(record)
    first, *further = said.getvalue().removesuffix("\n").split("\n")
    assert " ERROR site: about " in first
    assert all(line.startswith("    | ") for line in further)
    assert list_hidden_characters(said.getvalue()) == set()


@pytest.mark.parametrize("text", mark_all_but_each(3, HOSTILE.values()), ids=HOSTILE.keys())
def test_terminal_output_is_only_text(text: str) -> None:
    run = make_run(session=make_session())
    calls = list(make_hostile_calls(run, text))
    said = StringIO()
    call_command("pending", stdout=said)
    lines = said.getvalue().removesuffix("\n").split("\n")
    assert len(lines) == len(calls) - 1
    assert all(line.isprintable() for line in lines)
