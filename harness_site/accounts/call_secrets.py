"""Values that were given to tools in secret fields: they are secret wherever else their session says them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, Final

from django.db.models import Func, IntegerField

from checkpoints.models import ToolCall
from checkpoints.serde import parse
from harness_site.rendering import masking
from harness_site.rendering.known_values import MOST

#: Calls that are looked through, the newest first.
_CALLS: Final = 1_000
#: Longer arguments, in bytes, are read where they are shown only.
_LONGEST: Final = 20_000
#: Bytes of arguments that are looked through for one answer, of all its sessions together.
_BUDGET: Final = 4_000_000


class StoredSize(Func):
    """How long a stored text is: PostgreSQL tells without reading it."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return self.as_sql(compiler, connection, function="LENGTH", **options)


def of_session(session: int) -> frozenset[str]:
    """Return the secret values in the arguments of a session's calls, for who reads now."""
    return of_sessions([session]).get(session, frozenset())


def of_sessions(sessions: Collection[int]) -> dict[int, frozenset[str]]:
    """Return them for several sessions; nothing for who is shown secrets.

    One query, and one for each session where the newest calls of all together may not be the newest of each.
    """
    if not sessions or (rules := masking.rules_in_force()) is None:
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
    """Secret values of sessions, found within a budget of bytes."""

    def __init__(self, rules: masking.Rules) -> None:
        self._rules = rules
        self._values: defaultdict[int, set[str]] = defaultdict(set)
        self._left = _BUDGET

    def add(self, calls: Iterable[tuple[int, str]]) -> None:
        """Look through the arguments of `calls`, the newest first, each with the key of its session."""
        for session, args in calls:
            if self._left <= 0:
                return
            if len(self._values[session]) < MOST and self._rules.may_hide(args):
                self._left -= len(args)
                self._values[session] |= masking.secret_values(_arguments(args))

    def found(self) -> dict[int, frozenset[str]]:
        return {session: frozenset(values) for session, values in self._values.items() if values}


def _calls(sessions: Collection[int]) -> list[tuple[int, str]]:
    """Return session and arguments of their newest calls."""
    calls = ToolCall.objects.alias(size=StoredSize("args")).filter(session__in=sessions, size__lte=_LONGEST)
    return list(calls.order_by("-pk").values_list("session_id", "args")[:_CALLS])


def hide(session: int) -> None:
    """Mask the values of a session wherever they stand, until the page that is being made has been made."""
    masking.hide_values(of_session(session))


def _arguments(stored: str) -> object:
    try:
        return parse(stored)
    except (ValueError, RecursionError):
        return None
