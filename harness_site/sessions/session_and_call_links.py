"""URLs of the sessions and calls of a list."""

from __future__ import annotations

from django.urls import reverse


class SessionLinks:
    """URLs of sessions and their calls. Each pattern is reversed only once for all links of a list."""

    def __init__(self) -> None:
        self._sessions = reverse("harness_sessions:session", args=[0]).removesuffix("0/")
        first = f"{self._sessions}0"
        self._jump = reverse("harness_sessions:session-jump", args=[0]).removeprefix(first)
        self._calls = reverse("harness_sessions:session-call", args=[0, 0]).removeprefix(first).removesuffix("0/")

    def build_session_url(self, pk: int) -> str:
        return f"{self._sessions}{pk}/"

    def build_first_message_url_since_time(self, pk: int, since: str) -> str:
        """Return the URL that redirects to the first message from a day or a time in UTC on."""
        return f"{self._sessions}{pk}{self._jump}?to=day&day={since}"

    def build_call_url(self, session_pk: int, pk: int) -> str:
        return f"{self._sessions}{session_pk}{self._calls}{pk}/"
