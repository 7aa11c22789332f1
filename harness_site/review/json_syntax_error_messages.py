"""Sentences that say what is wrong with JSON text that a person typed, and where."""

import re
from json import JSONDecodeError
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from harness_site.core.rendering.safe_display_text import reveal_hidden_characters
from harness_site.core.similar_words import find_most_similar_word_or_empty

_TRAILING_COMMA: Final = _("This is not JSON: remove the comma at line {line}, column {column}.")
_TEXT_WITHOUT_QUOTES: Final = _("This is not JSON: enter text in quotes at line {line}, column {column}.")
_LIKE_WORD_OF_JSON: Final = _(
    "This is not JSON: write {word}, or enter text in quotes, at line {line}, column {column}."
)
_OPEN_QUOTES: Final = _(
    "This is not JSON: the quotes that begin at line {line}, column {column} are not closed in this line."
)
_EARLY_END: Final = _("This is not JSON: it ends too early, at line {line}, column {column}.")
_TEXT_AFTER_END: Final = _("This is not JSON: something follows its end at line {line}, column {column}.")
_UNEXPECTED: Final = _("This is not JSON: “{character}” cannot stand at line {line}, column {column}.")
_LINE_BREAK_IN_TEXT: Final = _(
    "This is not JSON: write the line break at line {line}, column {column} as \\n, because it is in a text."
)
_NO_COMMA: Final = _("This is not JSON: a comma is missing before line {line}, column {column}.")
_NO_COLON: Final = _("This is not JSON: a colon is missing before line {line}, column {column}.")
#: Words of other languages, in small letters, for a value of JSON.
_WORDS_OF_OTHER_LANGUAGES: Final = {"none": "null", "nil": "null", "yes": "true", "no": "false"}
#: Beginning of the parser's message → sentence.
_SENTENCES: Final[dict[str, Promise]] = {
    "Unterminated string": _OPEN_QUOTES,
    "Extra data": _TEXT_AFTER_END,
    "Expecting ',' delimiter": _NO_COMMA,
    "Expecting ':' delimiter": _NO_COLON,
}


def describe_json_error(error: JSONDecodeError) -> str:
    """Say in one sentence what is wrong with the text, with the line and the column."""
    text, position = error.doc, error.pos
    before = text[:position].rstrip()
    if text[position : position + 1] in ("}", "]") and before.endswith(","):
        return _put_place_in_sentence(_TRAILING_COMMA, text, len(before) - 1)
    if error.msg.startswith("Illegal trailing comma"):  # newer interpreters name the place of the comma
        return _put_place_in_sentence(_TRAILING_COMMA, text, position)
    sentence = next((known for begin, known in _SENTENCES.items() if error.msg.startswith(begin)), None)
    if sentence is not _OPEN_QUOTES and not text[position:].strip():
        return _put_place_in_sentence(_EARLY_END, text, position)
    if text[position : position + 1] in ("\r", "\n"):
        sentence = _LINE_BREAK_IN_TEXT
    if sentence is None:
        if meant := _find_meant_word(text[position:]):
            return _put_place_in_sentence(_LIKE_WORD_OF_JSON, text, position, word=meant)
        is_word = text[position : position + 1].isalpha() or text[position : position + 1] in ("'", "“", "„", "_")
        sentence = _TEXT_WITHOUT_QUOTES if is_word else _UNEXPECTED
    return _put_place_in_sentence(sentence, text, position)


def _find_meant_word(text: str) -> str:
    """Return the word of JSON that a text may begin with, misspelt: true for `True`, false for `fals`; else empty."""
    match = re.match(r"[A-Za-z]+\b", text)
    typed = match[0].lower() if match else ""
    similar = find_most_similar_word_or_empty(typed, ("true", "false", "null"))
    return _WORDS_OF_OTHER_LANGUAGES.get(typed) or similar


def _put_place_in_sentence(sentence: Promise, text: str, position: int, *, word: str = "") -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    character = reveal_hidden_characters(text[position : position + 1])
    return str(sentence).format(line=line, column=column, character=character, word=word)
