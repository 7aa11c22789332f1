"""URLs of the items of a timeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from django.urls import reverse

from harness_site.sessions.timeline.list_timeline_items import TimelineItem
from harness_site.sessions.timeline.timeframe_lane_and_bar_layout import Bar

_INSEPARABLE: Final = timedelta(milliseconds=20)


class TimelineUrls:
    """URLs below one session. Each pattern is reversed only once, as there may be hundreds of links."""

    def __init__(self, session_pk: int) -> None:
        self._session = reverse("harness_sessions:session", args=[session_pk])
        self._calls = reverse("harness_sessions:session-call", args=[session_pk, 0]).removesuffix("0/")
        self._peers = reverse("harness_sessions:session-peers", args=[session_pk])

    def build_call_url(self, pk: int) -> str:
        return f"{self._calls}{pk}/"

    def build_version_url(self, version: int) -> str:
        return f"{self._session}?v={version}"

    def build_page_or_zoom_url_of_item(self, item: TimelineItem) -> str:
        """Return the URL of an item."""
        if item.is_group:
            return _build_zoom_query_string(item.start, item.end)
        if item.call_pk is not None:
            return self.build_call_url(item.call_pk)
        if item.peers:
            return self._peers
        if item.version is None:
            return self._session
        version = self.build_version_url(item.version)
        return version if item.position is None else f"{version}&at={item.position}#m-{item.position}"

    def build_bar_url(self, bar: Bar) -> str:
        """Return the URL of the item of a bar, or of the timeline zoomed in on merged items."""
        return (
            _build_zoom_query_string(bar.since, bar.until)
            if bar.item is None
            else self.build_page_or_zoom_url_of_item(bar.item)
        )


def _build_zoom_query_string(since: datetime, until: datetime) -> str:
    query = build_time_range_query_string(since, until)
    # Closer than this, merged items stay merged: the list shows them one by one.
    return f"{query}#listed" if until - since < _INSEPARABLE else query


def build_time_range_query_string(since: datetime, until: datetime) -> str:
    """Return the query string of a timeline for a time range."""
    until = max(until, since + timedelta(milliseconds=1))
    return f"?from={_format_exact_moment(since)}&to={_format_exact_moment(until)}"


def _format_exact_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
