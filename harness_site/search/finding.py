"""Where in a workspace something was said: the newest first, with bounded work however much there is.

What is common is found among the newest passages by reading them; what is less common by the index, within the newest
eras, first a few and then more; what is rare by the index alone, wherever it is. Each of these has little to read
exactly when it is needed.
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
from harness_site.rendering.masking import hiding_values, masked
from harness_site.search.matching import matching, reading
from harness_site.search.models import Passage
from harness_site.search.words import Query

#: Places on one page.
PAGE: Final = 60
#: So many of the newest passages are read one by one. Where the index can do nothing, that is all.
READ: Final = 10_000
#: Eras that are looked through after those, from the newest on, before all that are older.
_ERAS: Final = ((0, 2), (2, 20))
#: Longer than this no search takes; it says so instead.
_PATIENCE: Final = "1500ms"


@dataclass(frozen=True, slots=True)
class Found:
    """Passages in which everything stands that was looked for, the newest first.

    `before` is where the next page begins, None at the end. `partly` says that only the newest passages were read,
    because nothing that was looked for is long enough for the index; `slow` that the search was given up.
    """

    passages: tuple[Passage, ...]
    before: int | None = None
    partly: bool = False
    slow: bool = False


def find(workspace: int, query: Query, *, before: int | None = None, session: int | None = None) -> Found:
    """In a whole workspace, or in one session of it."""
    there = Passage.objects.filter(workspace=workspace)
    if session is not None:
        there = there.filter(session=session)
    if before is not None:
        there = there.filter(pk__lt=before)
    try:
        with _bounded():
            return _found(there, query, before, whole=session is not None)
    except OperationalError:
        return Found((), slow=True)


def again(workspace: int, query: Query, keys: tuple[int, ...]) -> Found:
    """The passages of an open page once more, in their order; without those that have left."""
    there = Passage.objects.filter(workspace=workspace).in_bulk(keys)
    return Found(_readable([there[pk] for pk in keys if pk in there], query))


def _found(there: QuerySet[Passage], query: Query, before: int | None, *, whole: bool) -> Found:
    """`whole` says that there is little enough to read all of it."""
    found: list[Passage] = []
    edge = None if whole else _edge(before)
    for matches in _stretches(there, query, edge):
        found += matches[: PAGE + 1 - len(found)]
        if len(found) > PAGE:
            return Found(_readable(found[:PAGE], query), found[PAGE - 1].pk)
    return Found(_readable(found, query), partly=edge is not None and not query.indexed)


def _edge(before: int | None) -> tuple[int, int] | None:
    """Key and era of the first passage behind those that are read; None where there are no more."""
    newest = Passage.objects.all() if before is None else Passage.objects.filter(pk__lt=before)
    return newest.order_by("-pk").values_list("pk", "era")[READ : READ + 1].first()


def _stretches(there: QuerySet[Passage], query: Query, edge: tuple[int, int] | None) -> Iterator[QuerySet[Passage]]:
    """What matches in one stretch after the other, from the newest on; common words are found in the first."""
    if edge is None:
        yield matching(there, query).order_by("-pk")
        return
    key, newest = edge
    yield reading(there.filter(pk__gt=key), query).order_by("-pk")
    if not query.indexed:
        return
    # By a sum: a database that sees the bare key may walk through all texts until it has met enough that match.
    older = matching(there.filter(pk__lte=key), query).order_by((F("pk") + 0).desc())
    oldest = Passage.objects.order_by("pk").values_list("era", flat=True).first() or 0
    for first, upto in _ERAS:
        # What is rare costs as much in each of these: the last one takes all that is left.
        if newest - upto < oldest:
            yield _until(newest - first, older)
            return
        yield older.filter(era__in=[newest - number for number in range(first, upto)])
    yield _until(newest - _ERAS[-1][1], older)


def _until(era: int, older: QuerySet[Passage]) -> QuerySet[Passage]:
    """Those of this era and of all before it. By a sum, which no index has: to find in the index what all of these eras
    hold takes longer than to find the words in it, and then to leave out the few that are not of these eras."""
    return older.alias(of_era=F("era") + 0).filter(of_era__lte=era)


def _readable(found: Iterable[Passage], query: Query) -> tuple[Passage, ...]:
    """Without what is masked by now: what became secret after it was read cannot be found by guessing either."""
    found = list(found)
    known = call_secrets.of_sessions({passage.session_id for passage in found})
    shown = []
    for passage in found:
        with hiding_values(known.get(passage.session_id, ())):
            text = masked(passage.text)
        if query.within(text):
            passage.text = text
            shown.append(passage)
    return tuple(shown)


def sessions(workspace: int, query: Query) -> list[int]:
    """The keys of all sessions in which everything stands that is looked for, as who reads now may see it."""
    there = matching(Passage.objects.filter(workspace=workspace), query).order_by("session_id")
    keys: set[int] = set()
    passages = there.iterator(chunk_size=PAGE)
    while pieces := list(islice(passages, PAGE)):
        keys |= {passage.session_id for passage in _readable(pieces, query)}
    return sorted(keys)


@contextmanager
def _bounded() -> Iterator[None]:
    """Within this, PostgreSQL plans for the very words that are looked for, and gives up in the end."""
    if connection.vendor == "sqlite":
        yield
        return
    with transaction.atomic():
        _set(plan_cache_mode="force_custom_plan", statement_timeout=_PATIENCE)
        yield
        _set(plan_cache_mode="auto", statement_timeout="0")


def _set(**settings: str) -> None:
    calls = ", ".join("set_config(%s, %s, true)" for _ in settings)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {calls}", [part for setting in settings.items() for part in setting])
