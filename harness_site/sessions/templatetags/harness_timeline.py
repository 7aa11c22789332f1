"""Tags of the timeline: SVG drawing, links, table rows, and the overview above the transcript."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from django import template
from django.template import Context
from django.template.loader import get_template
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from checkpoints.models.run import FORK_RUN_NUMBER
from harness_site.core import formatting
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.sessions import money_and_count_formatting
from harness_site.sessions.timeline import overview_layout, timeline_svg
from harness_site.sessions.timeline.list_timeline_items import (
    CALL_KINDS,
    CALL_OUTCOMES,
    TimelineItem,
    get_item_texts_in_current_language,
)
from harness_site.sessions.timeline.selectors.run_lanes import Timeline
from harness_site.sessions.timeline.selectors.running_totals_by_version import RunningTotals
from harness_site.sessions.timeline.timeline_links import TimelineUrls
from harness_site.templatetags.harness_tags import render_time

register = template.Library()
for _draw in (
    timeline_svg.render_axis_labels,
    timeline_svg.render_bars,
    timeline_svg.render_version_marks,
    timeline_svg.render_event_signs,
    timeline_svg.render_sign_shape,
    timeline_svg.render_chart_hover_areas_and_dots,
    timeline_svg.render_lane_of_overview,
):
    register.simple_tag(_draw)


#: Kind → chip shape.
_SHAPES: Final = {
    "lost": "unknown",
    "failed": "bad",
    "wait": "wait",
    "running": "run",
    "peer": "wait",
    "ran": "ok",
    "crash": "bad",
    "takeover": "bad",
    "pause": "wait",
    "taken": "run",
}
#: Kind → style class of the table row.
_ROWS: Final = {"lost": "unknown", "wait": "waits"}


@register.simple_tag
def build_timeline_urls(session_pk: int) -> TimelineUrls:
    return TimelineUrls(session_pk)


@register.simple_tag
def render_timeline_rows(
    items: Iterable[TimelineItem],
    urls: TimelineUrls,
    sentences: Mapping[int, str],
    copied: str | None,
    created_at: datetime,
) -> SafeString:
    """Render the rows of the timeline table of a session that was created at `created_at`.

    `sentences` says by key what a call does. `copied` names the original of a fork, None in a session that is no fork.
    """
    took, run, kind_labels = _("took"), _("run"), get_item_texts_in_current_language().kinds
    return join_html(
        "\n",
        '<tr{}><td class="time-cell started">{}</td><th scope="row"><a data-row href="{}"><bdi>{}</bdi></a>{}</th>'
        "<td>{}</td><td>{}</td>"
        '<td class="number time-cell took" data-label="{}">{}</td>'
        '<td class="number of-run" data-label="{}">{}</td></tr>',
        (
            (
                build_html(' class="{}"', _ROWS[item.kind]) if item.kind in _ROWS and not item.shape else "",
                render_time(item.start, True),
                urls.build_page_or_zoom_url_of_item(item),
                item.what,
                _render_call_sentence(item, sentences),
                build_html(
                    '<span class="chip {}">{}</span>',
                    item.shape or _SHAPES.get(item.kind, "off"),
                    # The outcome of a call has a column of its own.
                    kind_labels["ran" if item.kind in CALL_OUTCOMES else item.kind],
                ),
                item.told,
                took,
                formatting.format_duration(item.seconds) if item.has_known_duration else "–",
                run,
                _format_run_of_item(item, copied, created_at),
            )
            for item in items
        ),
    )


def _format_run_of_item(item: TimelineItem, copied: str | None, created_at: datetime) -> str | int:
    """Return the run of an item: its number, the original of what a fork has copied, the fork, or a dash without a
    run."""
    if item.run is None or item.run > FORK_RUN_NUMBER:
        return "–" if item.run is None else item.run
    if not copied or item.run != FORK_RUN_NUMBER:
        return "–"
    return copied if item.start < created_at else _("fork")


def _render_call_sentence(item: TimelineItem, sentences: Mapping[int, str]) -> SafeString | str:
    """Render on one line what a call does, so that calls of the same tool can be told apart."""
    sentence = sentences.get(item.call_pk, "") if item.call_pk is not None and item.kind in CALL_KINDS else ""
    if not sentence:
        return ""
    return build_html(' <small class="call-sentence" dir="auto" title="{}">{}</small>', sentence, sentence)


@register.simple_tag
def render_running_totals_rows(growth: RunningTotals, urls: TimelineUrls) -> SafeString:
    """Render the table rows of cost, tokens and messages by version."""
    cost, tokens, messages = _("cost"), _("tokens"), _("messages")
    return join_html(
        "\n",
        '<tr><th scope="row"><a class="mono" href="{}">v{}</a></th><td>{}</td>'
        '<td class="number" data-label="{}">{}</td>'
        '<td class="number" data-label="{}">{}</td><td class="number" data-label="{}">{}</td></tr>',
        (
            (
                urls.build_version_url(point.version),
                point.version,
                render_time(point.at, True),
                cost,
                money_and_count_formatting.format_money(point.cost),
                tokens,
                "–" if point.tokens is None else money_and_count_formatting.format_count(point.tokens),
                messages,
                money_and_count_formatting.format_count(point.messages),
            )
            for point in growth.points
        ),
    )


@register.filter
def format_seconds_as_duration(number: float) -> str:
    return formatting.format_duration(number)


@register.simple_tag(takes_context=True)
def render_timeline_overview(context: Context, timeline: Timeline | None) -> SafeString:
    """Render the overview of the newest runs of the session `head`.

    It is empty if there is nothing to draw, and hidden if the transcript below tells as much; an update shows it.
    """
    drawing = overview_layout.compute_run_lanes_layout(timeline) if timeline is not None else None
    if timeline is None or drawing is None:
        return SafeString("")
    if overview_layout.is_one_ended_turn(timeline):
        return SafeString('<section id="lanes" hidden></section>')
    html = get_template("sessions/parts/lanes.html").render({"head": context["head"], "drawing": drawing})
    return mark_safe(html)  # noqa: S308 - a template's
