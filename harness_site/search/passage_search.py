"""Search in a workspace, newest hits first, with bounded work.

Frequent terms are found by reading the newest passages, less frequent ones by the index within the newest eras, rare
ones by the index alone. Each method has little to read in just the case it is used for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from django.db import OperationalError, connection, transaction
from django.db.models import F, QuerySet, Subquery

from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.accounts import session_secrets_from_call_arguments
from harness_site.core.masking.masker import mask_text, mask_values_in_context
from harness_site.search import passage_texts_from_verified_sources
from harness_site.search.models import Passage
from harness_site.search.query_terms import SearchQuery
from harness_site.search.trigram_search_conditions import (
    filter_passages_by_query_with_index,
    filter_passages_by_query_without_index,
)

#: Hits on one page.
PAGE: Final = 30
#: Hits of one session on a page; after that, the page goes on with other sessions.
PER_SESSION: Final = 5
#: Queries that look for other sessions after one has filled a page.
_ROUNDS: Final = 6
#: Texts that an unpaged search reads at once.
_CHUNK: Final = 60
#: Number of the newest passages read one by one, and the only ones if the index cannot be used.
READ: Final = 10_000
#: Ranges of eras searched after those, newest first, before all older ones.
_ERAS: Final = ((0, 2), (2, 20))
#: Timeout of a search.
_PATIENCE: Final = "1500ms"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """First passage beyond those that are read one by one: its key and era. `oldest` is the era of the oldest one.

    `key` is None if there are so few passages that the index finds all matches at once.
    """

    key: int | None = None
    newest: int = 0
    oldest: int = 0


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Passages that contain all terms, newest first.

    `before` is the cursor of the next page, None on the last one. `partly` is True if only the newest passages were
    read because all terms are too short for the index, `slow` if the search timed out. `cut_sessions` are those with
    more hits than the page has of them. `secrets` is the result of
    `session_secrets_from_call_arguments.load_known_secrets_of_sessions` for their sessions.
    """

    passages: tuple[Passage, ...]
    before: int | None = None
    partly: bool = False
    slow: bool = False
    cut_sessions: frozenset[int] = frozenset()
    secrets: Mapping[int, frozenset[str]] = field(default_factory=dict, repr=False)


def search_passages(
    workspace: int,
    query: SearchQuery,
    *,
    before: int | None = None,
    session: int | None = None,
    sessions: Collection[int] | None = None,
    limits: ReadLimits | None = None,
) -> SearchPage:
    """Search a whole workspace, one session of it, or the few `sessions` with these keys.

    `limits` is the result of `load_sequential_read_limits`, if it is known.
    """
    passages = Passage.objects.filter(workspace=workspace)
    if session is not None:
        passages = passages.filter(session=session)
    if sessions is not None:
        passages = passages.filter(session__in=sessions)
    if before is not None:
        passages = passages.filter(pk__lt=before)
    try:
        with _limit_search_time():
            if session is not None or sessions is not None:
                limits = ReadLimits()
            page = _collect_search_page(
                passages, query, before, limits or load_sequential_read_limits(before), whole=session is not None
            )
    except OperationalError:
        return SearchPage((), slow=True)
    return _keep_verified_sources_of_page(page, query)


def reload_search_page(workspace: int, query: SearchQuery, keys: tuple[int, ...]) -> SearchPage:
    """Reload the passages of an open page in their order, without deleted ones."""
    passages = Passage.objects.filter(workspace=workspace).in_bulk(keys)
    page = _build_masked_search_page([passages[pk] for pk in keys if pk in passages], query)
    return _keep_verified_sources_of_page(page, query)


def _keep_verified_sources_of_page(page: SearchPage, query: SearchQuery) -> SearchPage:
    """Return the page with the texts of sources that are as they were written. It is the same without seals."""
    if get_seal_keys() is None:
        return page
    verified = passage_texts_from_verified_sources.replace_passage_texts_and_drop_unverified(page.passages)
    return replace(page, passages=_drop_matches_that_are_masked_now(verified, query, page.secrets))


def _collect_search_page(
    passages: QuerySet[Passage], query: SearchQuery, before: int | None, limits: ReadLimits, *, whole: bool
) -> SearchPage:
    """Collect one page of matches; `whole` is True if the scope is one session and small enough to be searched at once.

    A session that fills the page is left out of the following queries, so that the page has other sessions as well.
    """
    page: list[Passage] = []
    counts: Counter[int] = Counter()
    cut: set[int] = set()
    last, more = before, True
    for _ in range(_ROUNDS):
        scope = passages.filter(pk__lt=last).exclude(session__in=cut) if cut else passages
        wanted = PAGE - len(page)
        found = _load_newest_matches(scope, query, limits, wanted + 1, before=last)
        more = len(found) > wanted
        for passage in found[:wanted]:
            last = passage.pk
            counts[passage.session_id] += 1
            if whole or counts[passage.session_id] <= PER_SESSION:
                page.append(passage)
            else:
                cut.add(passage.session_id)
        if not more or len(page) >= PAGE:
            break
    partly = not more and limits.key is not None and not query.has_term_findable_by_index
    built = _build_masked_search_page(page, query, before=last if more else None, partly=partly)
    return replace(built, cut_sessions=frozenset(cut))


def _load_newest_matches(
    passages: QuerySet[Passage], query: SearchQuery, limits: ReadLimits, limit: int, *, before: int | None
) -> list[Passage]:
    """Take the newest matches before a key, up to a limit."""
    found: list[Passage] = []
    for matches in _iterate_matches_by_range(passages, query, limits, before):
        found += matches[: limit - len(found)]
        if len(found) >= limit:
            break
    return found


def load_sequential_read_limits(before: int | None = None) -> ReadLimits:
    """Find the first passage before a key that is not read one by one."""
    newest = Passage.objects.all() if before is None else Passage.objects.filter(pk__lt=before)
    oldest_era = Subquery(Passage.objects.order_by("pk").values("era")[:1])
    row = newest.order_by("-pk").values_list("pk", "era", oldest_era)[READ : READ + 1].first()
    return ReadLimits() if row is None else ReadLimits(*row)


def _iterate_matches_by_range(
    passages: QuerySet[Passage], query: SearchQuery, limits: ReadLimits, before: int | None
) -> Iterator[QuerySet[Passage]]:
    """Yield the matches in successive ranges, newest first; frequent words are found in the first range."""
    if limits.key is None:
        yield filter_passages_by_query_with_index(passages, query).order_by("-pk")
        return
    if before is None or before > limits.key:
        yield filter_passages_by_query_without_index(passages.filter(pk__gt=limits.key), query).order_by("-pk")
    if not query.has_term_findable_by_index:
        return
    # Sort by an expression: with the bare key, the planner may walk through all texts until it has enough matches.
    older = filter_passages_by_query_with_index(passages.filter(pk__lte=limits.key), query).order_by(
        (F("pk") + 0).desc()
    )
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


def _build_masked_search_page(
    passages: Sequence[Passage], query: SearchQuery, *, before: int | None = None, partly: bool = False
) -> SearchPage:
    secrets = session_secrets_from_call_arguments.load_known_secrets_of_sessions(
        {passage.session_id for passage in passages}
    )
    return SearchPage(
        _drop_matches_that_are_masked_now(passages, query, secrets), before, partly=partly, secrets=secrets
    )


def _drop_matches_that_are_masked_now(
    passages: Iterable[Passage], query: SearchQuery, secrets: Mapping[int, frozenset[str]]
) -> tuple[Passage, ...]:
    """Drop passages whose terms are masked by now, so that recent secrets cannot be guessed by searching."""
    visible = []
    for passage in passages:
        with mask_values_in_context(secrets.get(passage.session_id, ())):
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
def _limit_search_time() -> Iterator[None]:
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
