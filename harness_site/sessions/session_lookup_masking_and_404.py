"""Lookup of the objects that a URL names, and the response if one does not exist."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _

from checkpoints.enums import Role
from checkpoints.seals import row_seals
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.number_parameters import parse_whole_number_or_none
from harness_site.sessions.selectors import session_head, session_rows
from harness_site.sessions.selectors.session_head import SessionHead

P = ParamSpec("P")

#: Largest primary key of both databases.
_MAX_PK = 2**63 - 1


class PageNotFound(Exception):
    """Raised if an object that a page needs does not exist.

    `what` and `hint` are sentences for the reader. With `offers_calls`, the page leads to the calls of the session.
    """

    def __init__(self, what: str, hint: str, head: SessionHead | None = None, *, offers_calls: bool = False) -> None:
        self.what, self.hint, self.head, self.offers_calls = what, hint, head, offers_calls
        super().__init__(what)


def require_member_and_handle_page_not_found(
    view: Callable[Concatenate[MemberRequest, P], HttpResponseBase],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Decorate a view for every member; `PageNotFound` becomes a page with status 404."""

    @wraps(view)
    def render_view_or_not_found(request: MemberRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except PageNotFound as missing:
            return render(request, "sessions/not_found.html", {"missing": missing, "head": missing.head}, status=404)

    return require_member_with_role(Role.AUDITOR)(render_view_or_not_found)


def get_session_head_and_mask_secrets_or_404(request: MemberRequest, pk: int, *, verified: bool = True) -> SessionHead:
    """Load the session of a page and mask its secret values until the response.

    Secret values of other sessions that the page names are masked if they are in these names.

    `verified` False is for the page about what was altered. Raises `PageNotFound`, also if the session belongs to
    another workspace, and `IntegrityError` for a session that was altered.
    """
    request.session_shown = pk  # also if it cannot be read
    head = session_head.load_session_head(request.membership.workspace_id, pk) if pk <= _MAX_PK else None
    if head is None:
        del request.session_shown
        raise PageNotFound(
            _("There is no such session here."),
            _(
                "It may have been deleted, or belong to a workspace you are not a member of. Search for it by its id "
                "or title."
            ),
        )
    mask_argument_secrets_throughout_session.mask_session_secrets_until_response(pk)
    mask_secrets_in_names_of_other_sessions_until_response(head)
    if verified:
        row_seals.verify_row(head.stored)
    return head


def mask_secrets_in_names_of_other_sessions_until_response(head: SessionHead) -> None:
    """Mask the secret values of the original, the forks and the session that asked for this one, if their ids or
    titles have any; without a query if there are none.

    Other values of theirs are left out: only so many are masked, and those of this session have to be among them.
    """
    names: dict[int, tuple[str, ...]] = {row.pk: (row.session_id,) for row in head.forks.rows} if head.forks else {}
    if head.forked_from is not None and head.origin_id is not None:
        names[head.forked_from] = (head.origin_id,)
    if (asking := head.asking_call) is not None:
        names[asking.session_pk] = (asking.title, asking.session_id)
    mask_argument_secrets_throughout_session.mask_secrets_in_session_names_until_response(names)


def parse_displayed_session_keys(request: HttpRequest) -> tuple[int, ...]:
    """Parse the keys of the sessions that an open page has, in their order."""
    texts = request.GET.get("rows", "").split(",")[: session_rows.PAGE]
    return tuple(pk for text in texts if (pk := parse_whole_number_or_none(text)) is not None)


def build_missing_version_error(head: SessionHead, version: str) -> PageNotFound:
    """Build the error for a URL with a version that does not exist."""
    if not head.row.version:
        return PageNotFound(
            _("This session has no version yet."), _("Each call of “save_checkpoint” adds a version."), head
        )
    return PageNotFound(
        _("This session has no version %(version)s.") % {"version": version},
        _("Its newest version is %(version)s. Older ones may have been deleted; numbers are never used again.")
        % {"version": head.row.version},
        head,
    )
