"""Sentences of calls with the values of their arguments in bold."""

import re
from collections.abc import Iterator
from itertools import islice
from string import Formatter
from typing import Any, Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from checkpoints.models import ToolCall
from harness_site.core import masked_formatting
from harness_site.core.call_sentences import (
    format_argument_in_sentence,
    format_call_sentence,
    list_masked_default_sentence_pieces,
)
from harness_site.core.masking.masker import MASK
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

#: Maximum number of arguments, and maximum length of a value and of a sentence, in which values are searched.
_MAX_VALUES: Final = 50
_MAX_VALUE_LENGTH: Final = 200
_MAX_SENTENCE_LENGTH: Final = 2_000
_VALUE_BETWEEN_BACKTICKS: Final = re.compile(r"`<b>([^<]*)</b>`")
_WORD_WITH_HYPHEN: Final = re.compile(r"[^\s<>]*-[^\s<>]*")


def render_sentence_with_bold_values(call: ToolCall) -> SafeString:
    """Render the sentence of a call with the values of its arguments in bold; that of a question is one piece."""
    sentence = format_call_sentence(call)
    try:
        pieces = _split_call_sentence_at_values(call, sentence)
    except (ValueError, RecursionError):  # the sentence says that its arguments cannot be shown
        pieces = [(sentence, False)]
    html = format_html_join("", "{}", [[format_html("<b>{}</b>", text) if bold else text] for text, bold in pieces])
    return mark_safe(_VALUE_BETWEEN_BACKTICKS.sub(_render_code, html))  # noqa: S308 - escaped above


def _render_code(value: re.Match[str]) -> str:
    """Render a value that the sentence puts between backticks, in which no line breaks inside of `-rf`."""
    words = _WORD_WITH_HYPHEN.sub(r'<span class="whole-word">\g<0></span>', value[1])
    return f"<code>{words}</code>"


def _split_call_sentence_at_values(call: ToolCall, sentence: str) -> list[tuple[str, bool]]:
    if not call.sentence:
        return list_masked_default_sentence_pieces(
            call.tool, masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
        )
    try:
        return list(split_sentence_at_template_values(sentence, call.sentence_template))
    except ValueError:
        args = {} if call.is_question else masked_formatting.parse_json_or_text(call.args)
        return list(split_sentence_at_argument_values(sentence, args))


def split_sentence_at_argument_values(sentence: str, args: Any) -> Iterator[tuple[str, bool]]:
    """Split a sentence without a template into pieces, each with whether it is the value of an argument.

    `sentence` is shown with masked secrets. Texts and numbers of the arguments are found as whole words.
    """
    values = set(_generate_visible_values(args)) if len(sentence) <= _MAX_SENTENCE_LENGTH else set()
    if not values:
        yield sentence, False
        return
    alternatives = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    start = 0
    for match in re.finditer(rf"(?<!\w)(?<!\d[.,])(?:{alternatives})(?!\w|[.,]\d)", sentence):
        yield sentence[start : match.start()], False
        yield match.group(), True
        start = match.end()
    yield sentence[start:], False


def _generate_visible_values(args: Any) -> Iterator[str]:
    """Yield the texts and numbers among the arguments, as a sentence shows them."""
    for name, argument in islice(args.items(), _MAX_VALUES) if isinstance(args, dict) else ():
        value = format_argument_in_sentence(name, argument)
        if (
            isinstance(value, str | int | float)
            and not isinstance(value, bool)
            and len(str(value)) <= _MAX_VALUE_LENGTH
        ):
            text = mask_and_reveal_hidden(str(value).strip())
            if text and MASK not in text:
                yield text


def split_sentence_at_template_values(sentence: str, template: str) -> Iterator[tuple[str, bool]]:
    """Split a sentence into pieces, each with whether it is a value.

    `sentence` is shown with masked secrets, so values are found between the words of the template. Values that no word
    separates are one piece. Raises `ValueError` if the template does not fit the sentence.
    """
    words = [""]
    for literal, field, *_ in Formatter().parse(template):
        words[-1] += mask_and_reveal_hidden(literal)
        if field is not None:
            words.append("")
    if len(words) == 1 or not sentence.startswith(words[0]) or not sentence.endswith(words[-1]):
        raise ValueError(template)
    first, *others, last = words
    end = len(sentence) - len(last)
    yield first, False
    start = len(first)
    for word in filter(None, others):
        at = sentence.index(word, start, end)
        yield sentence[start:at], True
        yield word, False
        start = at + len(word)
    yield sentence[start:end], True
    yield last, False
