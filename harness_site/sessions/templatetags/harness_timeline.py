"""Tags of the timeline: SVG drawing, links and table rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from harness_site.core import formatting
from harness_site.sessions import session_formatting
from harness_site.sessions.timeline import timeline_svg
from harness_site.sessions.timeline.selectors.version_growth import VersionGrowth
from harness_site.sessions.timeline.timeline_items import KINDS, TimelineItem
from harness_site.sessions.timeline.timeline_urls import TimelineUrls
from harness_site.templatetags.harness_tags import at

register = template.Library()
for _draw in (
    timeline_svg.render_bars,
    timeline_svg.render_version_marks,
    timeline_svg.render_event_signs,
    timeline_svg.render_sign_shape,
    timeline_svg.render_chart_dots,
    timeline_svg.render_overview_bars,
    timeline_svg.render_version_ticks,
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
    "decision": "ok",
}
#: Kind → style class of the table row.
_ROWS: Final = {"lost": "unknown", "wait": "waits"}


@register.simple_tag
def build_timeline_urls(session_pk: int) -> TimelineUrls:
    return TimelineUrls(session_pk)


@register.simple_tag
def render_timeline_rows(items: Iterable[TimelineItem], leading: TimelineUrls) -> SafeString:
    """Render the rows of the timeline table."""
    return format_html_join(
        "\n",
        '<tr{}><td class="when">{}</td><th scope="row"><a data-row href="{}"><bdi>{}</bdi></a></th>'
        "<td>{}</td><td>{}</td>"
        '<td class="number" data-label="took">{}</td><td class="number" data-label="run">{}</td></tr>',
        (
            (
                format_html(' class="{}"', _ROWS[item.kind]) if item.kind in _ROWS else "",
                at(item.start, True),
                leading.item(item),
                item.what,
                _render_kind_chip(item.kind),
                item.told,
                "–" if item.moment else formatting.format_duration(item.seconds),
                "–" if item.run is None else item.run,
            )
            for item in items
        ),
    )


@cache
def _render_kind_chip(kind: str) -> SafeString:
    return format_html('<span class="chip {}">{}</span>', _SHAPES.get(kind, "off"), KINDS[kind].capitalize())


@register.simple_tag
def render_growth_rows(growth: VersionGrowth, leading: TimelineUrls) -> SafeString:
    """Render the table rows of cost, tokens and messages by version."""
    return format_html_join(
        "\n",
        '<tr><th scope="row"><a class="mono" href="{}">v{}</a></th><td>{}</td>'
        '<td class="number" data-label="cost">{}</td>'
        '<td class="number" data-label="tokens">{}</td><td class="number" data-label="messages">{}</td></tr>',
        (
            (
                leading.version(point.version),
                point.version,
                at(point.at),
                session_formatting.format_money(point.cost),
                "–" if point.tokens is None else session_formatting.format_count(point.tokens),
                session_formatting.format_count(point.messages),
            )
            for point in growth.points
        ),
    )


@register.filter
def format_seconds(number: float) -> str:
    return formatting.format_duration(number)
