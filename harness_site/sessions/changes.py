"""The versions of a session, and any two of them side by side, or one of it and one of another session."""

from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from checkpoints.queries import compare as comparing
from checkpoints.queries import sessions
from checkpoints.queries import versions as reading
from checkpoints.queries.sessions import SessionHead
from harness_site.accounts.guard import MemberRequest
from harness_site.sessions.lookup import Missing, headline, no_version, number, reader

#: So many stretches of unchanged messages are open at once.
_OPEN = 20


@require_GET
@reader
def versions(request: MemberRequest, pk: int) -> HttpResponse:
    head = headline(request, pk)
    page = reading.page(pk, before=number(request, "before"))
    context = {"head": head, "tab": "versions", "page": page, "first_page": number(request, "before") is None}
    return render(request, "sessions/versions.html", context)


@require_GET
@reader
def compare(request: MemberRequest, pk: int) -> HttpResponse:
    """`a` is a version of this session and `b` one of it or, where `with` names one, of another session. Without
    versions, the newest of one session against the one before it, or the newest of both. `other` names another session
    by its own id, as people do."""
    head = headline(request, pk)
    if named := request.GET.get("other", "").strip():
        return redirect(_with(request, head, named))
    other = _other(request, head)
    numbers_a = numbers_b = reading.numbers(pk, around=head.row.version)
    if other is not head:
        numbers_b = reading.numbers(other.row.pk, around=other.row.version)
    a, b = _asked(request, "a", head), _asked(request, "b", other)
    if b is None:
        b = next((found for found in numbers_b if found != a or other is not head), None)
    if a is None:
        a = next((found for found in numbers_a if other is not head or (b is not None and found < b)), b)
    opened = _opened(request)
    found = comparing.compare(pk, a, b, other=other.row.pk, opened=opened) if a is not None and b is not None else None
    context = {
        "head": head,
        "other": other,
        "two": other is not head,
        "tab": "versions",
        "found": found,
        "opened": opened,
        "numbers_a": numbers_a,
        "numbers_b": numbers_b,
    }
    return render(request, "sessions/compare.html", context)


def _opened(request: MemberRequest) -> list[int]:
    """Where folds are open: the last ones of the address, each a position."""
    asked = [text for text in request.GET.getlist("open") if text.isascii() and text.isdigit() and len(text) <= 9]
    return list(dict.fromkeys(map(int, asked)))[-_OPEN:]


def _other(request: MemberRequest, head: SessionHead) -> SessionHead:
    """The session of the second version: the one that `with` names, or the same. Raises `Missing`."""
    asked = request.GET.get("with", "")
    pk = number(request, "with") if asked else head.row.pk
    if pk is None:
        raise Missing("There is no such session to compare with.", "Its address ends in a number.", head)
    return head if pk == head.row.pk else headline(request, pk)


def _with(request: MemberRequest, head: SessionHead, session_id: str) -> str:
    """The address of this page with another session. Raises `Missing`."""
    found = sessions.pk_of(request.membership.workspace_id, session_id)
    if found is None:
        raise Missing("There is no session with this id here.", "Ids are exact: case, spaces and slashes count.", head)
    version = number(request, "a")
    return f"{request.path}?{urlencode({'with': found} | ({} if version is None else {'a': version}))}"


def _asked(request: MemberRequest, name: str, head: SessionHead) -> int | None:
    """The version that a parameter names; None without one. Raises `Missing`."""
    asked, version = request.GET.get(name, ""), number(request, name)
    if asked and (version is None or reading.one(head.row.pk, version) is None):
        raise no_version(head, asked[:20])
    return version
