"""What an answer shows of sessions, noted for the audit trail by the functions that render it."""

from __future__ import annotations

from collections.abc import Iterable

from harness_site.accounts.guard import Excerpts, MemberRequest


def note_shown(request: MemberRequest, session: int) -> None:
    """Say that the answer to `request`, whatever its method and status, shows text or arguments of a session. Called
    by the function that renders them, so that no way to a page is one that nobody recorded."""
    request.sessions_shown = {*getattr(request, "sessions_shown", ()), session}


def note_excerpts(request: MemberRequest, page: str, sessions: Iterable[int]) -> None:
    """The same for a page that shows parts of several sessions, as the sentences of their calls."""
    request.excerpts = Excerpts(page, frozenset(sessions))
