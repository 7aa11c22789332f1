"""All sessions, newest activity first; and the way from a session's own id to its page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from checkpoints.queries import places, sessions
from checkpoints.queries.known import known
from checkpoints.queries.sessions import SessionPage
from harness_site.accounts import call_secrets
from harness_site.accounts.guard import MemberRequest
from harness_site.search.standing import unread
from harness_site.search.words import Query
from harness_site.sessions.days import Days
from harness_site.sessions.filters import LONGEST, told_by, typed, wanted
from harness_site.sessions.lookup import Missing, reader
from harness_site.sessions.searching import results

#: Parameters that say which part of a list is shown, not what is in it.
_OF_A_PAGE = ("rows", "after", "hits", "then", "before", "within")
#: What makes the first session appear.
FOUR_LINES = """\
from checkpoints import SyncCheckpointer
cp = SyncCheckpointer()
cp.start_session("first", "Hello", agent="my-agent")
cp.save_checkpoint("first", [{"role": "user", "content": "Hello"}], {}, 0.0)
"""


@require_GET
@reader
def listing(request: MemberRequest) -> HttpResponse:
    """With `rows`, the sessions of an open page again, in the order its reader sees them."""
    workspace = request.membership.workspace_id
    asked = wanted(workspace, request.GET)
    common = {
        "wanted": asked,
        "days": Days.of(request.GET),
        "asked": request.GET,
        "exported": _query(request, reverse("sessions-export"), **dict.fromkeys(_OF_A_PAGE, "")),
    }
    if query := Query.parse(typed(request.GET, "q")):
        return results(request, query, asked, {**common, "known": known(workspace)})
    after = places.parse(request.GET.get("after", ""), asked.sort)
    page = sessions.page(workspace, asked, after=after)
    kept = _kept(request)
    rows = sessions.these(workspace, kept) if kept else page.rows
    context = common | {
        "unread": unread(told_by(request.GET)) if asked.among else 0,
        "page": page,
        "rows": rows,
        "secrets": call_secrets.of_sessions([row.pk for row in rows]),
        "known": page.known,
        "fresh": _fresh(page, kept) if kept and after is None else 0,
        "first_time": not rows and not asked and after is None,
        "here": _query(request, rows=""),
        "again": _query(request, rows=",".join(str(row.pk) for row in rows)),
        "following": _query(request, rows="", after=str(page.after)) if page.after else "",
        "first_page": _query(request, rows="", after=""),
        "after": after,
        "four_lines": FOUR_LINES,
    }
    return render(request, "sessions/list.html", context)


@require_GET
@reader
def find(request: MemberRequest) -> HttpResponse:
    session_id = request.GET.get("id", "")
    pk = sessions.pk_of(request.membership.workspace_id, session_id)
    if pk is None:
        raise Missing(
            f"There is no session with the id “{session_id[:LONGEST]}” here.",
            "Ids are exact: case, spaces and slashes count. The list finds parts of an id.",
        )
    return redirect("session", pk)


def _kept(request: HttpRequest) -> tuple[int, ...]:
    named = request.GET.get("rows", "").split(",")[: sessions.PAGE]
    return tuple(int(pk) for pk in named if pk.isascii() and pk.isdigit() and len(pk) <= 18)


def _fresh(page: SessionPage, kept: tuple[int, ...]) -> int:
    """How many sessions stand on the first page now and are not shown."""
    return len({row.pk for row in page.rows} - set(kept))


def _query(request: HttpRequest, path: str = "", **changed: str) -> str:
    """This page's address, or that of `path`, with some of its parameters changed; an empty one is left out."""
    path = path or request.path
    query = request.GET.copy()
    for name, value in changed.items():
        query[name] = value
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    return f"{path}?{query.urlencode()}" if query else path
