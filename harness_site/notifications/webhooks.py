"""Addresses that are told: making them, pausing them, and what is sent to them."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import transaction
from django.http import HttpRequest

from checkpoints import clock
from checkpoints.enums import AuditKind
from harness_site import wording
from harness_site.accounts import encryption, secrets, trail
from harness_site.accounts.models import Membership
from harness_site.notifications import posting
from harness_site.notifications.messages import Item, Message
from harness_site.notifications.models import CALL_EVENTS, Delivery, Event, Webhook, WebhookFormat

_PREFIX: Final = "whsec"
_PURPOSE: Final = "webhooks"
#: Slack takes this much text in one part of a message.
_SLACK_TEXT: Final = 2900
_SLACK_ITEMS: Final = 10
#: A mention begins a word; what stands inside of one is an address.
_MENTION: Final = re.compile(r"(?<!\w)@(?=\w)")
#: Signs that format what stands between two of them → others that look alike.
_UNFORMATTED: Final = str.maketrans({"*": "∗", "`": "ˋ", "~": "∼"})


def create(
    by: Membership,
    *,
    name: str,
    address: str,
    format: WebhookFormat,
    events: Iterable[str],
    request: HttpRequest,
) -> tuple[Webhook, str]:
    """A new webhook, and the secret that signs what it is sent, which is shown only now. Raises `AddressRefused`."""
    host = posting.checked(address).hostname or ""
    secret = secrets.made(_PREFIX)
    wanted = set(events)
    with transaction.atomic():
        webhook = Webhook.objects.create(
            workspace=by.workspace,
            name=name,
            host=host,
            address_sealed=encryption.encrypt(address, purpose=_PURPOSE),
            secret_sealed=encryption.encrypt(secret, purpose=_PURPOSE),
            format=format,
            events=",".join(event for event in CALL_EVENTS if event in wanted),
            created_by=by.user.get_username(),
        )
        record(by, AuditKind.WEBHOOK_CREATED, webhook, request, events=webhook.events)
    return webhook, secret


def pause(by: Membership, webhook: Webhook, *, request: HttpRequest) -> None:
    """What there is to tell waits from now on. One that is paused stays as it is."""
    _switch(by, webhook, AuditKind.WEBHOOK_PAUSED, request, paused=True)


def resume(by: Membership, webhook: Webhook, *, request: HttpRequest) -> None:
    """What waited is sent, unless it was decided meanwhile."""
    _switch(by, webhook, AuditKind.WEBHOOK_RESUMED, request, paused=False)


def delete(by: Membership, webhook: Webhook, *, request: HttpRequest) -> None:
    """It and its log are gone."""
    with transaction.atomic():
        if webhook.delete()[0]:
            record(by, AuditKind.WEBHOOK_DELETED, webhook, request)


def send(delivery: Delivery, message: Message) -> int:
    """Returns the status of the answer. Raises what `posting.post` raises."""
    webhook = delivery.webhook
    if webhook is None:
        raise ValueError(f"{delivery.pk} goes to no webhook.")
    content = slack(message) if webhook.format == WebhookFormat.SLACK else payload(str(delivery.pk), message)
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    opened = encryption.decrypt(webhook.secret_sealed, purpose=_PURPOSE)
    headers = _headers(delivery, message.event, body, opened)
    return posting.post(encryption.decrypt(webhook.address_sealed, purpose=_PURPOSE), body, headers)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 in hex over the timestamp, a dot and the body, so that neither can be exchanged."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def payload(delivery_id: str, message: Message) -> dict[str, Any]:
    """The documented form of a message."""
    return {
        "delivery": delivery_id,
        "event": str(message.event),
        "workspace": message.workspace,
        "tool": message.tool,
        "headline": message.headline,
        "link": message.link,
        "count": message.count,
        "calls": [_call(item) for item in message.items],
    }


def slack(message: Message) -> dict[str, Any]:
    """Text for where blocks are not shown, and blocks with a button. Nothing in it is looked through for addresses,
    names or channels, and no address is fetched for a preview."""
    text = _listed(message)
    headline = _escaped(message.headline, 300)
    return {
        "text": headline,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [
            _section(f"*{headline}*\n{_escaped(message.explanation, 300)}"),
            *([_section(text)] if text else []),
            {
                "type": "actions",
                "elements": [
                    {"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": message.link},
                ],
            },
        ],
    }


def _listed(message: Message) -> str:
    """A line for each call, as far as there is room for whole ones, and how many more there are."""
    lines: list[str] = []
    for item in message.items[:_SLACK_ITEMS]:
        line = f"• <{item.link}|{_escaped(item.sentence, 180)}>"
        if sum(map(len, lines)) + len(lines) + len(line) > _SLACK_TEXT:
            break
        lines.append(line)
    more = message.count - len(lines)
    return "\n".join([*lines, *([f"… and {more} more"] if more > 0 and lines else [])])


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _escaped(text: str, limit: int) -> str:
    """Nothing in it becomes a link, a mention, or an emphasis: `@here` is a mention where something else than Slack
    takes its format, and a star or a backtick would end the emphasis it stands in."""
    short = text if len(text) <= limit else f"{text[: limit - 1]}…"
    plain = short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub("＠", plain).translate(_UNFORMATTED)


def _call(item: Item) -> dict[str, Any]:
    return {
        "call": item.call,
        "call_id": item.call_id,
        "session_id": item.session_id,
        "agent": item.agent,
        "tool": item.tool,
        "status": item.status,
        "sentence": item.sentence,
        "since": item.since and wording.iso(item.since),
        "deadline": item.deadline and wording.iso(item.deadline),
        "link": item.link,
    }


def _headers(delivery: Delivery, event: Event, body: bytes, secret: str) -> Mapping[str, str]:
    timestamp = str(int(clock.now().timestamp()))
    return {
        "Content-Type": "application/json",
        "User-Agent": "Harness",
        "Harness-Event": str(event),
        "Harness-Delivery": str(delivery.pk),
        "Harness-Attempt": str(delivery.attempts),
        "Harness-Timestamp": timestamp,
        "Harness-Signature": f"v1={signature(secret, timestamp, body)}",
    }


def _switch(by: Membership, webhook: Webhook, kind: AuditKind, request: HttpRequest, *, paused: bool) -> None:
    with transaction.atomic():
        same = Webhook.objects.filter(pk=webhook.pk, paused_at__isnull=paused)
        if same.update(paused_at=clock.now() if paused else None):
            record(by, kind, webhook, request)


def record(by: Membership, kind: AuditKind, webhook: Webhook, request: HttpRequest, **details: Any) -> None:
    """What a member did with a webhook, for the audit trail."""
    trail.record(by, kind, request=request, webhook=webhook.name, host=webhook.host, **details)
