"""Secret argument values of a session's calls, masked wherever else they occur in that session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, Final

from django.db.models import Func, IntegerField

from checkpoints.formats import parse_json
from checkpoints.models import ToolCall
from harness_site.core.masking import masker
from harness_site.core.masking.known_values import MOST

#: Maximum number of calls that are searched, newest first.
_CALLS: Final = 1_000
#: Maximum size in bytes of arguments that are searched; larger ones are masked only where they are displayed.
_LONGEST: Final = 20_000
#: Maximum size in bytes of all arguments searched for one response.
_BUDGET: Final = 4_000_000


class StoredSize(Func):
    """Size of a stored text in bytes or characters, computed without loading it."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return self.as_sql(compiler, connection, function="LENGTH", **options)


def load_secrets_of_session(session: int) -> frozenset[str]:
    """Return the secret values in the arguments of a session's calls, for the current reader."""
    return load_secrets_of_sessions([session]).get(session, frozenset())


def load_secrets_of_sessions(sessions: Collection[int]) -> dict[int, frozenset[str]]:
    """Return the secret values of several sessions; empty for a reader who may see secrets.

    Runs one query, and one for each session if the newest calls of all sessions exceed the limit.
    """
    if not sessions or (rules := masker.get_current_rules()) is None:
        return {}
    search = _Search(rules)
    newest = _calls(sessions)
    if len(newest) < _CALLS or len(sessions) == 1:
        search.add(newest)
    else:
        for session in sessions:
            search.add(_calls([session]))
    return search.found()


class _Search:
    """Search for secret values within a budget of bytes."""

    def __init__(self, rules: masker.MaskingRules) -> None:
        self._rules = rules
        self._values: defaultdict[int, set[str]] = defaultdict(set)
        self._left = _BUDGET

    def add(self, calls: Iterable[tuple[int, str]]) -> None:
        """Search the arguments of `calls`, newest first, each given with the key of its session."""
        for session, args in calls:
            if self._left <= 0:
                return
            if len(self._values[session]) < MOST and self._rules.may_hide(args):
                self._left -= len(args)
                self._values[session] |= masker.collect_secret_values(_parse_arguments(args))

    def found(self) -> dict[int, frozenset[str]]:
        return {session: frozenset(values) for session, values in self._values.items() if values}


def _calls(sessions: Collection[int]) -> list[tuple[int, str]]:
    """Return session and arguments of the newest calls of these sessions."""
    calls = ToolCall.objects.alias(size=StoredSize("args")).filter(session__in=sessions, size__lte=_LONGEST)
    return list(calls.order_by("-pk").values_list("session_id", "args")[:_CALLS])


def mask_session_secrets(session: int) -> None:
    """Mask the secret values of a session until the current response is complete."""
    masker.mask_values_until_response(load_secrets_of_session(session))


def _parse_arguments(stored: str) -> object:
    try:
        return parse_json(stored)
    except (ValueError, RecursionError):
        return None
