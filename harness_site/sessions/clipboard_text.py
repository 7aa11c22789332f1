"""Plain text of messages, calls and arguments for copying: complete and masked for the reader."""

from typing import Final

from django.http import HttpResponse
from django.utils.translation import gettext

from checkpoints.formats.parse_message_parts import Part, ReasoningPart
from harness_site.core.hidden_characters import replace_hidden_characters_by_names
from harness_site.core.masked_formatting import parse_json_or_text
from harness_site.core.masking.masker import mask_json_value
from harness_site.core.rendering.json_tree import dump_json_for_display, mask_and_dump_json
from harness_site.security_headers import SANDBOX_POLICY
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.transcript_search import iterate_masked_texts_of_part

_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": SANDBOX_POLICY}


def build_text_response_naming_hidden_characters(text: str) -> HttpResponse:
    """Return text as a plain text response, with hidden characters named as on the page."""
    return HttpResponse(
        replace_hidden_characters_by_names(text), content_type="text/plain; charset=utf-8", headers=_HEADERS
    )


def mask_and_format_message_text(parts: tuple[Part | CallCard, ...]) -> str:
    return "\n\n".join(map(_mask_and_format_part, parts))


def _mask_and_format_part(part: Part | CallCard) -> str:
    if isinstance(part, CallCard):
        return mask_and_format_call_json(part)
    if isinstance(part, ReasoningPart) and part.encrypted:
        return gettext("Reasoning, encrypted")
    return "\n".join(iterate_masked_texts_of_part(part))


def mask_and_format_call_json(card: CallCard) -> str:
    """Format a call with its effective arguments and its result as a JSON object."""
    named = {"call_id": card.call.call_id, "tool": card.call.name, "arguments": _get_effective_arguments(card)}
    content = mask_json_value(named)
    if parts := card.result_parts:
        content["result"] = "\n".join(text for part in parts for text in iterate_masked_texts_of_part(part))
    return dump_json_for_display(content, indent=2)


def mask_and_format_call_arguments(card: CallCard) -> str:
    return mask_and_dump_json(_get_effective_arguments(card), indent=2)


def _get_effective_arguments(card: CallCard) -> object:
    return (
        card.call.args
        if card.newest_attempt is None
        else parse_json_or_text(card.newest_attempt.args_json_in_caller_order)
    )


def mask_and_format_call_for_clipboard(part_name: str, card: CallCard) -> str:
    return mask_and_format_call_arguments(card) if part_name == "arguments" else mask_and_format_call_json(card)
