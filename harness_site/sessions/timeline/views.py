"""Timeline page: drawing and table of a time range, and charts of the running totals on the same axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.enums import UNDECIDED_CALL_STATUSES
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.call_sentences import describe_call_beside_tool_name
from harness_site.core.datetime_parameters import parse_utc_datetime_or_none
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.sessions.selectors import call_records
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.session_environment import read_session_environment
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.timeline import (
    list_timeline_items,
    running_totals_chart_layout,
    timeframe_lane_and_bar_layout,
)
from harness_site.sessions.timeline.list_timeline_items import CALL_KINDS, RunItems, TimelineItem
from harness_site.sessions.timeline.selectors import running_totals_by_version, timeframe_contents
from harness_site.sessions.timeline.selectors.lane_turns import Turn
from harness_site.sessions.timeline.selectors.run_lanes import STATUS_CHANGING_KINDS
from harness_site.sessions.timeline.selectors.timeframe_contents import Timeframe
from harness_site.sessions.timeline.time_axis import Axis
from harness_site.sessions.timeline.timeframe_lane_and_bar_layout import WIDTHS
from harness_site.sessions.timeline.timeline_links import build_time_range_query_string

#: Rows of the table on one page.
ROWS = 40
#: Largest number of characters of the sentence of a call, which stands on one line.
_LONGEST_SENTENCE = 160
#: Shortest time range that can be zoomed into.
_CLOSEST = timedelta(milliseconds=4)


@dataclass(frozen=True, slots=True)
class NavigationLinks:
    """Query strings of the navigation links; empty if there is no further range."""

    closer: str
    wider: str
    earlier: str
    later: str


@dataclass(frozen=True, slots=True)
class TimelineTablePage:
    """A page of the table. `first` counts from 0; `before` and `after` are the offsets of the neighbouring pages."""

    items: tuple[TimelineItem, ...]
    first: int
    total: int

    @property
    def end_offset(self) -> int:
        return self.first + len(self.items)

    @property
    def previous_offset(self) -> int | None:
        return max(0, self.first - ROWS) if self.first else None

    @property
    def next_offset(self) -> int | None:
        return self.end_offset if self.end_offset < self.total else None


@require_GET
@require_member_and_handle_page_not_found
def show_timeline(request: MemberRequest, pk: int) -> HttpResponse:
    """Show the timeline of a session.

    Query parameters: `from` and `to` are moments, the whole session by default; `row` is the offset of the table.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    since, until = _parse_time_span(request)
    group_size = timeframe_contents.choose_call_group_size_or_none(head, since, until)
    frame = (
        timeframe_contents.load_timeframe(
            pk,
            has_pauses=head.has_pauses,
            since=since,
            until=until,
            group_size=group_size,
            has_copied_calls=head.may_have_copied_calls,
        )
        if head.row.has_times
        else None
    )
    context = {"head": head, "tab": "timeline", "zoomed": since is not None or until is not None, "frame": frame}
    if frame is not None:
        timeframe_contents.add_contents_to_turns_if_few(pk, frame)
        runs = list_timeline_items.list_items_by_run(frame)
        growth = running_totals_by_version.load_sampled_running_totals(pk, since=since, until=until)
        has_charts = len(growth.points) > 1
        names = (
            running_totals_chart_layout.list_headings_and_newest_values_beside_time_charts(growth) if has_charts else ()
        )
        drawings = [
            timeframe_lane_and_bar_layout.compute_timeframe_layout(frame, runs, width, names_beside=names)
            for width in WIDTHS
        ]
        rows = _build_table_page(pk, frame, runs, parse_number_parameter_or_none(request, "row") or 0)
        records = _load_readable_calls(rows.items)
        context |= {
            "drawings": drawings,
            "ways": _build_zoom_and_pan_links(frame, drawings[0].axis),
            "rows": replace(rows, items=tuple(_iterate_items_with_decided_outcomes(rows.items, records))),
            "copied": list_timeline_items.format_copied_lane_name(head.origin_id or "") if head.row.is_fork else None,
            "sentences": _format_call_sentences(records),
            "has_versions_outside_of_runs": any(item.kind == "version" and item.run is None for item in rows.items),
            "framework": read_session_environment(head.stored).framework,
            "here": build_time_range_query_string(frame.since, frame.until) if context["zoomed"] else "?",
            "cut": build_time_range_query_string(since, frame.cut)
            if since and frame.cut
            else _build_query_string_until_cut_or_empty(frame.cut),
            "growth": growth,
            "drops": running_totals_chart_layout.list_message_drops(growth),
            "charts": [running_totals_chart_layout.compute_time_chart_layout(growth, drawing) for drawing in drawings]
            if has_charts
            else [],
        }
    return render(request, "sessions/timeline.html", context)


def _parse_time_span(request: HttpRequest) -> tuple[datetime | None, datetime | None]:
    since, until = (parse_utc_datetime_or_none(request.GET.get(name, ""), zone=UTC) for name in ("from", "to"))
    return (None, None) if since and until and since >= until else (since, until)


def _build_zoom_and_pan_links(frame: Timeframe, axis: Axis) -> NavigationLinks:
    quarter, length = (axis.right - axis.left) / 4, frame.until - frame.since
    inner = axis.convert_to_moment(axis.left + quarter), axis.convert_to_moment(axis.right - quarter)
    return NavigationLinks(
        closer=build_time_range_query_string(*inner) if length > _CLOSEST else "",
        wider=_build_moved_range_query_string(frame, -length / 2, length / 2),
        earlier=_build_moved_range_query_string(frame, -length / 2, -length / 2),
        later=_build_moved_range_query_string(frame, length / 2, length / 2),
    )


def _build_moved_range_query_string(frame: Timeframe, since: timedelta, until: timedelta) -> str:
    try:
        return build_time_range_query_string(frame.since + since, frame.until + until)
    except OverflowError:
        return ""


def _build_query_string_until_cut_or_empty(cut: datetime | None) -> str:
    return build_time_range_query_string(datetime(1970, 1, 1, tzinfo=UTC), cut) if cut else ""


def _build_table_page(session_pk: int, frame: Timeframe, runs: Sequence[RunItems], first: int) -> TimelineTablePage:
    total = list_timeline_items.count_listed_items(runs)
    first = first if first < total else 0
    entries = list_timeline_items.list_first_items_in_time_order(runs, first + ROWS)[first:]
    if frame.has_too_many_turns:
        versions = {entry.version for _run, entry in entries if isinstance(entry, Turn)}
        known = timeframe_contents.load_contents_of_turns(session_pk, frame, versions)
        entries = [
            (run, known.get(entry.version, entry) if isinstance(entry, Turn) else entry) for run, entry in entries
        ]
    texts = list_timeline_items.get_item_texts_in_current_language()
    items = tuple(list_timeline_items.build_timeline_item(entry, run, texts) for run, entry in entries)
    return TimelineTablePage(items, first, total)


def _load_readable_calls(items: Sequence[TimelineItem]) -> list[CallRecord]:
    """Load the calls among the items, without those that were altered."""
    pks = [item.call_pk for item in items if item.call_pk is not None and item.kind in CALL_KINDS]
    return call_records.load_readable_calls_with_pks_without_results(pks)


def _iterate_items_with_decided_outcomes(
    items: Sequence[TimelineItem], records: Sequence[CallRecord]
) -> Iterator[TimelineItem]:
    """Yield the items; those of calls with an unknown outcome tell what was decided about it later."""
    decisions = {
        record.pk: ruling
        for record in records
        if record.interrupted_at is not None and record.status not in UNDECIDED_CALL_STATUSES
        for ruling in record.rulings
        if ruling.final and ruling.kind in STATUS_CHANGING_KINDS and ruling.at >= record.interrupted_at
    }
    for item in items:
        decision = decisions.get(item.call_pk) if item.kind == "lost" and item.call_pk is not None else None
        yield (
            item
            if decision is None
            else list_timeline_items.replace_unknown_outcome_by_decision(item, decision.kind, decision.at)
        )


def _format_call_sentences(records: Sequence[CallRecord]) -> dict[int, str]:
    """Format what calls do, by key."""
    return {record.pk: shorten_text(describe_call_beside_tool_name(record), _LONGEST_SENTENCE) for record in records}
