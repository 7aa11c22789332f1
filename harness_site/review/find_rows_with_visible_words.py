"""Search in the text that the reader can see of calls, row by row. What is masked for the reader is not found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Case, F, TextField, Value, When
from django.db.models.lookups import GreaterThan

from checkpoints.db.decompressed_text_sql import StoredSize
from harness_site.core import call_sentences, masked_formatting
from harness_site.core.masking.mask_argument_secrets_throughout_session import load_known_secrets_of_sessions
from harness_site.core.masking.masker import (
    MASK,
    mask_json_value,
    mask_values_of_secret_fields_in_context,
    use_masking_rules,
    use_masking_rules_with_extra_values,
)
from harness_site.core.money_amounts_in_call_arguments import GROUPED_NUMBER, list_readings_of_number
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

#: Largest number of rows that can be found.
MOST_FOUND: Final = 100
#: Columns of a row that is searched. Those that follow them in a row are texts of other rows about the call.
SEARCHED_COLUMNS: Final = (
    "pk",
    "session_id",
    "tool",
    "call_id",
    "sentence",
    "searched_args",
    "session__session_id",
    "session__agent",
)
#: Maximum size in bytes of arguments that are searched; of a call with larger ones, the sentence and the names are.
_MAX_ARGUMENT_BYTES: Final = 20_000


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Keys of the rows that were found; `is_complete` says whether all rows were searched."""

    pks: frozenset[int] = frozenset()
    is_complete: bool = True


def find_rows_with_words(rows: Iterable[Any], text: str, *, are_all_rows: bool) -> FoundRows:
    """Find the rows in whose visible text each of the words of `text` occurs; one query, for secrets.

    A word that is a number is found as a whole number, in whatever way its thousands are separated.

    Args:
        rows: Named tuples with `SEARCHED_COLUMNS`, and other texts after them.
        text: The words. Case is ignored.
        are_all_rows: Whether there are no other rows that could be searched.
    """
    words = text.casefold().split()
    candidates = _find_rows_with_words_before_masking(rows, words)
    found = _find_visible_rows_with_words(candidates[:MOST_FOUND], words)
    # Without a row to show, the number of candidates would say how many have these words in a masked text.
    return FoundRows(found, are_all_rows and (len(candidates) <= MOST_FOUND or not found))


def _find_rows_with_words_before_masking(rows: Iterable[Any], words: Sequence[str]) -> list[Any]:
    """Return those of the rows that may have all words: masking takes time and only removes text."""
    with use_masking_rules(None):
        return [row for row in rows if _has_all_words(row, words, ())]


def _find_visible_rows_with_words(rows: Sequence[Any], words: Sequence[str]) -> frozenset[int]:
    """Return the keys of those of the rows in whose visible text all words occur; one query for secrets."""
    secrets = load_known_secrets_of_sessions({row.session_id for row in rows})
    return frozenset(row.pk for row in rows if _has_all_words(row, words, secrets.get(row.session_id, frozenset())))


def build_searched_arguments_expression(column: str) -> Case:
    """Build the expression for the arguments in this column, which is empty for large ones."""
    is_small = When(GreaterThan(StoredSize(column), Value(_MAX_ARGUMENT_BYTES)), then=Value(""))
    return Case(is_small, default=F(column), output_field=TextField())


def _has_all_words(call: Any, words: Sequence[str], secrets: Collection[str]) -> bool:
    text = "\n".join(_iterate_visible_texts(call, secrets)).replace(MASK, "\n").casefold()
    numbers = [word for word in words if GROUPED_NUMBER.fullmatch(word)]
    if not all(word in text for word in words if word not in numbers):
        return False
    found = (
        {reading for number in GROUPED_NUMBER.findall(text) for reading in list_readings_of_number(number)}
        if numbers
        else ()
    )
    return all(not list_readings_of_number(number).isdisjoint(found) for number in numbers)


def _iterate_visible_texts(call: Any, secrets: Collection[str]) -> Iterator[str]:
    """Yield what the reader can see of a call, in which these secrets of its session are masked too."""
    args = masked_formatting.parse_json_or_text(call.searched_args)
    with use_masking_rules_with_extra_values(secrets), mask_values_of_secret_fields_in_context(args):
        names = (call.tool, call.call_id, call.session__session_id, call.session__agent, *call[len(SEARCHED_COLUMNS) :])
        visible_names = [mask_and_reveal_hidden(name) for name in names]
        sentence = call_sentences.build_masked_call_sentence(call.tool, call.sentence, args)
        visible_args = list(_iterate_values(mask_json_value(args)))
    yield from (*visible_names, sentence, *visible_args)


def _iterate_values(value: Any) -> Iterator[str]:
    """Yield the values in a JSON value. Names of fields are no data: calls of one tool have the same ones."""
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iterate_values(inner)
    else:
        yield str(value)
