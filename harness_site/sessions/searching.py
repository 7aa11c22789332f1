"""Sessions in which something was said: the places of the words, grouped by session."""

from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from checkpoints.queries import sessions
from checkpoints.queries.narrowing import SessionFilter, Sort
from checkpoints.queries.sessions import SessionRow
from checkpoints.queries.unreadable import UnreadableRecord
from harness_site.accounts import call_secrets
from harness_site.accounts.guard import MemberRequest
from harness_site.accounts.shown import note_excerpts
from harness_site.search import finding
from harness_site.search.finding import Found
from harness_site.search.models import Kind
from harness_site.search.places import Place, places
from harness_site.search.problems import problems
from harness_site.search.standing import standing
from harness_site.search.words import Query
from harness_site.sessions.days import Days
from harness_site.sessions.lookup import number

#: Places of one session that are shown before one asks for all of them.
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Group:
    row: SessionRow | UnreadableRecord
    places: tuple[Place, ...]
    more: int


def results(request: MemberRequest, query: Query, wanted: SessionFilter, context: dict[str, Any]) -> HttpResponse:
    """`before` goes on behind a page, `within` stays in one session, `hits` shows the places of an open page again."""
    workspace = request.membership.workspace_id
    before, within = _key(request.GET.get("before", "")), number(request, "within")
    found = _found(request, query, before, within)
    by_session = places(found.passages, query)
    if wanted.sort is not Sort.STARTED:
        by_session = _on(Days.of(request.GET), by_session)
    pks = tuple(by_session)
    if before is None and (named := sessions.pk_of(workspace, request.GET.get("q", "").strip())) is not None:
        pks = (named, *(pk for pk in pks if pk != named))
    rows = sessions.these(workspace, pks, wanted)
    shown = None if within is not None else SHOWN
    groups = [_group(row, by_session.get(row.pk, []), shown) for row in rows]
    # Ids and titles stand in every list; what was said does not.
    said = (group.row.pk for group in groups if any(place.kind != Kind.SESSION for place in group.places))
    note_excerpts(request, "search", said)
    context |= {
        "query": query,
        "groups": groups,
        "secrets": call_secrets.of_sessions([group.row.pk for group in groups]),
        "number": sum(len(group.places) + group.more for group in groups),
        "found": found,
        "standing": standing(),
        "problems": problems(workspace),
        "within": within,
        "before": before,
        "hits": ",".join(str(passage.pk) for passage in found.passages),
    }
    return render(request, "sessions/found.html", context)


def _on(days: Days, found: dict[int, list[Place]]) -> dict[int, list[Place]]:
    """The places of these days, and those of no time, as titles are. Where the days are those on which sessions began,
    all that was said in them counts."""
    if not days:
        return found
    chosen = {pk: [place for place in those if place.at is None or days.hold(place.at)] for pk, those in found.items()}
    return {pk: those for pk, those in chosen.items() if those}


def _found(request: MemberRequest, query: Query, before: int | None, within: int | None) -> Found:
    workspace = request.membership.workspace_id
    if kept := _kept(request):
        again = finding.again(workspace, query, kept)
        return replace(again, before=_key(request.GET.get("then", "")))
    return finding.find(workspace, query, before=before, session=within)


def _kept(request: HttpRequest) -> tuple[int, ...]:
    named = map(_key, request.GET.get("hits", "").split(",")[: finding.PAGE])
    return tuple(key for key in named if key is not None)


def _key(text: str) -> int | None:
    """Of a passage; those of old texts are below zero."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _group(row: SessionRow | UnreadableRecord, found: list[Place], shown: int | None) -> Group:
    return Group(row, tuple(found[:shown]), 0 if shown is None else max(0, len(found) - shown))
