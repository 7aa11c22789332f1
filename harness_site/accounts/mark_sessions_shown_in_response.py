"""Notes on a request about the sessions that its response shows, for the audit trail."""

from __future__ import annotations

from collections.abc import Iterable

from harness_site.accounts.permissions import MemberRequest, ShownExcerpts


def mark_session_shown_in_response(request: MemberRequest, session: int) -> None:
    """Note that the response to `request` shows text or arguments of a session.

    The function that renders the content calls this, so that every way to a page is recorded.
    """
    request.sessions_shown = {*getattr(request, "sessions_shown", ()), session}


def mark_excerpts_shown_in_response(request: MemberRequest, page: str, sessions: Iterable[int]) -> None:
    """Note that the response shows parts of several sessions, such as the sentences of their calls."""
    request.excerpts = ShownExcerpts(page, frozenset(sessions))
