"""When what happened in a session: a drawing of some of its time, the same as a table, and what versions cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.queries import growth, timeframe
from checkpoints.queries.timeframe import Timeframe
from harness_site.accounts.guard import MemberRequest
from harness_site.rendering import chart, happenings
from harness_site.rendering import timeframe as drawing
from harness_site.rendering.happenings import Item, Told
from harness_site.rendering.leading import between
from harness_site.rendering.timeframe import LEFT, RIGHT, Drawing
from harness_site.sessions.lookup import headline, number, reader
from harness_site.time_parameters import parse_moment

#: Rows of the table on one page.
ROWS = 100
#: No closer than this.
_CLOSEST = timedelta(milliseconds=4)


@dataclass(frozen=True, slots=True)
class Ways:
    """Where to go from a timeline, as queries; empty where there is nothing further."""

    closer: str
    wider: str
    earlier: str
    later: str


@dataclass(frozen=True, slots=True)
class Rows:
    """A page of the table. `first` counts from 0; `before` and `after` are where the pages beside it begin."""

    items: tuple[Item, ...]
    first: int
    total: int

    @property
    def upto(self) -> int:
        return self.first + len(self.items)

    @property
    def before(self) -> int | None:
        return max(0, self.first - ROWS) if self.first else None

    @property
    def after(self) -> int | None:
        return self.upto if self.upto < self.total else None


@require_GET
@reader
def timeline(request: MemberRequest, pk: int) -> HttpResponse:
    """`from` and `to` are moments; without them, everything. `row` is where the table begins."""
    head = headline(request, pk)
    since, until = _span(request)
    frame = timeframe.read(pk, since=since, until=until)
    context = {"head": head, "tab": "timeline", "zoomed": since is not None or until is not None, "frame": frame}
    if frame is not None:
        told = happenings.told(frame)
        drawn = drawing.draw(frame, told)
        grown = growth.read(pk, since=since, until=until)
        context |= {
            "drawing": drawn,
            "ways": _ways(frame, drawn),
            "rows": _rows(told, number(request, "row") or 0),
            "here": between(frame.since, frame.until) if context["zoomed"] else "?",
            "cut": between(since, frame.cut) if since and frame.cut else _until(frame.cut),
            "growth": grown,
            "chart": chart.draw(grown),
        }
    return render(request, "sessions/timeline.html", context)


def _span(request: HttpRequest) -> tuple[datetime | None, datetime | None]:
    since, until = (parse_moment(request.GET.get(name, ""), needs_zone=False) for name in ("from", "to"))
    return (None, None) if since and until and since >= until else (since, until)


def _ways(frame: Timeframe, drawn: Drawing) -> Ways:
    quarter, length = (RIGHT - LEFT) / 4, frame.until - frame.since
    inner = drawn.axis.moment(LEFT + quarter), drawn.axis.moment(RIGHT - quarter)
    return Ways(
        closer=between(*inner) if length > _CLOSEST else "",
        wider=_moved(frame, -length / 2, length / 2),
        earlier=_moved(frame, -length / 2, -length / 2),
        later=_moved(frame, length / 2, length / 2),
    )


def _moved(frame: Timeframe, since: timedelta, until: timedelta) -> str:
    try:
        return between(frame.since + since, frame.until + until)
    except OverflowError:
        return ""


def _until(cut: datetime | None) -> str:
    return between(datetime(1970, 1, 1, tzinfo=UTC), cut) if cut else ""


def _rows(told: Sequence[Told], first: int) -> Rows:
    found = happenings.listed(told)
    first = first if first < len(found) else 0
    items = tuple(happenings.item(entry, run) for run, entry in found[first : first + ROWS])
    return Rows(items, first, len(found))
