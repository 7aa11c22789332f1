"""Words of the workspace that are nearly those of a query, for queries that find nothing.

A word with one wrong, missing or additional letter still contains one half of the right word, or its beginning and its
end. The passages with those parts are found like those of any query, and their words are compared with the typed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from harness_site.core.similar_words import find_most_similar_word_or_empty
from harness_site.search import passage_search
from harness_site.search.query_terms import SearchQuery, SearchTerm, fold_case

#: Shortest and longest typed word that is corrected, and the shortest part of it that is searched.
_MIN_TERM_LENGTH: Final = 4
_MAX_TERM_LENGTH: Final = 80
_PART: Final = 3
#: Typed words that are tried.
_MAX_TERMS: Final = 3
#: Words of the passages that are compared with one typed word.
_MAX_WORDS: Final = 20_000
_WORD: Final = re.compile(r"\.?\w(?:[\w./\\@:+-]*\w)?")
_SEPARATOR: Final = re.compile(r"[./\\@:+-]+")


def suggest_corrected_query(workspace: int, query: SearchQuery) -> SearchQuery | None:
    """Find the query with the nearest known words instead of those that occur nowhere; None if there are none.

    `query` finds nothing as a whole.

    Quoted phrases are searched as they are, and so are words with digits, as an invoice with nearly the same number is
    another invoice, and words after a minus, which a reader may want to leave out. Reads at most a few pages of
    passages for each word.
    """
    limits = passage_search.load_sequential_read_limits(number=passage_search.READ_FOR_PARTS)
    terms = [
        term
        if " " in term.text
        or index >= _MAX_TERMS
        or (
            len(query.terms) > 1
            and passage_search.search_sessions(workspace, SearchQuery((term,)), limits=limits).passages
        )
        else _find_similar_indexed_term(workspace, term, limits)
        for index, term in enumerate(query.terms)
    ]
    known = tuple(term for term in terms if term is not None)
    return SearchQuery(known) if len(known) == len(terms) and known != query.terms else None


def _find_similar_indexed_term(
    workspace: int, term: SearchTerm, limits: passage_search.ReadLimits
) -> SearchTerm | None:
    typed = fold_case(term.text)
    if not _MIN_TERM_LENGTH <= len(typed) <= _MAX_TERM_LENGTH or any(map(str.isdigit, typed)) or typed[0] == "-":
        return None
    words: list[str] = []
    for parts in _list_search_parts_of_word(typed):
        found = passage_search.search_sessions(workspace, SearchQuery(tuple(map(SearchTerm, parts))), limits=limits)
        words += islice(_iterate_words_and_path_parts(passage.text for passage in found.passages), _MAX_WORDS)
        if near := find_most_similar_word_or_empty(typed, sorted(set(words))):
            return SearchTerm(near)
    return None


def _list_search_parts_of_word(typed: str) -> list[tuple[str, ...]]:
    """List the parts that a nearly equal word contains, most telling first."""
    third, half = max(_PART, len(typed) // 3), max(_PART, len(typed) // 2)
    combined = [(typed[:third], typed[-third:])] if len(typed) >= 2 * third else []
    return [*combined, (typed[:half],), (typed[-half:],)]


def _iterate_words_and_path_parts(texts: Iterator[str]) -> Iterator[str]:
    """Yield the words of texts, paths as a whole and by their parts."""
    for text in texts:
        for match in _WORD.finditer(fold_case(text)):
            yield match[0]
            if _SEPARATOR.search(match[0]):
                yield from _SEPARATOR.split(match[0])
                yield match[0].rpartition("/")[2]
