"""SVG of bars, marks and signs.

There may be hundreds, for each of which a template would take several times as long.
"""

from __future__ import annotations

from functools import cache

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.sessions.timeline import overview_layout
from harness_site.sessions.timeline.running_totals_chart_layout import ChartDot, ChartStrip, TimeChart, TimeChartStrip
from harness_site.sessions.timeline.timeframe_lane_and_bar_layout import Bar, Drawing, Lane
from harness_site.sessions.timeline.timeline_links import TimelineUrls

#: Bars higher than this have a label.
_MIN_LABELLED_HEIGHT = 12


def render_axis_labels(drawing: Drawing | TimeChart) -> SafeString:
    return join_html(
        "",
        '<path d="M{} 20V{}"/><text x="{}" y="14">{}</text>',
        ((label.x, drawing.height, label.text_x, label.text) for label in drawing.labels),
    )


def render_bars(lane: Lane, urls: TimelineUrls) -> SafeString:
    return join_html(
        "",
        '<a href="{}" tabindex="-1"><title>{}</title>'
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="2"/>{}{}</a>',
        (
            (
                urls.build_bar_url(bar),
                bar.title,
                bar.kind,
                bar.x,
                bar.y,
                bar.width,
                bar.height,
                _render_bar_edge(bar),
                _render_bar_label(bar),
            )
            for bar in lane.bars
        ),
    )


def _render_bar_edge(bar: Bar) -> str:
    if not bar.grave:
        return ""
    edge = '<rect class="{} edge" x="{}" y="{}" width="{}" height="6"/>'
    return build_html(edge, bar.grave, bar.x, round(bar.y + bar.height - 6, 1), bar.width)


def _render_bar_label(bar: Bar) -> str:
    if not bar.label or bar.height <= _MIN_LABELLED_HEIGHT:
        return ""
    words = '<text class="on-{}" x="{}" y="{}">{}</text>'
    return build_html(words, bar.kind, bar.label_x, round(bar.y + 12, 1), bar.label)


def render_version_marks(lane: Lane, urls: TimelineUrls) -> SafeString:
    return join_html(
        "",
        '<a href="{}" tabindex="-1"><title>{}</title>{}</a>',
        ((urls.build_bar_url(mark), mark.title, _render_version_mark(mark, lane.life)) for mark in lane.versions),
    )


def _render_version_mark(mark: Bar, life: float) -> SafeString:
    if mark.item:
        return build_html('<circle class="tick" cx="{}" cy="{}" r="3"/>', mark.middle, life)
    rect = '<rect class="tick" x="{}" y="{}" width="{}" height="{}" rx="3"/>'
    return build_html(rect, mark.x, mark.y, mark.width, mark.height)


def render_event_signs(lane: Lane, urls: TimelineUrls) -> SafeString:
    return join_html(
        "",
        '<a href="{}" tabindex="-1" class="sign"><title>{}</title>{}</a>',
        ((urls.build_bar_url(sign), sign.title, _render_event_sign(sign, lane.life)) for sign in lane.signs),
    )


def _render_event_sign(sign: Bar, life: float) -> SafeString:
    if sign.item:
        return build_html(
            '<g transform="translate({} {})">{}</g>',
            sign.middle,
            life,
            render_sign_shape(sign.kind),
        )
    badge = (
        '<rect class="many at-{}" x="{}" y="{}" width="{}" height="{}" rx="6"/>'
        '<text class="on-many" x="{}" y="{}">{}</text>'
    )
    place = (sign.x, sign.y, sign.width, sign.height, sign.middle, round(sign.y + 10, 1))
    return build_html(badge, sign.grave or sign.kind, *place, sign.count)


@cache
def render_sign_shape(kind: str) -> SafeString:
    """Render the shape of a sign, centred at the origin."""
    return render_to_string("sessions/parts/sign.html", {"kind": kind})


def render_chart_hover_areas_and_dots(strip: ChartStrip | TimeChartStrip, urls: TimelineUrls) -> SafeString:
    """Render the hover areas of the versions of a chart, and the dots of those that have one."""
    area = '<a href="{}" tabindex="-1"><title>{}</title><rect class="strip" x="{}" y="0" width="{}" height="{}"/>{}</a>'
    rows = (
        (
            urls.build_version_url(dot.version),
            dot.title,
            dot.left,
            dot.width,
            strip.hover_height,
            _render_chart_dot(dot, is_stretched=strip.is_stretched) if dot.version in strip.dotted_versions else "",
        )
        for dot in strip.dots
    )
    return join_html("", area, rows)


def _render_chart_dot(dot: ChartDot, *, is_stretched: bool) -> SafeString:
    if not is_stretched:
        return build_html('<circle class="tick" cx="{}" cy="{}" r="3"/>', dot.x, dot.y)
    # The round ends of lines without a length stay round in a chart that is stretched.
    path = '<path class="tick" d="M{0} {1}h0"/><path class="tick hole" d="M{0} {1}h0"/>'
    return build_html(path, dot.x, dot.y)


def render_lane_of_overview(row: overview_layout.Row, urls: TimelineUrls) -> SafeString:
    """Render model turns, version marks and calls of a lane in the overview of a session."""
    life, turns_y = round(row.y + 23.5, 1), round(row.y + 20, 1)
    turn = '<rect class="model" x="{}" y="{}" width="{}" height="7" rx="2"/>'
    tick = '<circle class="tick" cx="{}" cy="{}" r="3"/>'
    bar = '<rect class="{}" x="{}" y="{}" width="{}" height="16" rx="4"/>{}'
    turns = ((each.version, each.title, build_html(turn, each.x, turns_y, each.width)) for each in row.turns)
    ticks = (
        (mark.version, _("Version %(version)s") % {"version": mark.version}, build_html(tick, mark.x, life))
        for mark in row.ticks
    )
    bars = (
        (
            each.call_pk,
            each.title,
            build_html(bar, each.kind, each.x, each.y, each.width, _render_overview_bar_label(each)),
        )
        for each in row.bars
    )
    link = '<a href="{}" tabindex="-1"><title>{}</title>{}</a>'
    linked = [
        *((urls.build_version_url(version), title, shape) for version, title, shape in (*turns, *ticks)),
        *((urls.build_call_url(call_pk), title, shape) for call_pk, title, shape in bars),
    ]
    return join_html("", link, linked)


def _render_overview_bar_label(bar: overview_layout.Bar) -> str:
    if not bar.label:
        return ""
    words = '<text class="on-{}{}" x="{}" y="{}">{}</text>'
    side = " outside-label" if bar.beside else ""
    return build_html(words, bar.kind, side, bar.label_x, round(bar.y + 12, 1), bar.label)
