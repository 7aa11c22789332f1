"""Signed requests to webhooks, with their bodies as JSON or for Slack."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.db import clock
from harness_site.accounts import encrypt_stored_secrets
from harness_site.core import formatting
from harness_site.notifications import safe_http
from harness_site.notifications.create_change_or_pause_webhooks import ENCRYPTION_PURPOSE
from harness_site.notifications.load_notice_message_content import NoticeItem, NoticeMessage
from harness_site.notifications.models import Delivery, Event, WebhookFormat

#: Slack's limit of characters in one text block, with a margin.
_SLACK_TEXT: Final = 2900


_SLACK_ITEMS: Final = 10


#: A mention starts a word; an @ inside of a word is part of an address.
_MENTION: Final = re.compile(r"(?<!\w)@(?=\w)")


#: Formatting characters → characters that look alike.
_UNFORMATTED: Final = str.maketrans({"*": "∗", "`": "ˋ", "~": "∼"})


def post_to_webhook_and_get_status(delivery: Delivery, message: NoticeMessage) -> int:
    """Send a signed request; return the status of the response. Raises the errors of `post_to_public_address`."""
    webhook = delivery.webhook
    if webhook is None:
        raise ValueError(f"{delivery.pk} goes to no webhook.")
    content = (
        build_slack_payload(message)
        if webhook.format == WebhookFormat.SLACK
        else build_json_payload(str(delivery.pk), message)
    )
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    secret = encrypt_stored_secrets.decrypt_field(webhook.encrypted_secret, purpose=ENCRYPTION_PURPOSE)
    headers = _build_request_headers(delivery, message.event, body, secret)
    return safe_http.post_to_public_address(
        encrypt_stored_secrets.decrypt_field(webhook.encrypted_address, purpose=ENCRYPTION_PURPOSE), body, headers
    )


def compute_signature(secret: str, timestamp: str, body: bytes) -> str:
    """Compute the HMAC-SHA256 in hex over the timestamp, a dot and the body, so that neither can be replaced."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def build_json_payload(delivery_id: str, message: NoticeMessage) -> dict[str, Any]:
    """Build the documented JSON form of a message."""
    return {
        "delivery": delivery_id,
        "event": str(message.event),
        "workspace": message.workspace,
        "tool": message.tool,
        "headline": message.headline,
        "link": message.link,
        "count": message.count,
        "calls": [_build_call_payload(item) for item in message.items],
        **_build_handover_or_comment_payload(message),
    }


def _build_handover_or_comment_payload(message: NoticeMessage) -> dict[str, Any]:
    if message.event is Event.HANDED_OVER:
        return {"hand_over": {"by": message.author, "to": message.handed_to, "note": message.text}}
    return {"comment": {"by": message.author, "text": message.text}} if message.event is Event.MENTIONED else {}


def build_slack_payload(message: NoticeMessage) -> dict[str, Any]:
    """Build the Slack form of a message: fallback text, and blocks with a button.

    Slack neither links names, channels and addresses in it nor fetches previews.
    """
    text = _format_slack_call_list(message)
    headline = _shorten_and_remove_slack_markup(message.headline, 300)
    return {
        "text": headline,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [
            _build_slack_section(
                f"*{headline}*\n{_shorten_and_remove_slack_markup(message.text or message.explanation, 300)}"
            ),
            *([_build_slack_section(text)] if text else []),
            {
                "type": "actions",
                "elements": [
                    {"type": "button", "text": {"type": "plain_text", "text": _("Open")}, "url": message.link},
                ],
            },
        ],
    }


def _format_slack_call_list(message: NoticeMessage) -> str:
    """Format one line for each call that fits as a whole, and the number of the others."""
    lines: list[str] = []
    for item in message.items[:_SLACK_ITEMS]:
        line = f"• <{item.link}|{_shorten_and_remove_slack_markup(item.sentence, 180)}>"
        if sum(map(len, lines)) + len(lines) + len(line) > _SLACK_TEXT:
            break
        lines.append(line)
    remaining_count = message.count - len(lines)
    return "\n".join(
        [
            *lines,
            *([_("… and %(number)d more.") % {"number": remaining_count}] if remaining_count > 0 and lines else []),
        ]
    )


def _build_slack_section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _shorten_and_remove_slack_markup(text: str, limit: int) -> str:
    """Shorten a text and escape links, mentions and formatting characters.

    An `@here` is a mention in other services that accept Slack's format, and a star or a backtick would end the
    emphasis around it.
    """
    shortened = text if len(text) <= limit else f"{text[: limit - 1]}…"
    escaped = shortened.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MENTION.sub("＠", escaped).translate(_UNFORMATTED)


def _build_call_payload(item: NoticeItem) -> dict[str, Any]:
    return {
        "call": item.call,
        "call_id": item.call_id,
        "session_id": item.session_id,
        "agent": item.agent,
        "tool": item.tool,
        "status": item.status,
        "sentence": item.sentence,
        "since": item.since and formatting.format_iso_time(item.since),
        "deadline": item.deadline and formatting.format_iso_time(item.deadline),
        "link": item.link,
    }


def _build_request_headers(delivery: Delivery, event: Event, body: bytes, secret: str) -> Mapping[str, str]:
    timestamp = str(int(clock.now().timestamp()))
    return {
        "Content-Type": "application/json",
        "User-Agent": "Harness",
        "Harness-Event": str(event),
        "Harness-Delivery": str(delivery.pk),
        "Harness-Attempt": str(delivery.attempts),
        "Harness-Timestamp": timestamp,
        "Harness-Signature": f"v1={compute_signature(secret, timestamp, body)}",
    }
