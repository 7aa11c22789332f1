"""Values that were given to tools in secret fields: they are secret wherever else their session says them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
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
    """Return them for several sessions; one query. Nothing for who is shown secrets."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    if not sessions or (rules := masking.rules_in_force()) is None:
        return {}
    calls = ToolCall.objects.alias(size=StoredSize("args")).filter(session__in=sessions, size__lte=_LONGEST)
    for session, args in calls.order_by("-pk").values_list("session_id", "args")[:_CALLS]:
        if len(found[session]) < MOST and rules.may_hide(args):
            found[session] |= masking.secret_values(_arguments(args))
    return {session: frozenset(values) for session, values in found.items() if values}


def hide(session: int) -> None:
    """Mask the values of a session wherever they stand, until the page that is being made has been made."""
    masking.hide_values(of_session(session))


def _arguments(stored: str) -> object:
    try:
        return parse(stored)
    except (ValueError, RecursionError):
        return None
