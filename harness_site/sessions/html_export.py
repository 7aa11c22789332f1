"""A whole session as HTML: one self-contained file without scripts or external resources, or a page to print."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.staticfiles import finders
from django.db import DEFAULT_DB_ALIAS
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.safestring import SafeString, mark_safe

from checkpoints.db import clock
from checkpoints.integrity import verify_session_rows
from harness_site.core.formatting import write_dates_and_offsets_with_times
from harness_site.core.masking import masker
from harness_site.sessions.selectors import conversation_window, session_history, version_lookup
from harness_site.sessions.selectors.conversation_window import TranscriptVersion
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.session_history import HistoryPage
from harness_site.sessions.timeline.selectors import takeover_approval_verification_and_handover_events

_STYLES: Final = (
    "tokens",
    "base",
    "layout",
    "surfaces",
    "states",
    "conversation",
    "lists",
    "versions_and_forks",
    "session_head",
    "costs_and_journals",
    "timeline",
    "call_lists",
    "charts_by_version",
    "transcript",
    "comparison",
    "plan",
    "narrow_screens",
    "reading",
    "tools",
    "trail",
    "offline",
)
#: A fold that is closed; not the source of a text that is shown formatted, which takes the place of the text.
_CLOSED_FOLD: Final = re.compile(r'(?<!<div class="formatted-text">)<details(?![^>]* open)')


def verify_session_and_generate_html_pieces(
    head: SessionHead, *, zone: tzinfo = UTC, language: str | None = None
) -> Iterator[str]:
    """Yield the file in pieces: the complete newest version, then the plan and the history.

    A file is a document of its reader: its times are in their zone, which it names, and its words in their language,
    that of the settings if it is None. Both hold for each piece only, because other work runs between two of them.

    The whole session is verified first, before anything is yielded. Raises `IntegrityError`.
    """
    verify_session_rows.require_session_unaltered(DEFAULT_DB_ALIAS, head.stored)
    place = conversation_window.get_newest_transcript_version(head.stored)
    pieces = _generate_html_of_session(
        head, place, "sessions/offline/start.html", {"styles": _build_style_element(), "printed": False}
    )
    return _iterate_in_zone_and_language(pieces, zone, language, nullcontext)


def verify_session_and_generate_print_page(
    head: SessionHead,
    place: TranscriptVersion,
    *,
    address: str,
    printed_by: str,
    workspace: str,
    theme: str,
    csp_nonce: str,
    zone: tzinfo,
    language: str | None,
) -> Iterator[str]:
    """Yield the page that prints a version of a session, in pieces as those of the file, and with the same contents.

    It links styles and images, as a page of the site, and folds nothing. Each time has its date and offset from UTC.

    The whole session is verified first, before anything is yielded. Raises `IntegrityError`.
    """
    verify_session_rows.require_session_unaltered(DEFAULT_DB_ALIAS, head.stored)
    context = {
        "printed": True,
        "address": address,
        "printed_by": printed_by,
        "workspace": workspace,
        "theme": theme,
        "csp_nonce": csp_nonce,
        "has_masked_secrets": masker.is_masking_active(),
    }
    pieces = map(_unfold, _generate_html_of_session(head, place, "sessions/printed/start.html", context))
    return _iterate_in_zone_and_language(pieces, zone, language, write_dates_and_offsets_with_times)


def _iterate_in_zone_and_language(
    pieces: Iterator[str], zone: tzinfo, language: str | None, format_times: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    while True:
        with timezone.override(zone), translation.override(language or settings.LANGUAGE_CODE), format_times():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def _unfold(html: str) -> str:
    """Open all folds. Texts of agents are escaped, so that only templates have these tags."""
    return _CLOSED_FOLD.sub("<details open", html)


def _generate_html_of_session(
    head: SessionHead, place: TranscriptVersion, start_template: str, start: dict[str, Any]
) -> Iterator[str]:
    session, printed = head.stored, start["printed"]
    shared = {
        "head": head,
        "session_pk": session.pk,
        "version_text": str(place.version),
        "whole": True,
        "offline": True,
        "printed": printed,
    }
    context: dict[str, Any] = {**start, "head": head, "place": place, "now": clock.now()}
    context |= {"zone": timezone.get_current_timezone_name(), "offset": _format_utc_offset(context["now"])}
    yield render_to_string(start_template, context)
    shared |= {
        "takeovers": takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(
            session.pk
        ).takeovers
    }
    for window in conversation_window.iterate_conversation_windows(session, place):
        yield render_to_string("sessions/offline/items.html", {**shared, "conversation": window})
    version = (
        version_lookup.load_newest_version(session.pk)
        if place.newest
        else version_lookup.load_version(session.pk, place.version)
    )
    yield render_to_string("sessions/offline/plan.html", {"head": head, "version": version, "printed": printed})
    for page in _iterate_history_pages(session.pk):
        shared |= {"takers": session_history.load_takeover_runs_by_lost_run_name(session.pk, page)}
        for row in page.rows:
            yield render_to_string("sessions/parts/history_item.html", {**shared, "row": row})
    yield render_to_string("sessions/offline/end.html")


def _format_utc_offset(moment: datetime) -> str:
    """Return the offset of the current time zone from UTC at a moment: `+01:00`."""
    text = f"{timezone.localtime(moment):%z}"
    return f"{text[:3]}:{text[3:5]}"


def _iterate_history_pages(session_pk: int) -> Iterator[HistoryPage]:
    """Yield all pages of the history, newest first."""
    page = session_history.load_history_page(session_pk)
    yield page
    while page.before is not None:
        page = session_history.load_history_page(session_pk, before=page.before)
        yield page


def _build_style_element() -> SafeString:
    """Return a `<style>` element with all styles, as the file must not load any."""
    paths = [finders.find(f"css/{name}.css") for name in _STYLES]
    css = "\n".join(Path(path).read_text() for path in paths if isinstance(path, str))
    return mark_safe(f"<style>{css}</style>")  # noqa: S308 - the project's own files
