"""Finding what an address names, and the page that says what is not there."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from checkpoints.enums import Role
from checkpoints.queries import sessions
from checkpoints.queries.sessions import SessionHead
from harness_site.accounts import call_secrets
from harness_site.accounts.guard import MemberRequest, member

P = ParamSpec("P")

#: The largest key both databases can look for.
_MOST = 2**63 - 1


class Missing(Exception):
    """What a page needs does not exist. `what` and `hint` are sentences for its reader."""

    def __init__(self, what: str, hint: str, head: SessionHead | None = None) -> None:
        self.what, self.hint, self.head = what, hint, head
        super().__init__(what)


def reader(
    view: Callable[Concatenate[MemberRequest, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """A page that every member may read; what it does not find is a page with status 404."""

    @wraps(view)
    def answered(request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except Missing as missing:
            return render(request, "sessions/missing.html", {"missing": missing, "head": missing.head}, status=404)

    return member(Role.AUDITOR)(answered)


def headline(request: MemberRequest, pk: int) -> SessionHead:
    """The session of a page; its secret values are masked from now on. Raises `Missing`, also for a session of
    another workspace."""
    head = sessions.head(request.membership.workspace_id, pk) if pk <= _MOST else None
    if head is None:
        raise Missing(
            "There is no such session here.",
            "It may have been deleted, or belong to a workspace you are not a member of. Nothing was changed.",
        )
    call_secrets.hide(pk)
    return head


def number(request: HttpRequest, name: str) -> int | None:
    """A whole number of the query; None where it is absent or anything else."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def no_version(head: SessionHead, version: str) -> Missing:
    """For an address that names a version which is not there."""
    return Missing(
        f"This session has no version {version}.",
        f"Its newest version is {head.row.version}. Older ones may have been deleted; numbers are never used again.",
        head,
    )
