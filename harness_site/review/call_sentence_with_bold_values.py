"""Sentences of calls with the values of their arguments in bold."""

from collections.abc import Iterator
from string import Formatter

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from checkpoints.models import ToolCall
from harness_site.core.call_sentences import format_call_sentence
from harness_site.core.rendering.display_text import mask_and_reveal_hidden


def render_sentence_with_bold_values(call: ToolCall) -> SafeString:
    """Render the sentence of a call with the values in bold; as plain text if its template does not fit."""
    sentence = format_call_sentence(call)
    try:
        pieces = list(split_sentence_into_values_and_words(sentence, call.sentence_template))
    except ValueError:
        return conditional_escape(sentence)
    return format_html_join("", "{}", [[format_html("<b>{}</b>", text) if bold else text] for text, bold in pieces])


def split_sentence_into_values_and_words(sentence: str, template: str) -> Iterator[tuple[str, bool]]:
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
