"""A session as one HTML file that needs nothing else: no script, no address, no other file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from checkpoints import clock
from checkpoints.queries import conversation, history, occasions, versions
from checkpoints.queries.history import HistoryPage
from checkpoints.queries.sessions import SessionHead

_STYLES: Final = (
    "tokens",
    "base",
    "layout",
    "surfaces",
    "states",
    "conversation",
    "card",
    "transcript",
    "reading",
    "trail",
    "offline",
)


def pieces(head: SessionHead) -> Iterator[str]:
    """The file, piece by piece: its newest version, complete, then its plan and what people and machines did."""
    session = head.stored
    place = conversation.newest(session)
    shared = {"session_pk": session.pk, "version_text": str(place.version), "whole": True, "offline": True}
    context = {"head": head, "place": place, "now": clock.now(), "styles": _styles()}
    yield render_to_string("sessions/offline/start.html", context)
    shared |= {"takeovers": occasions.read(session.pk).takeovers}
    for shown in conversation.through(session, place):
        yield render_to_string("sessions/offline/items.html", {**shared, "conversation": shown})
    yield render_to_string("sessions/offline/plan.html", {"version": versions.newest(session.pk)})
    for page in _pages(session.pk):
        shared |= {"takers": history.takers(session.pk, page)}
        for happening in page.rows:
            yield render_to_string("sessions/parts/happening.html", {**shared, "row": happening})
    yield render_to_string("sessions/offline/end.html")


def _pages(session_pk: int) -> Iterator[HistoryPage]:
    """Everything that was done, newest first."""
    page = history.page(session_pk)
    yield page
    while page.before is not None:
        page = history.page(session_pk, before=page.before)
        yield page


def _styles() -> SafeString:
    """The one place where a style stands inside a page: this page has no address to fetch one from."""
    found = [finders.find(f"css/{name}.css") for name in _STYLES]
    css = "\n".join(Path(path).read_text() for path in found if isinstance(path, str))
    return mark_safe(f"<style>{css}</style>")  # noqa: S308 - the project's own files
