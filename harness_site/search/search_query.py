"""Search in a workspace, newest hits first, with bounded work.

Frequent terms are found by reading the newest passages, less frequent ones by the index within the newest eras, rare
ones by the index alone. Each method has little to read in just the case it is used for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

from django.db import OperationalError, connection, transaction
from django.db.models import F, QuerySet

from harness_site.accounts import call_secrets
from harness_site.core.masking.masker import mask_given_values, mask_text
from harness_site.search.models import Passage
from harness_site.search.query_terms import SearchQuery
from harness_site.search.term_matching import filter_by_index, filter_by_reading

#: Hits on one page.
PAGE: Final = 60
#: Number of the newest passages read one by one, and the only ones if the index cannot be used.
READ: Final = 10_000
#: Ranges of eras searched after those, newest first, before all older ones.
_ERAS: Final = ((0, 2), (2, 20))
#: Timeout of a search.
_PATIENCE: Final = "1500ms"


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Passages that contain all terms, newest first.

    `before` is the cursor of the next page, None on the last one. `partly` is True if only the newest passages were
    read because all terms are too short for the index, `slow` if the search timed out.
    """

    passages: tuple[Passage, ...]
    before: int | None = None
    partly: bool = False
    slow: bool = False


def search_passages(
    workspace: int, query: SearchQuery, *, before: int | None = None, session: int | None = None
) -> SearchPage:
    """Search a whole workspace, or one session of it."""
    passages = Passage.objects.filter(workspace=workspace)
    if session is not None:
        passages = passages.filter(session=session)
    if before is not None:
        passages = passages.filter(pk__lt=before)
    try:
        with _limit_query_time():
            return _collect_matching_passages(passages, query, before, whole=session is not None)
    except OperationalError:
        return SearchPage((), slow=True)


def reload_passages(workspace: int, query: SearchQuery, keys: tuple[int, ...]) -> SearchPage:
    """Reload the passages of an open page in their order, without deleted ones."""
    passages = Passage.objects.filter(workspace=workspace).in_bulk(keys)
    return SearchPage(_filter_unmasked_matches([passages[pk] for pk in keys if pk in passages], query))


def _collect_matching_passages(
    passages: QuerySet[Passage], query: SearchQuery, before: int | None, *, whole: bool
) -> SearchPage:
    """Collect one page of matches; `whole` is True if the scope is small enough to be searched at once."""
    page: list[Passage] = []
    edge = None if whole else _find_read_limit(before)
    for matches in _iterate_passage_ranges(passages, query, edge):
        page += matches[: PAGE + 1 - len(page)]
        if len(page) > PAGE:
            return SearchPage(_filter_unmasked_matches(page[:PAGE], query), page[PAGE - 1].pk)
    return SearchPage(_filter_unmasked_matches(page, query), partly=edge is not None and not query.indexed)


def _find_read_limit(before: int | None) -> tuple[int, int] | None:
    """Return key and era of the first passage beyond the ones read one by one; None if there is none."""
    newest = Passage.objects.all() if before is None else Passage.objects.filter(pk__lt=before)
    return newest.order_by("-pk").values_list("pk", "era")[READ : READ + 1].first()


def _iterate_passage_ranges(
    passages: QuerySet[Passage], query: SearchQuery, edge: tuple[int, int] | None
) -> Iterator[QuerySet[Passage]]:
    """Yield the matches in successive ranges, newest first; frequent words are found in the first range."""
    if edge is None:
        yield filter_by_index(passages, query).order_by("-pk")
        return
    key, newest = edge
    yield filter_by_reading(passages.filter(pk__gt=key), query).order_by("-pk")
    if not query.indexed:
        return
    # Sort by an expression: with the bare key, the planner may walk through all texts until it has enough matches.
    older = filter_by_index(passages.filter(pk__lte=key), query).order_by((F("pk") + 0).desc())
    oldest = Passage.objects.order_by("pk").values_list("era", flat=True).first() or 0
    for first, upto in _ERAS:
        # A rare term costs as much in every range, so the last one includes everything older.
        if newest - upto < oldest:
            yield _filter_passages_up_to_era(newest - first, older)
            return
        yield older.filter(era__in=[newest - number for number in range(first, upto)])
    yield _filter_passages_up_to_era(newest - _ERAS[-1][1], older)


def _filter_passages_up_to_era(era: int, older: QuerySet[Passage]) -> QuerySet[Passage]:
    """Filter passages of this era and all older ones.

    The expression prevents the use of the index on eras: finding the words first and dropping the few from other eras
    is faster.
    """
    return older.alias(of_era=F("era") + 0).filter(of_era__lte=era)


def _filter_unmasked_matches(passages: Iterable[Passage], query: SearchQuery) -> tuple[Passage, ...]:
    """Drop passages whose terms are masked by now, so that recent secrets cannot be guessed by searching."""
    passages = list(passages)
    secrets = call_secrets.load_secrets_of_sessions({passage.session_id for passage in passages})
    visible = []
    for passage in passages:
        with mask_given_values(secrets.get(passage.session_id, ())):
            text = mask_text(passage.text)
        if query.within(text):
            passage.text = text
            visible.append(passage)
    return tuple(visible)


def list_matching_sessions(workspace: int, query: SearchQuery) -> list[int]:
    """List the keys of all sessions that contain every term, as the current reader may see them."""
    matches = filter_by_index(Passage.objects.filter(workspace=workspace), query).order_by("session_id")
    keys: set[int] = set()
    passages = matches.iterator(chunk_size=PAGE)
    while pieces := list(islice(passages, PAGE)):
        keys |= {passage.session_id for passage in _filter_unmasked_matches(pieces, query)}
    return sorted(keys)


@contextmanager
def _limit_query_time() -> Iterator[None]:
    """Let PostgreSQL plan for the actual search terms, and set the timeout."""
    if connection.vendor == "sqlite":
        yield
        return
    with transaction.atomic():
        _set_query_limits(plan_cache_mode="force_custom_plan", statement_timeout=_PATIENCE)
        yield
        _set_query_limits(plan_cache_mode="auto", statement_timeout="0")


def _set_query_limits(**settings: str) -> None:
    calls = ", ".join("set_config(%s, %s, true)" for _ in settings)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", [part for setting in settings.items() for part in setting])
