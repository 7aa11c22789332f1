"""Bars, marks and signs as SVG. There may be hundreds, and a template takes several times as long for each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from harness_site.rendering import lanes
from harness_site.rendering.chart import Dot, Strip
from harness_site.rendering.leading import Leading
from harness_site.rendering.timeframe import Bar, Lane

#: A bar that is higher has room for words.
_WRITTEN = 12


def _numbers(*numbers: float) -> Iterator[SafeString]:
    """As they are: to look in each for something to escape takes most of the time of a bar."""
    return map(SafeString, numbers)


def bars(lane: Lane, leading: Leading) -> SafeString:
    return format_html_join(
        "",
        '<a href="{}" tabindex="-1"><title>{}</title>'
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="2"/>{}{}</a>',
        (
            (
                leading.bar(bar),
                bar.title,
                f"{bar.kind} several" if bar.count > 1 else bar.kind,
                *_numbers(bar.x, bar.y, bar.width, bar.height),
                _edge(bar),
                _words(bar),
            )
            for bar in lane.bars
        ),
    )


def _edge(bar: Bar) -> str:
    if not bar.grave:
        return ""
    edge = '<rect class="{} edge" x="{}" y="{}" width="{}" height="4"/>'
    return format_html(edge, bar.grave, *_numbers(bar.x, round(bar.y + bar.height - 4, 1), bar.width))


def _words(bar: Bar) -> str:
    if not bar.label or bar.height <= _WRITTEN:
        return ""
    words = '<text class="on-{}" x="{}" y="{}">{}</text>'
    return format_html(words, bar.kind, *_numbers(bar.label_x, round(bar.y + 12, 1)), bar.label)


def versions(lane: Lane, leading: Leading) -> SafeString:
    return format_html_join(
        "",
        '<a href="{}" tabindex="-1"><title>{}</title>{}</a>',
        ((leading.bar(mark), mark.title, _mark(mark, lane.life)) for mark in lane.versions),
    )


def _mark(mark: Bar, life: float) -> SafeString:
    if mark.item:
        return format_html('<circle class="tick" cx="{}" cy="{}" r="3"/>', *_numbers(mark.middle, life))
    several = '<rect class="tick" x="{}" y="{}" width="{}" height="{}" rx="3"/>'
    return format_html(several, *_numbers(mark.x, mark.y, mark.width, mark.height))


def signs(lane: Lane, leading: Leading) -> SafeString:
    return format_html_join(
        "",
        '<a href="{}" tabindex="-1" class="sign"><title>{}</title>{}</a>',
        ((leading.bar(one), one.title, _sign(one, lane.life)) for one in lane.signs),
    )


def _sign(one: Bar, life: float) -> SafeString:
    if one.item:
        return format_html('<g transform="translate({} {})">{}</g>', *_numbers(one.middle, life), sign(one.kind))
    several = (
        '<rect class="many at-{}" x="{}" y="{}" width="{}" height="{}" rx="6"/>'
        '<text class="on-many" x="{}" y="{}">{}</text>'
    )
    place = _numbers(one.x, one.y, one.width, one.height, one.middle, round(one.y + 10, 1))
    return format_html(several, one.grave or one.kind, *place, one.count)


@cache
def sign(kind: str) -> SafeString:
    """The shape of a moment of this kind, around its place."""
    return render_to_string("sessions/parts/sign.html", {"kind": kind})


def dots(strip: Strip, leading: Leading) -> SafeString:
    """Where the versions of a chart are pointed at."""
    dot = '<a href="{}" tabindex="-1"><title>{}</title><rect class="strip" x="{}" y="0" width="{}" height="80"/>{}</a>'
    shown = (
        (leading.version(one.version), one.title, *_numbers(one.left, one.width), _point(one) if strip.dotted else "")
        for one in strip.dots
    )
    return format_html_join("", dot, shown)


def _point(dot: Dot) -> SafeString:
    return format_html('<circle class="tick" cx="{}" cy="{}" r="3"/>', *_numbers(dot.x, dot.y))


def stretches(row: lanes.Row, leading: Leading) -> SafeString:
    """The bars of a lane in the overview of a session."""
    bar = (
        '<a href="{}" tabindex="-1"><title>{}</title>'
        '<rect class="{}" x="{}" y="{}" width="{}" height="16" rx="4"/>{}</a>'
    )
    shown = (
        (leading.call(one.call_pk), one.title, one.kind, *_numbers(one.x, one.y, one.width), _beside(one))
        for one in row.bars
    )
    return format_html_join("", bar, shown)


def _beside(bar: lanes.Bar) -> str:
    if not bar.label:
        return ""
    words, place = '<text class="on-{}{}" x="{}" y="{}">{}</text>', _numbers(bar.label_x, round(bar.y + 12, 1))
    return format_html(words, bar.kind, " beside" if bar.beside else "", *place, bar.label)


def ticks(row: lanes.Row, leading: Leading) -> SafeString:
    """The versions of a lane in the overview of a session."""
    tick = '<a href="{}" tabindex="-1"><title>Version {}</title><circle class="tick" cx="{}" cy="{}" r="3"/></a>'
    y = round(row.y + 21.5, 1)
    shown = ((leading.version(one.version), *_numbers(one.version, one.x, y)) for one in row.ticks)
    return format_html_join("", tick, shown)
