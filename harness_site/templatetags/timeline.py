"""Tags of the timeline: where its bars lead, and how they are called."""

from datetime import UTC, datetime, timedelta
from typing import Final

from django import template
from django.urls import reverse

from harness_site import wording
from harness_site.rendering.happenings import KINDS, Item
from harness_site.rendering.timeframe import Bar

register = template.Library()

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


@register.simple_tag
def place(session_pk: int, item: Item) -> str:
    """The address of what an item tells of."""
    if item.call_pk is not None:
        return reverse("session-call", args=[session_pk, item.call_pk])
    if item.peers:
        return reverse("session-peers", args=[session_pk])
    address = reverse("session", args=[session_pk])
    if item.version is None:
        return address
    if item.position is None:
        return f"{address}?v={item.version}"
    return f"{address}?v={item.version}&at={item.position}#m-{item.position}"


def between(since: datetime, until: datetime) -> str:
    """The query of a timeline that shows this time."""
    until = max(until, since + timedelta(milliseconds=1))
    return f"?from={_exact(since)}&to={_exact(until)}"


def _exact(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


@register.filter
def closer(bar: Bar) -> str:
    """The query that shows what a bar holds that stands for several."""
    return between(bar.since, bar.until)


@register.filter
def seconds(number: float) -> str:
    return wording.duration(number)


@register.filter
def kind_shape(kind: str) -> str:
    return _SHAPES.get(kind, "off")


@register.filter
def kind_word(kind: str) -> str:
    return KINDS[kind].capitalize()
