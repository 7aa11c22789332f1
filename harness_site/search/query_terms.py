"""Parsing of search queries, and preparation of texts for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

#: Maximum number of terms.
MAX_TERMS: Final = 8
LONGEST: Final = 200
_TERM = re.compile(r'"([^"]+)"|(\S+)')
#: Scripts in which one or two letters are a word: kana, bopomofo, Han, Hangul, Yi.
_DENSE: Final = (
    "\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48f\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_DENSE_RUN = re.compile(f"[{_DENSE}]+")
#: Minimum sequence of letters or digits that the trigram index can find.
_WORD = re.compile(r"[^\W_]{3}")
#: Sequence of letters and digits, and the length from which one with a digit is likely to be in few texts.
_RUN = re.compile(r"[^\W_]+")
_IDENTIFIER: Final = 5
#: Length from which a term that is a part of a word tells what a reader looks for.
_SHORTEST_PART_OF_WORD: Final = 5
#: Hashes, UUIDs and ids that providers give to messages and calls: nobody searches for a part of one.
_MACHINE_ID: Final = re.compile(
    r"(?<![^\W_])(?:(?=[a-f-]*[0-9])(?=[0-9-]*[a-f])[0-9a-f]{8}(?:-?[0-9a-f]{4}){1,6}[0-9a-f]*"
    r"|(?:msg|message|call|fc|toolu|tooluse|run|resp|rs|req|chatcmpl)[_-][0-9a-z]{4,})(?![^\W_])",
    re.IGNORECASE,
)
#: Shortest part of a word that the index finds.
_MIN_PART: Final = 3
#: Separator before each pair: makes even a single letter long enough for a trigram index.
GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """One word or quoted phrase, found anywhere in a text, ignoring case."""

    text: str

    @property
    def dense_script_pairs(self) -> tuple[str, ...]:
        """Return the pairs that `Passage.dense` contains for every text with this term."""
        return tuple(
            dict.fromkeys(letters for run in _DENSE_RUN.findall(self.text) for letters in _build_character_pairs(run))
        )

    @property
    def longest_identifier_part(self) -> str:
        """Return the longest sequence of letters and digits that is likely to be rare, such as a number, or nothing."""
        runs = (run for run in _RUN.findall(self.text) if len(run) >= _IDENTIFIER and any(map(str.isdigit, run)))
        return max(runs, key=len, default="")

    @property
    def is_findable_by_index(self) -> bool:
        """Return whether the index can find this term."""
        return bool(_WORD.search(self.text) or self.dense_script_pairs)


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A conjunction of terms: all of them have to occur in one text.

    `typed_words` are the words as they were typed, in which a term may come again.
    """

    terms: tuple[SearchTerm, ...]
    typed_words: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, typed: str) -> SearchQuery:
        cleaned_text = "".join(
            character for character in typed[:LONGEST] if character != "\0" and not "\ud800" <= character <= "\udfff"
        )
        texts = [phrase or word for phrase, word in _TERM.findall(cleaned_text)]
        words = tuple(text.strip('"') for text in texts if text.strip(' "'))
        return cls(tuple(map(SearchTerm, dict.fromkeys(words)))[:MAX_TERMS], words)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        """Return the query as typed."""
        return " ".join(f'"{term.text}"' if " " in term.text else term.text for term in self.terms)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(term.text for term in self.terms)

    @property
    def without_words_that_begin_with_minus(self) -> SearchQuery:
        """Return the query without the words that begin with a minus, which other search engines would leave out."""
        return SearchQuery(tuple(term for term in self.terms if not term.text.startswith("-")))

    @property
    def has_words_after_minus(self) -> bool:
        return any(term.text.startswith("-") for term in self.terms)

    @property
    def has_term_findable_by_index(self) -> bool:
        """Return whether the index can find one of the terms; otherwise texts have to be read one by one."""
        return any(term.is_findable_by_index for term in self.terms)

    @property
    def highlight_pattern(self) -> re.Pattern[str]:
        """Compile a pattern of what to mark in a text that the query matches: its words in a row, else each.

        The longest terms come first. A very short one counts only as a word of its own if there are longer ones.
        """
        texts = sorted((term.text for term in self.terms), key=len, reverse=True)
        has_long_term = any(_WORD.search(text) for text in texts)
        single = [
            rf"(?<!\w){re.escape(text)}(?!\w)"
            if has_long_term and _is_short_term_outside_dense_scripts(text)
            else re.escape(text)
            for text in texts
        ]
        # without white space at the ends of a word the end of each gap is certain, so that nothing is tried twice
        words = [word.strip() for word in self.typed_words or self.words]
        in_a_row = r"\s+".join(re.escape(word) for word in words if word)
        return re.compile("|".join([in_a_row, *single] if in_a_row else single), re.IGNORECASE)

    def matches_text(self, text: str) -> bool:
        """Return whether every term occurs in `text`."""
        return all(re.search(re.escape(term.text), text, re.IGNORECASE) for term in self.terms)


@dataclass(frozen=True, slots=True)
class MisspeltWord:
    """A typed word, in folded case, of at least four letters, of which one edit makes the words that may be meant.

    An edit adds, removes or replaces a letter, or swaps two neighbouring ones.
    """

    typed: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Return parts of which each word with one edit contains one.

        An edit leaves one of the halves as it is, unless it swaps the letters between them. The index finds no part of
        fewer than three letters, so that in words of four or five letters a wrong one in the middle is not found.
        """
        typed, middle = self.typed, len(self.typed) // 2
        if middle >= _MIN_PART:
            return typed[:middle], typed[middle:], _swap_letter_with_next(typed, middle - 1)
        swapped = (_swap_letter_with_next(typed, index) for index in range(len(typed) - 1))
        return tuple(dict.fromkeys((typed[:_MIN_PART], typed[-_MIN_PART:], *swapped)))

    @property
    def regex(self) -> str:
        """Return a regular expression, for databases and for Python, of the words with one edit.

        Its length grows with the square of that of the word.
        """
        typed = self.typed
        pattern = _escape_for_any_regex_dialect(typed[-1]) + "."
        for index in reversed(range(len(typed))):
            letter, rest = (_escape_for_any_regex_dialect(text) for text in (typed[index], typed[index + 1 :]))
            edited = [f".{rest}", f".{letter}{rest}", rest]
            if index + 1 < len(typed):
                edited.append(_escape_for_any_regex_dialect(_swap_letter_with_next(typed[index:], 0)))
            following = f"{letter}(?:{pattern})" if index + 1 < len(typed) else pattern
            pattern = "|".join([following, *edited])
        return rf"(?:^|\W)(?:{pattern})(?:\W|$)"


def _swap_letter_with_next(text: str, index: int) -> str:
    return text[:index] + text[index + 1] + text[index] + text[index + 2 :]


def _escape_for_any_regex_dialect(text: str) -> str:
    """Escape a text for a regular expression; only the letters and digits have the same meaning in each dialect."""
    return "".join(character if character.isalnum() or character == "_" else "." for character in text)


def do_terms_occur_outside_of_ids(query: SearchQuery, text: str) -> bool:
    """Return whether every term occurs in `text` other than as a part of a longer hash or id.

    A short term has to begin where a word or a part of a name begins, so that “oder” is not told by “coder”.
    """
    return all(_occurs_outside_of_ids(term.text, text) for term in query.terms)


def _occurs_outside_of_ids(term: str, text: str) -> bool:
    if _DENSE_RUN.search(term):
        return True
    begins = rf"(?<![^\W_]){re.escape(term)}" if len(term) < _SHORTEST_PART_OF_WORD else re.escape(term)
    spans: list[tuple[int, int]] | None = None
    for match in re.finditer(begins, text, re.IGNORECASE):
        if spans is None:
            spans = [found.span() for found in _MACHINE_ID.finditer(text)]
        if not any(
            start <= match.start() and match.end() <= end and match.span() != (start, end) for start, end in spans
        ):
            return True
    return False


def _is_short_term_outside_dense_scripts(text: str) -> bool:
    """Return whether a term is one or two letters or digits of a script in which these are a syllable at most."""
    return len(text) < 3 and text.isalnum() and not _DENSE_RUN.search(text)


def fold_case(text: str) -> str:
    """Fold the case of each letter separately, regardless of its position in a word."""
    return text.replace("İ", "i").lower().replace("ς", "σ")


def build_letter_pair_text_of_dense_scripts(text: str) -> str:
    """Build `Passage.dense`: each distinct pair of adjacent letters of dense scripts, and single last letters."""
    runs = _DENSE_RUN.findall(text)
    words = dict.fromkeys(run[at : at + 2] for run in runs for at in range(len(run)))
    return "".join(f"{GAP}{word}" for word in words)


def _build_character_pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
