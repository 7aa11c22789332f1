"""Where what a timeline draws leads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.urls import reverse

from harness_site.rendering.happenings import Item
from harness_site.rendering.timeframe import Bar


class Leading:
    """The addresses below one session. Each kind of them is looked up once, as there may be hundreds."""

    def __init__(self, session_pk: int) -> None:
        self._session = reverse("session", args=[session_pk])
        self._calls = reverse("session-call", args=[session_pk, 0]).removesuffix("0/")
        self._peers = reverse("session-peers", args=[session_pk])

    def call(self, pk: int) -> str:
        return f"{self._calls}{pk}/"

    def version(self, version: int) -> str:
        return f"{self._session}?v={version}"

    def item(self, item: Item) -> str:
        """To what an item tells of."""
        if item.call_pk is not None:
            return self.call(item.call_pk)
        if item.peers:
            return self._peers
        if item.version is None:
            return self._session
        version = self.version(item.version)
        return version if item.position is None else f"{version}&at={item.position}#m-{item.position}"

    def bar(self, bar: Bar) -> str:
        """To its item, or closer to the several that it stands for."""
        return between(bar.since, bar.until) if bar.item is None else self.item(bar.item)


def between(since: datetime, until: datetime) -> str:
    """The query of a timeline that shows this time."""
    until = max(until, since + timedelta(milliseconds=1))
    return f"?from={_exact(since)}&to={_exact(until)}"


def _exact(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
