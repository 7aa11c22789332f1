"""Sessions that have all words of a query, but not in the same text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter
from harness_site.core.time_range_parameters import TimeRange
from harness_site.search import passage_search
from harness_site.search.passage_search import SearchPage
from harness_site.search.query_terms import SearchQuery, SearchTerm


@dataclass(frozen=True, slots=True)
class WordCount:
    """Number of sessions that have a word, or the smallest possible one if there `is_more`."""

    query: SearchQuery
    sessions: int
    is_more: bool


@dataclass(frozen=True, slots=True)
class WordMatches:
    """Sessions that have all words, newest match of the rarest word first, and the sessions of each word.

    `pages` has the passages of each word in these sessions. If not `is_complete`, older sessions may have all words
    too.
    """

    sessions: tuple[int, ...]
    pages: tuple[tuple[SearchQuery, SearchPage], ...]
    counts: tuple[WordCount, ...]
    is_complete: bool

    @property
    def has_any_word(self) -> bool:
        """Whether any session has one of the words."""
        return any(count.sessions for count in self.counts)


def search_sessions_with_all_words(
    workspace: int,
    query: SearchQuery,
    *,
    wanted: SessionFilter | None = None,
    sessions: Collection[int] | None = None,
    times: TimeRange | None = None,
) -> WordMatches | None:
    """Search the sessions in which each term of a query occurs somewhere; None if the search took too long.

    Reads one page of sessions for each term. Of a term that is in more sessions, only the newest ones are compared. If
    the search of one term took too long, another one that is in no session still tells that none has all terms.
    """
    limits = passage_search.load_sequential_read_limits()
    pages: list[tuple[SearchTerm, SearchPage]] = []
    is_one_slow = False
    for term in query.terms:
        page = passage_search.search_sessions(
            workspace, SearchQuery((term,)), wanted=wanted, sessions=sessions, times=times, limits=limits
        )
        if page.slow and is_one_slow:
            return None
        is_one_slow = is_one_slow or page.slow
        if not page.slow:
            pages.append((term, page))
    counts = tuple(
        WordCount(SearchQuery((term,)), len(page.list_session_pks()), page.next is not None) for term, page in pages
    )
    if is_one_slow and all(count.sessions or count.is_more for count in counts):
        return None
    _rarest, rarest_page = min(pages, key=lambda entry: (entry[1].next is not None, len(entry[1].list_session_pks())))
    common = rarest_page.list_session_pks()
    matching: list[tuple[SearchQuery, SearchPage]] = []
    for term, page in pages:
        if not common:
            break
        word = SearchQuery((term,))
        if page.next is not None:
            page = passage_search.search_sessions(workspace, word, sessions=common, times=times)
            if page.slow:
                return None
        having = set(page.list_session_pks())
        common = [session for session in common if session in having]
        matching.append((word, page))
    is_complete = rarest_page.next is None
    return WordMatches(tuple(common), tuple(matching) if common else (), counts, is_complete)
