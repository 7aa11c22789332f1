"""Words of the workspace that are nearly those of a query, for queries that find nothing.

The passages with words that one edit makes of the typed one are found by a regular expression. A word with more edits
still contains one half of the right word, or its beginning and its end: the passages with those parts are found like
those of any query, and their words are compared with the typed one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from harness_site.core.similar_words import get_max_edits, list_nearest_words
from harness_site.search import passage_search
from harness_site.search.models import Passage
from harness_site.search.query_terms import (
    MisspeltWord,
    SearchQuery,
    SearchTerm,
    do_terms_occur_outside_of_ids,
    fold_case,
)

#: Most queries that are suggested, if their words are equally near.
MAX_SUGGESTIONS: Final = 3
#: Shortest and longest typed word that is corrected, and the shortest part of it that is searched.
_MIN_TERM_LENGTH: Final = 4
_MAX_TERM_LENGTH: Final = 80
_PART: Final = 3
#: Longest word for which a regular expression is searched; parts of longer ones are rare enough.
_MAX_REGEX_LENGTH: Final = 30
#: Typed words that are tried.
_MAX_TERMS: Final = 3
#: Words of the passages that are compared with one typed word.
_MAX_WORDS: Final = 20_000
_WORD: Final = re.compile(r"\.?\w(?:[\w./\\@:+-]*\w)?")
_SEPARATOR: Final = re.compile(r"[./\\@:+-]+")


def suggest_corrected_queries(workspace: int, query: SearchQuery) -> tuple[SearchQuery, ...]:
    """Find the queries with the nearest known words instead of those that occur nowhere, the most likely one first.

    There are several if words are equally near, and none if there is no near word. `query` finds nothing as a whole, or
    only parts of longer words. One of several words that is only a part of longer ones is exchanged too, if there is a
    near word.

    Quoted phrases are searched as they are, and so are words with digits, as an invoice with nearly the same number is
    another invoice, and words after a minus, which a reader may want to leave out. Reads at most a few pages of
    passages for each word.
    """
    limits = passage_search.load_sequential_read_limits(number=passage_search.READ_FOR_PARTS)
    choices = [
        (term,)
        if " " in term.text or index >= _MAX_TERMS
        else _find_nearest_indexed_terms(workspace, term, limits)
        if len(query.terms) == 1
        else _list_choices_for_one_of_several_terms(workspace, term, limits)
        for index, term in enumerate(query.terms)
    ]
    if not all(choices):
        return ()
    best = tuple(terms[0] for terms in choices)
    # One word is exchanged at a time.
    others = ((*best[:index], term, *best[index + 1 :]) for index, terms in enumerate(choices) for term in terms[1:])
    suggested = (SearchQuery(terms) for terms in (best, *others) if terms != query.terms)
    return tuple(islice(suggested, MAX_SUGGESTIONS))


def _list_choices_for_one_of_several_terms(
    workspace: int, term: SearchTerm, limits: passage_search.ReadLimits
) -> tuple[SearchTerm, ...]:
    """List a known word itself, and else the nearest ones; a part of longer words comes after those that are near."""
    word = SearchQuery((term,))
    passages = passage_search.search_sessions(workspace, word, limits=limits).passages
    if any(do_terms_occur_outside_of_ids(word, passage.text) for passage in passages):
        return (term,)
    return (*_find_nearest_indexed_terms(workspace, term, limits), *((term,) if passages else ()))


def _find_nearest_indexed_terms(
    workspace: int, term: SearchTerm, limits: passage_search.ReadLimits
) -> tuple[SearchTerm, ...]:
    """Find the known words with the fewest edits, the word that most sessions have first."""
    typed = fold_case(term.text)
    if not _MIN_TERM_LENGTH <= len(typed) <= _MAX_TERM_LENGTH or any(map(str.isdigit, typed)) or typed[0] == "-":
        return ()
    sessions_by_word: Counter[str] = Counter()
    for passages in _iterate_passages_with_similar_words(workspace, typed, limits):
        sessions_by_word += _count_sessions_by_word(passages, typed)
        near = list_nearest_words(typed, sessions_by_word, limit=MAX_SUGGESTIONS, frequencies=sessions_by_word)
        if near:
            return tuple(map(SearchTerm, near))
    return ()


def _iterate_passages_with_similar_words(
    workspace: int, typed: str, limits: passage_search.ReadLimits
) -> Iterator[tuple[Passage, ...]]:
    if len(typed) <= _MAX_REGEX_LENGTH:
        yield passage_search.load_newest_passages_with_misspelt_word(workspace, MisspeltWord(typed), limits=limits)
    for parts in _list_search_parts_of_word(typed):
        yield passage_search.search_sessions(
            workspace, SearchQuery(tuple(map(SearchTerm, parts))), limits=limits
        ).passages


def _count_sessions_by_word(passages: Iterable[Passage], typed: str) -> Counter[str]:
    """Count the sessions of the words that are about as long as the typed one."""
    lengths = range(len(typed) - get_max_edits(typed), len(typed) + get_max_edits(typed) + 1)
    words = (
        (word, passage.session_id)
        for passage in passages
        for word in _iterate_words_and_path_parts(passage.text)
        if len(word) in lengths and word != typed
    )
    return Counter(word for word, _session in set(islice(words, _MAX_WORDS)))


def _list_search_parts_of_word(typed: str) -> list[tuple[str, ...]]:
    """List the parts that a nearly equal word contains, most telling first."""
    third, half = max(_PART, len(typed) // 3), max(_PART, len(typed) // 2)
    combined = [(typed[:third], typed[-third:])] if len(typed) >= 2 * third else []
    return [*combined, (typed[:half],), (typed[-half:],)]


def _iterate_words_and_path_parts(text: str) -> Iterator[str]:
    """Yield the words of a text, paths as a whole and by their parts."""
    for match in _WORD.finditer(fold_case(text)):
        yield match[0]
        if _SEPARATOR.search(match[0]):
            yield from _SEPARATOR.split(match[0])
            yield match[0].rpartition("/")[2]
