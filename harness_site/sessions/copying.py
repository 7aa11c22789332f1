"""What somebody copies: a message, a call, its arguments. Complete, as text, and masked as all that they are shown."""

from typing import Final

from django.http import HttpResponse

from checkpoints.queries.blocks import Part
from checkpoints.queries.conversation import CallCard
from harness_site.rendering.jsontree import dumped
from harness_site.rendering.safe_text import visible_text
from harness_site.rendering.saying import result_parts, stored_value
from harness_site.sessions.finding import texts

_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


def sent(text: str) -> HttpResponse:
    """What hides in a text is sent by name: what somebody pastes is what they saw."""
    return HttpResponse(visible_text(text), content_type="text/plain; charset=utf-8", headers=_HEADERS)


def message(parts: tuple[Part | CallCard, ...]) -> str:
    return "\n\n".join(call(part) if isinstance(part, CallCard) else "\n".join(texts(part)) for part in parts)


def call(card: CallCard) -> str:
    """The call with the arguments that count, and what came back, as a JSON object."""
    told = {"call_id": card.call.call_id, "tool": card.call.name, "arguments": _args(card)}
    if parts := result_parts(card):
        told["result"] = "\n".join(text for part in parts for text in texts(part))
    return dumped(told, indent=2)


def arguments(card: CallCard) -> str:
    return dumped(_args(card), indent=2)


def _args(card: CallCard) -> object:
    return card.call.args if card.record is None else stored_value(card.record.args)


def asked(wanted: str, card: CallCard) -> str:
    return arguments(card) if wanted == "arguments" else call(card)
