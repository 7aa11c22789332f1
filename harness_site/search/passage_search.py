"""Search in a workspace, sessions with the newest matches first, with bounded work.

The key of a passage is the time of its text, so all of this orders by time.

Frequent terms are found by reading the newest passages, less frequent ones by the index within the newest eras, rare
ones by the index alone. Each method has little to read in just the case it is used for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, Self

from django.db import OperationalError, connection, transaction
from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, When

from checkpoints.models import Decision, Message, Session, ToolCall
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, select_sessions_by_filter
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.masker import mask_text, use_masking_rules_with_extra_values
from harness_site.core.time_range_parameters import TimeRange
from harness_site.search import passage_texts_from_verified_sources
from harness_site.search.models import Kind, Passage
from harness_site.search.query_terms import MisspeltWord, SearchQuery
from harness_site.search.trigram_search_conditions import (
    filter_passages_by_misspelt_word_with_index,
    filter_passages_by_misspelt_word_without_index,
    filter_passages_by_query_with_index,
    filter_passages_by_query_without_index,
)

#: Sessions on one page, or passages if only one session is searched.
PAGE: Final = 20
#: Newest matches of one session that a page of sessions has.
PER_SESSION: Final = 4
#: Newest matching calls that a search of the calls finds.
MOST_CALLS: Final = 300
#: Newest passages with a word that is nearly the typed one that are compared with it.
MOST_WITH_MISSPELT_WORD: Final = 100
#: Numbers of the newest matches that are read at once to find their sessions, until these fill a page: at most, and
#: those that are enough.
_MATCHES: Final = ((200, 25), (500, 100), (500, 100), (1600, 1600))
#: Most sessions whose number is counted, in an index of at most `READ` texts.
COUNTED: Final = 200
#: Texts that an unpaged search reads at once.
_CHUNK: Final = 60
#: Number of the newest passages read one by one, and the only ones if the index cannot be used.
READ: Final = 10_000
#: The same for searches of parts of a word, most of which are rare, so that reading many texts finds nothing.
READ_FOR_PARTS: Final = 4_000
#: Ranges of eras searched after those, newest first, before all older ones.
_ERAS: Final = ((0, 2), (2, 20))
#: Timeout of a search.
_PATIENCE: Final = "1500ms"
_CURSOR_TOKEN: Final = re.compile(r"([0-9]{1,18})~([0-9]{1,18})~([0-9]{1,9})~([0-9]{1,9})")
_ORDERED_CURSOR_TOKEN: Final = re.compile(r"ordered~([0-9]{1,9})~([0-9]{1,9})~(.{1,80})")


@dataclass(frozen=True, slots=True)
class SearchCursor:
    """End of a page: the key of the last match, that of the newest match of the first page, and the number of all
    sessions, 0 if it is unknown, and of those shown so far.

    A session is on the page of its newest match. Matches that are newer than the first page do not count for that: so a
    session that goes on while somebody turns the pages is neither repeated nor left out.
    """

    last: int
    newest: int
    total: int = 0
    shown: int = 0

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """Parse the cursor that `str` made; None if `token` is something else."""
        match = _CURSOR_TOKEN.fullmatch(token)
        return None if match is None else cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.last}~{self.newest}~{self.total}~{self.shown}"


@dataclass(frozen=True, slots=True)
class OrderedSearchCursor:
    """End of a page of results in another order than that of the newest match.

    `place` is the cursor of the order, `total` the number of all sessions, 0 if it is unknown, and `shown` the
    number of those shown so far.
    """

    place: str
    total: int = 0
    shown: int = 0

    @classmethod
    def parse(cls, token: str) -> Self | None:
        """Parse the cursor that `str` made; None if `token` is something else."""
        match = _ORDERED_CURSOR_TOKEN.fullmatch(token)
        return None if match is None else cls(match[3], int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"ordered~{self.total}~{self.shown}~{self.place}"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """First passage beyond those that are read one by one: its key and era. `oldest` is the era of the oldest one.

    `key` is None if there are so few passages that the index finds all matches at once.
    """

    key: int | None = None
    newest: int = 0
    oldest: int = 0


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """Keys of the newest calls with all words of a query. `has_more` says that older ones may have them too, and `slow`
    that the search took too long."""

    pks: frozenset[int] = frozenset()
    has_more: bool = False
    slow: bool = False


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Passages that contain all terms, by session; both sessions and passages are newest first.

    `next` is the cursor of the next page, None on the last one, and `newest` the key of the newest match of the first
    page. `partly` is True if only the newest passages were read because all terms are too short for the index, `slow`
    if the search timed out. `cut_sessions` are those that may have more matches than the page has of them. `secrets` is
    the result of `mask_argument_secrets_throughout_session.load_known_secrets_of_sessions` for their sessions.
    """

    passages: tuple[Passage, ...]
    next: SearchCursor | OrderedSearchCursor | None = None
    newest: int | None = None
    partly: bool = False
    slow: bool = False
    cut_sessions: frozenset[int] = frozenset()
    secrets: Mapping[int, frozenset[str]] = field(default_factory=dict, repr=False)

    def list_session_pks(self) -> list[int]:
        """List the sessions of the passages, each once."""
        return list(dict.fromkeys(passage.session_id for passage in self.passages))


def search_sessions(
    workspace: int,
    query: SearchQuery,
    *,
    cursor: SearchCursor | None = None,
    wanted: SessionFilter | None = None,
    sessions: Collection[int] | None = None,
    first: int | None = None,
    times: TimeRange | None = None,
    limits: ReadLimits | None = None,
    kind: Kind | None = None,
) -> SearchPage:
    """Search a page of sessions in a workspace, or among the few `sessions` with these keys.

    Args:
        workspace: Key of the workspace.
        query: Terms that one text has to contain.
        cursor: End of the page before.
        wanted: Filter of the sessions.
        sessions: Keys of all sessions that match the filter, if they are few.
        first: Key of a session that is on the first page anyway, before the others.
        times: Times of the passages.
        limits: Result of `load_sequential_read_limits`, if it is known.
        kind: Kind of the passages, if only one is searched.
    """
    scope = _SearchScope(workspace, query, wanted, sessions, times, kind)
    if sessions is not None:
        limits = ReadLimits()
    try:
        with limit_search_time_and_force_custom_plan():
            limits = limits or load_sequential_read_limits(cursor.last if cursor else None)
            page = _collect_page_of_sessions(scope, limits, cursor, first)
    except OperationalError:
        return SearchPage((), slow=True)
    return _keep_verified_sources_of_page(page, query)


def load_newest_passages_with_misspelt_word(
    workspace: int, word: MisspeltWord, *, limits: ReadLimits
) -> tuple[Passage, ...]:
    """Load the newest `MOST_WITH_MISSPELT_WORD` passages with a word of one edit, none if it takes too long.

    Reads older ranges of the index until one has such a word.
    """
    found: list[Passage] = []
    passages = Passage.objects.filter(workspace=workspace).defer("folded", "dense")
    try:
        with limit_search_time_and_force_custom_plan():
            for matches in _iterate_matches_by_range(
                passages,
                lambda texts: filter_passages_by_misspelt_word_with_index(texts, word),
                lambda texts: filter_passages_by_misspelt_word_without_index(texts, word),
                limits,
                None,
                has_older=True,
            ):
                if found := list(matches[:MOST_WITH_MISSPELT_WORD]):
                    break
            page = _build_masked_search_page(found, SearchQuery(()))
    except OperationalError:
        return ()
    return _keep_verified_sources_of_page(page, SearchQuery(())).passages


def search_calls(workspace: int, query: SearchQuery, *, times: TimeRange | None = None) -> FoundCalls:
    """Search the newest `MOST_CALLS` logged calls in a workspace, of these times, whose texts have all terms."""
    calls = _filter_by_time_of_source(Passage.objects.filter(workspace=workspace, kind=Kind.CALL), times)
    try:
        with limit_search_time_and_force_custom_plan():
            limits = load_sequential_read_limits()
            matches, has_more = _load_newest_matches(calls, query, limits, MOST_CALLS, MOST_CALLS, before=None)
            found = list(Passage.objects.filter(pk__in=[pk for pk, _session in matches]))
    except OperationalError:
        return FoundCalls(slow=True)
    page = _keep_verified_sources_of_page(_build_masked_search_page(found, query), query)
    return FoundCalls(frozenset(passage.source for passage in page.passages), has_more)


def load_newest_passages_of_sessions(
    workspace: int,
    query: SearchQuery,
    sessions: Sequence[int],
    *,
    newest: int | None = None,
    times: TimeRange | None = None,
) -> SearchPage:
    """Load the passages of an open page of sessions again, without those that are newer than its first page."""
    scope = _SearchScope(workspace, query, None, None, times)
    page = replace(_load_newest_matches_of_sessions(scope, sessions, newest), newest=newest)
    return _keep_verified_sources_of_page(page, query)


def search_passages_of_session(
    workspace: int,
    query: SearchQuery,
    session: int,
    *,
    cursor: SearchCursor | None = None,
    newest: int | None = None,
    times: TimeRange | None = None,
) -> SearchPage:
    """Search a page of the passages of one session, of an open first page up to the key `newest`."""
    passages = Passage.objects.filter(workspace=workspace, session=session)
    if cursor is not None:
        passages = passages.filter(pk__lt=cursor.last)
    elif newest is not None:
        passages = passages.filter(pk__lte=newest)
    matches = _filter_by_time_of_source(filter_passages_by_query_with_index(passages, query), times)
    try:
        with limit_search_time_and_force_custom_plan():
            found = list(matches.order_by("-pk")[: PAGE + 1])
            newest = cursor.newest if cursor else found[0].pk if found else None
            following = SearchCursor(found[PAGE - 1].pk, newest or 0) if len(found) > PAGE else None
            page = replace(_build_masked_search_page(found[:PAGE], query), next=following, newest=newest)
    except OperationalError:
        return SearchPage((), slow=True)
    return _keep_verified_sources_of_page(page, query)


def count_visible_sessions_unless_index_is_large(
    workspace: int, query: SearchQuery, wanted: SessionFilter, sessions: Collection[int] | None
) -> int:
    """Count the sessions that a search finds for the reader, in an index that is small; 0 if they are very many."""
    if load_sequential_read_limits().key is not None:
        return 0
    return _count_visible_sessions(_SearchScope(workspace, query, wanted, sessions, None), None)


def _keep_verified_sources_of_page(page: SearchPage, query: SearchQuery) -> SearchPage:
    """Return the page with the texts of sources that are as they were written. It is the same without seals."""
    if get_seal_keys() is None:
        return page
    verified = passage_texts_from_verified_sources.replace_passage_texts_and_drop_unverified(page.passages)
    return replace(page, passages=_drop_matches_that_are_masked_now(verified, query, page.secrets))


@dataclass(frozen=True, slots=True)
class _SearchScope:
    """What a search of sessions looks for: see `search_sessions`."""

    workspace: int
    query: SearchQuery
    wanted: SessionFilter | None
    sessions: Collection[int] | None
    times: TimeRange | None
    kind: Kind | None = None

    def select_all_passages_in_scope(self) -> QuerySet[Passage]:
        passages = Passage.objects.filter(workspace=self.workspace)
        passages = passages if self.kind is None else passages.filter(kind=self.kind)
        return passages if self.sessions is None else passages.filter(session__in=self.sessions)

    def build_session_matches_subquery(
        self, newest: int | None, *, times: TimeRange | None = None
    ) -> QuerySet[Passage, Any]:
        """Query the keys of the matches of a session up to the key `newest`, newest first.

        They are read backwards from the newest text, so that the first ones of many cost no more.
        """
        passages = Passage.objects.filter(workspace=self.workspace, session=OuterRef("pk"))
        passages = passages if self.kind is None else passages.filter(kind=self.kind)
        passages = passages if newest is None else passages.filter(pk__lte=newest)
        matches = _filter_by_time_of_source(filter_passages_by_query_without_index(passages, self.query), times)
        return matches.order_by("-pk").values("pk")


def _collect_page_of_sessions(
    scope: _SearchScope, limits: ReadLimits, cursor: SearchCursor | None, first: int | None
) -> SearchPage:
    """Read the newest matches until their sessions fill the page.

    What was looked at of a session is left out of what is read next, so that one with many matches hides no other. The
    matches of the sessions are loaded once there are enough sessions for the page, or there are no more.
    """
    last, newest = (cursor.last, cursor.newest) if cursor else (None, None)
    page, examined, newest_matches = SearchPage(()), set[int](), dict[int, int]()
    if first is not None:
        examined.add(first)
        page = page if cursor else _load_newest_matches_of_sessions(scope, [first], None)
    more, total = True, cursor.total if cursor else 0
    is_index_small = limits.key is None
    waiting: list[int] = []
    # Filters leave few of the first sessions.
    for round_number, (number, enough) in enumerate(_MATCHES[1:] if scope.wanted else _MATCHES):
        limits = load_sequential_read_limits(last) if round_number and limits.key is not None else limits
        passages = scope.select_all_passages_in_scope().exclude(session__in=examined)
        passages = passages if last is None else passages.filter(pk__lt=last)
        matches, more = _load_newest_matches(passages, scope.query, limits, number, enough, before=last)
        if not matches:
            break
        newest = matches[0][0] if newest is None else newest
        last = matches[-1][0]
        # in reverse, so that the newest match of a session stays
        newest_of_round = {session: pk for pk, session in reversed(matches)}
        candidates = _filter_sessions_not_on_earlier_pages(
            scope, sorted(newest_of_round, key=newest_of_round.__getitem__, reverse=True), cursor
        )
        missing = PAGE + 1 - len(page.list_session_pks()) - len(waiting)
        if len(candidates) > missing:
            candidates, more = candidates[:missing], True
            last = newest_of_round[candidates[-1]]
        examined |= {session for session, pk in newest_of_round.items() if pk >= last}
        newest_matches |= newest_of_round
        waiting += candidates
        if more and len(page.list_session_pks()) + len(waiting) <= PAGE:
            continue
        page = _append_search_page(page, _load_newest_matches_of_sessions(scope, waiting, newest))
        waiting = []
        if not more or len(page.list_session_pks()) > PAGE:
            break
    page = _append_search_page(page, _load_newest_matches_of_sessions(scope, waiting, newest))
    if len(found := page.list_session_pks()) > PAGE:
        more, last = True, newest_matches[found[PAGE - 1]]
        page = replace(page, passages=tuple(passage for passage in page.passages if passage.session_id != found[PAGE]))
    partly = not more and limits.key is not None and not scope.query.has_term_findable_by_index
    following = SearchCursor(last, newest, total) if more and last is not None and newest is not None else None
    if following and cursor is None and is_index_small and not scope.times:
        following = replace(following, total=_count_visible_sessions(scope, first))
    return replace(page, next=following, newest=newest, partly=partly)


def _count_visible_sessions(scope: _SearchScope, first: int | None) -> int:
    """Count the sessions that the reader finds, with the session `first`, in a small index; 0 if they are very many."""
    matches = filter_passages_by_query_with_index(scope.select_all_passages_in_scope(), scope.query).order_by("-pk")
    keys = list(matches.exclude(session=first).values_list("session_id", "pk")[: _MATCHES[-1][0] + 1])
    if len(keys) > _MATCHES[-1][0]:
        return 0
    newest_matches = dict(reversed(keys))
    sessions = _filter_sessions_not_on_earlier_pages(scope, list(newest_matches), None)
    if len(sessions) > COUNTED:
        return 0
    passages = Passage.objects.defer("folded", "dense").filter(pk__in=[newest_matches[pk] for pk in sessions])
    return len(_build_masked_search_page(list(passages), scope.query).passages) + (first is not None)


def _append_search_page(page: SearchPage, added: SearchPage) -> SearchPage:
    return replace(
        page,
        passages=page.passages + added.passages,
        cut_sessions=page.cut_sessions | added.cut_sessions,
        secrets={**page.secrets, **added.secrets},
    )


def _filter_sessions_not_on_earlier_pages(
    scope: _SearchScope, sessions: Sequence[int], cursor: SearchCursor | None
) -> list[int]:
    """Return the sessions that match the filter and whose newest match is not on an earlier page."""
    if cursor is None and not scope.wanted:
        return list(sessions)
    matching = select_sessions_by_filter(scope.workspace, scope.wanted or SessionFilter()).filter(pk__in=sessions)
    if cursor is None:
        kept = set(matching.values_list("pk", flat=True))
    else:
        newest_match = Subquery(scope.build_session_matches_subquery(cursor.newest)[:1])
        rows = matching.annotate(match=newest_match).values_list("pk", "match")
        kept = {session for session, match in rows if match is not None and match < cursor.last}
    return [session for session in sessions if session in kept]


def _load_newest_matches_of_sessions(scope: _SearchScope, sessions: Sequence[int], newest: int | None) -> SearchPage:
    """Load the newest matches of each of a few sessions up to the key `newest`, in the order of the sessions."""
    if not sessions:
        return SearchPage(())
    matches = scope.build_session_matches_subquery(newest, times=scope.times)
    numbers = {f"match_{number}": Subquery(matches[number : number + 1]) for number in range(PER_SESSION)}
    rows = Session.objects.filter(pk__in=sessions).annotate(**numbers).values_list("pk", *numbers)
    keys = {session: [pk for pk in pks if pk is not None] for session, *pks in rows}
    passages = Passage.objects.defer("folded", "dense").in_bulk([pk for pks in keys.values() for pk in pks])
    found = [passages[pk] for session in sessions for pk in keys.get(session, ()) if pk in passages]
    cut = frozenset(session for session, pks in keys.items() if len(pks) == PER_SESSION)
    return replace(_build_masked_search_page(found, scope.query), cut_sessions=cut)


def _filter_by_time_of_source(passages: QuerySet[Passage], times: TimeRange | None) -> QuerySet[Passage]:
    """Filter passages of this time, and those without a time, such as titles."""
    if not times:
        return passages
    sources: dict[str, QuerySet[Any, Any]] = {
        Kind.MESSAGE: Message.objects.values("created_at"),
        Kind.CALL: ToolCall.objects.values("issued_at"),
        Kind.DECISION: Decision.objects.values("created_at"),
    }
    at = Case(*(When(kind=kind, then=Subquery(rows.filter(pk=OuterRef("source")))) for kind, rows in sources.items()))
    bounds = {"at__gte": times.since, "at__lt": times.until}
    bounded = Q(**{lookup: bound for lookup, bound in bounds.items() if bound is not None})
    return passages.alias(at=at).filter(Q(at=None) | bounded)


def _load_newest_matches(
    passages: QuerySet[Passage], query: SearchQuery, limits: ReadLimits, number: int, enough: int, *, before: int | None
) -> tuple[list[tuple[int, int]], bool]:
    """Return the keys of the newest matches before a key, with their sessions, and whether there may be older ones.

    Reads no older range once there are `enough`: the next texts after a range in which a term is frequent are read
    faster one by one than by the index.
    """
    found: list[tuple[int, int]] = []
    ranges = list(
        _iterate_matches_by_range(
            passages,
            lambda texts: filter_passages_by_query_with_index(texts, query),
            lambda texts: filter_passages_by_query_without_index(texts, query),
            limits,
            before,
            has_older=query.has_term_findable_by_index,
        )
    )
    for ranges_left, matches in zip(reversed(range(len(ranges))), ranges, strict=True):
        found += matches.values_list("pk", "session_id")[: number + 1 - len(found)]
        if len(found) > number or (ranges_left and len(found) >= enough):
            return found[:number], True
    return found, False


def load_sequential_read_limits(before: int | None = None, *, number: int | None = None) -> ReadLimits:
    """Find the first passage before a key that is not read one by one, as `number` newer ones are, `READ` if None."""
    number = READ if number is None else number
    newest = Passage.objects.all() if before is None else Passage.objects.filter(pk__lt=before)
    # Only keys are counted off: the index has them, so that no row of all these is read.
    key = Subquery(newest.order_by("-pk").values("pk")[number : number + 1])
    oldest_era = Subquery(Passage.objects.order_by("pk").values("era")[:1])
    row = Passage.objects.filter(pk=key).values_list("pk", "era", oldest_era).first()
    return ReadLimits() if row is None else ReadLimits(*row)


def _iterate_matches_by_range(
    passages: QuerySet[Passage],
    filter_with_index: Callable[[QuerySet[Passage]], QuerySet[Passage]],
    filter_without_index: Callable[[QuerySet[Passage]], QuerySet[Passage]],
    limits: ReadLimits,
    before: int | None,
    *,
    has_older: bool,
) -> Iterator[QuerySet[Passage]]:
    """Yield the matches in successive ranges, newest first; frequent words are found in the first range.

    If not `has_older`, only the texts that are read one by one are searched.
    """
    if limits.key is None:
        yield filter_with_index(passages).order_by("-pk")
        return
    if before is None or before > limits.key:
        yield filter_without_index(passages.filter(pk__gt=limits.key)).order_by("-pk")
    if not has_older:
        return
    # Sort by an expression: with the bare key, the planner may walk through all texts until it has enough matches.
    older = filter_with_index(passages.filter(pk__lte=limits.key)).order_by((F("pk") + 0).desc())
    for first, upto in _ERAS:
        # A rare term costs as much in every range, so the last one includes everything older.
        if limits.newest - upto < limits.oldest:
            yield _filter_passages_not_newer_than_era(limits.newest - first, older)
            return
        yield older.filter(era__in=[limits.newest - number for number in range(first, upto)])
    yield _filter_passages_not_newer_than_era(limits.newest - _ERAS[-1][1], older)


def _filter_passages_not_newer_than_era(era: int, older: QuerySet[Passage]) -> QuerySet[Passage]:
    """Filter passages of this era and all older ones.

    The expression prevents the use of the index on eras: finding the words first and dropping the few from other eras
    is faster.
    """
    return older.alias(of_era=F("era") + 0).filter(of_era__lte=era)


def _build_masked_search_page(passages: Sequence[Passage], query: SearchQuery) -> SearchPage:
    secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(
        {passage.session_id for passage in passages}
    )
    return SearchPage(_drop_matches_that_are_masked_now(passages, query, secrets), secrets=secrets)


def _drop_matches_that_are_masked_now(
    passages: Iterable[Passage], query: SearchQuery, secrets: Mapping[int, frozenset[str]]
) -> tuple[Passage, ...]:
    """Drop passages whose terms are masked by now, so that recent secrets cannot be guessed by searching."""
    visible = []
    for passage in passages:
        with use_masking_rules_with_extra_values(secrets.get(passage.session_id, ())):
            text = mask_text(passage.text)
        if query.matches_text(text):
            passage.text = text
            visible.append(passage)
    return tuple(visible)


def list_session_pks_matching_every_term(workspace: int, query: SearchQuery) -> list[int]:
    """List the keys of all sessions that contain every term, as the current reader may see them."""
    matches = filter_passages_by_query_with_index(Passage.objects.filter(workspace=workspace), query).order_by(
        "session_id"
    )
    keys: set[int] = set()
    passages = matches.iterator(chunk_size=_CHUNK)
    while pieces := list(islice(passages, _CHUNK)):
        keys |= {passage.session_id for passage in _build_masked_search_page(pieces, query).passages}
    return sorted(keys)


@contextmanager
def limit_search_time_and_force_custom_plan() -> Iterator[None]:
    """Let PostgreSQL plan for the actual search terms, and set the timeout."""
    if connection.vendor == "sqlite":
        yield
        return
    is_nested = connection.in_atomic_block
    with transaction.atomic():
        _set_local_postgresql_settings(plan_cache_mode="force_custom_plan", statement_timeout=_PATIENCE)
        yield
        if is_nested:  # otherwise the end of the transaction resets them
            _set_local_postgresql_settings(plan_cache_mode="auto", statement_timeout="0")


def _set_local_postgresql_settings(**settings: str) -> None:
    calls = ", ".join("set_config(%s, %s, true)" for _ in settings)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", [part for setting in settings.items() for part in setting])
