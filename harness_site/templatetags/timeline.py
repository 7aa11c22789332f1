"""Tags of the timeline: what is drawn, where it leads, and the same as rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from checkpoints.queries.growth import Growth
from harness_site import wording
from harness_site.rendering import saying, svg
from harness_site.rendering.happenings import KINDS, Item
from harness_site.rendering.leading import Leading
from harness_site.templatetags.harness import at

register = template.Library()
for _draw in (svg.bars, svg.versions, svg.signs, svg.sign, svg.dots, svg.stretches, svg.ticks):
    register.simple_tag(_draw)

#: Kind → the shape of its chip.
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
#: Kind → the class of its row.
_ROWS: Final = {"lost": "unknown", "wait": "waits"}


@register.simple_tag
def leading(session_pk: int) -> Leading:
    return Leading(session_pk)


@register.simple_tag
def listed(items: Iterable[Item], leading: Leading) -> SafeString:
    """The rows of the table."""
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
                _chip(item.kind),
                item.told,
                "–" if item.moment else wording.duration(item.seconds),
                "–" if item.run is None else item.run,
            )
            for item in items
        ),
    )


@cache
def _chip(kind: str) -> SafeString:
    return format_html('<span class="chip {}">{}</span>', _SHAPES.get(kind, "off"), KINDS[kind].capitalize())


@register.simple_tag
def grown(growth: Growth, leading: Leading) -> SafeString:
    """The rows of the numbers by version."""
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
                saying.money(point.cost),
                "–" if point.tokens is None else saying.count(point.tokens),
                saying.count(point.messages),
            )
            for point in growth.points
        ),
    )


@register.filter
def seconds(number: float) -> str:
    return wording.duration(number)
