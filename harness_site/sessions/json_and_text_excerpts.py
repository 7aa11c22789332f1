"""JSON values and texts as excerpts of the session pages: objects and lists found in a text, values on one line, and
beginnings of long texts."""

from typing import Any

from django.utils.translation import gettext

from checkpoints.formats import parse_json
from harness_site.core.hidden_characters import escape_hidden_in_json
from harness_site.core.masking.masker import get_masked_text_beginning, mask_secret_fields_only, mask_text
from harness_site.core.rendering.json_tree import dump_json_for_display, quote_ambiguous_text_except_amount
from harness_site.core.rendering.text_shortening import cut_text_to_preview, format_byte_size, get_byte_size

#: Longer results are not parsed as JSON (characters).
_STRUCTURED = 200_000
#: Largest excerpt, in characters and in lines.
_EXCERPT = 800
_EXCERPT_LINES = 8


def parse_json_container(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or list in a text; None if the text is neither."""
    if len(text) > _STRUCTURED or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) and value else None


def mask_fields_and_format_value_as_inline_text(value: Any) -> str:
    """Format a JSON value on one line, without the braces of an object and most quotes: `order 17, to ann`.

    The values of secret fields are masked. The caller masks the part of the text that it displays.
    """
    value = mask_secret_fields_only(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_format_inline_value(inner)}" for key, inner in value.items())
    return "" if value is None else _format_inline_value(value)


def _format_inline_value(value: Any) -> str:
    if isinstance(value, str):
        return escape_hidden_in_json(" ".join(quote_ambiguous_text_except_amount(value).split()))
    return dump_json_for_display(value)


def mask_and_format_text_beginning(content: str, *, lines: int = _EXCERPT_LINES) -> str:
    """Return the beginning of a text that is long or has more than `lines` lines, and the size of the rest."""
    beginning = cut_text_to_preview(content, _EXCERPT, lines)
    if beginning.whole:
        return mask_text(content)
    masked_beginning = get_masked_text_beginning(content, len(beginning.text))
    size = format_byte_size(beginning.size - get_byte_size(beginning.text))
    return gettext("%(text)s … %(size)s more") % {"text": masked_beginning, "size": size}
