"""Lines of the session list and of search results, with all displayed values, masked for the reader.

They are computed here and not in the template, which would take several times as long for a page of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from django.http import QueryDict
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from checkpoints.sessions.display_status import DisplayStatus
from checkpoints.sessions.session_list_filters_and_sorting import Sort
from harness_site.core import formatting
from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, convert_rows_or_mark_unreadable
from harness_site.sessions.money_and_count_formatting import (
    format_copied_cost_briefly,
    format_count,
    render_cost_or_tokens,
)
from harness_site.sessions.selectors.session_rows import SessionRow
from harness_site.sessions.session_and_call_links import SessionLinks
from harness_site.sessions.session_and_call_status_chips import get_session_status_shape_and_label
from harness_site.templatetags.harness_tags import build_filter_url, mask_and_render_copyable_text, render_time_ago

_LONGEST_NAME = 140
_LONGEST_NAME_OF_BOX = 60
_LONGEST_HOST = 40
_LONGEST_ID = 36


@dataclass(frozen=True, slots=True)
class LabelLink:
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A line of the session list. `activity` says when the session ended, or which process works on it."""

    pk: int
    css_class: str
    address: str
    name: str
    box_name: str
    session_id: SafeString
    agent: str
    fork_marks: tuple[str, ...]
    labels: tuple[LabelLink, ...]
    status_shape: str
    status: str
    activity: SafeString | str
    version: str
    messages: str
    cost: SafeString | str
    copied_cost: str
    is_cost_in_tokens: bool
    is_cost_estimated: bool
    time: SafeString | str


def build_session_list_lines(
    rows: Sequence[SessionRow | UnreadableRecord],
    secrets: Mapping[int, Collection[str]],
    *,
    sort: Sort,
    since: str,
    query: QueryDict,
) -> list[SessionLine | UnreadableRecord]:
    """Build the lines of the session list.

    With `since`, a day or a time in UTC, they link to the first message from then on. `query` has the filters of the
    list, to which the links of labels add one. `secrets` is the result of
    `mask_argument_secrets_throughout_session.load_known_secrets_of_sessions`.
    """
    sentence_of_box = _("Select %(name)s")
    urls = SessionLinks()

    def build_line(row: SessionRow) -> SessionLine:
        with use_masking_rules_with_extra_values(secrets.get(row.pk, ())):
            name = mask_and_reveal_hidden(row.title or row.session_id)
            shape, status = get_session_status_shape_and_label(
                row.display_status,
                row.undecided,
                row.awaiting,
                row.questions,
                ended_without_result=row.ended_without_result,
            )
            return SessionLine(
                pk=row.pk,
                css_class=_get_css_class(row),
                address=urls.build_first_message_url_since_time(row.pk, since)
                if since
                else urls.build_session_url(row.pk),
                name=shorten_text(name, _LONGEST_NAME),
                box_name=sentence_of_box % {"name": shorten_text(name, _LONGEST_NAME_OF_BOX)},
                session_id=mask_and_render_copyable_text(mask_and_reveal_hidden(row.session_id), _LONGEST_ID),
                agent=mask_and_reveal_hidden(row.agent),
                fork_marks=_list_fork_marks(row),
                labels=tuple(
                    LabelLink(mask_and_reveal_hidden(label), build_filter_url(query, label=label, rows=""))
                    for label in row.labels
                    if label != row.agent
                ),
                status_shape=shape,
                status=status,
                activity=_render_owner_host_or_duration(row),
                version=format_count(row.version),
                messages=format_count(row.messages),
                cost=render_cost_or_tokens(row.cost, row.tokens),
                copied_cost="" if row.cost is None else format_copied_cost_briefly(row.copied_cost),
                is_cost_in_tokens=row.cost is None and bool(row.tokens),
                is_cost_estimated=row.is_cost_estimated,
                time=_render_time_ago_of_row(row, sort),
            )

    return convert_rows_or_mark_unreadable(rows, build_line, "session", attrgetter("pk"))


def format_fork_mark(row: SessionRow) -> str:
    """Say that a session is a fork, and of which version; empty if it is none."""
    if not row.is_fork:
        return ""
    number = row.forked_version
    return _("fork") if number is None else _("fork of v%(number)s") % {"number": number}


def _list_fork_marks(row: SessionRow) -> tuple[str, ...]:
    """Say that a session is a fork, and how many forks it has."""
    marks = [format_fork_mark(row)] if row.is_fork else []
    if row.forks:
        values = {"number": format_count(row.forks)}
        marks.append(ngettext("%(number)s fork", "%(number)s forks", row.forks) % values)
    return tuple(marks)


def _get_css_class(row: SessionRow) -> str:
    """Return the style class of a line, for the colour of its edge: altered, with an unknown outcome, or waiting."""
    if row.display_status is DisplayStatus.QUARANTINED:
        return "altered"
    return "unknown" if row.undecided > row.awaiting else "waits" if row.awaiting else ""


def _render_owner_host_or_duration(row: SessionRow) -> SafeString | str:
    owner = row.owner
    if row.is_finished and not row.has_times:
        return ""
    if row.is_finished:
        return _("took %(duration)s") % {"duration": formatting.format_duration(row.duration.total_seconds())}
    if owner is None and row.display_status == DisplayStatus.STALLED:
        values = {"when": render_time_ago(row.last_active_at)}
        return mark_safe(_("last active %(when)s, resume it to continue") % values)  # noqa: S308 - of numbers alone
    if owner is None:
        return ""
    if owner.is_imported:
        return _("from a transcript")
    host = shorten_text(mask_and_reveal_hidden(owner.host), _LONGEST_HOST)
    if owner.alive:
        return (_("waiting on %(host)s") if owner.is_waiting else _("on %(host)s")) % {"host": host}
    sentence = _("%(host)s, last seen %(seen_at)s")
    values = {"host": conditional_escape(host), "seen_at": render_time_ago(owner.seen_at)}
    return mark_safe(sentence % values)  # noqa: S308 - escaped above


def _render_time_ago_of_row(row: SessionRow, sort: Sort) -> SafeString | str:
    if not row.has_times:
        return _("no times")
    return render_time_ago(row.created_at if sort.is_by_start else row.updated_at)
