"""Secret argument values of a session's calls, masked wherever else they occur in that session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, Final

from django.db.models import F, Func, IntegerField, Window
from django.db.models.functions import RowNumber

from checkpoints.formats import parse_json
from checkpoints.models import ToolCall
from harness_site.core.masking import masker
from harness_site.core.masking.known_values import MOST

#: Maximum number of calls of each session that are searched, newest first.
_CALLS: Final = 1_000
#: Maximum size in bytes of arguments that are searched; larger ones are masked only where they are displayed.
_LONGEST: Final = 20_000
#: Maximum size in bytes of all arguments searched for one response.
_BUDGET: Final = 4_000_000
#: Number of calls that are read in one statement.
_FIRST_CALLS: Final = 1_000
#: Number of calls whose arguments are searched at once for names of secrets.
_BATCH: Final = 200


class StoredSize(Func):
    """Size of a stored text in bytes or characters, computed without loading it."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **options: Any) -> Any:
        return self.as_sql(compiler, connection, function="LENGTH", **options)


def load_known_secrets(session: int) -> frozenset[str]:
    """Return the secret values in the arguments of a session's calls, for the current reader."""
    return load_known_secrets_of_sessions([session]).get(session, frozenset())


def load_known_secrets_of_sessions(sessions: Collection[int]) -> dict[int, frozenset[str]]:
    """Return the secret values of several sessions; empty for a reader who may see secrets."""
    if not sessions or (rules := masker.get_current_rules()) is None:
        return {}
    values: defaultdict[int, set[str]] = defaultdict(set)
    left = _BUDGET
    calls = _iterate_newest_calls(sessions)
    while left > 0 and (batch := list(islice(calls, _BATCH))):
        # Searched at once, because most arguments hold no secret name.
        if not rules.may_hide("\n".join(args for _, args in batch)):
            continue
        for session, args in batch:
            if left > 0 and len(values[session]) < MOST and rules.may_hide(args):
                left -= len(args)
                values[session] |= masker.collect_secret_values(_parse_arguments(args))
    return {session: frozenset(found) for session, found in values.items() if found}


def _iterate_newest_calls(sessions: Collection[int]) -> Iterator[tuple[int, str]]:
    """Yield session and arguments of the newest calls, those of all sessions in turn, so that each has its share of
    the budget.

    Most pages have few calls. A server-side cursor, which takes several statements, reads the calls after the first.
    """
    calls = ToolCall.objects.alias(size=StoredSize("args")).filter(session__in=sessions, size__lte=_LONGEST)
    if len(sessions) == 1:
        newest = calls.order_by("-pk")[:_CALLS]
    else:
        newness = Window(RowNumber(), partition_by="session_id", order_by=F("pk").desc())
        newest = calls.alias(newness=newness).filter(newness__lte=_CALLS).order_by("newness", "session_id")
    columns = newest.values_list("session_id", "args")
    first = list(columns[:_FIRST_CALLS])
    yield from first
    if len(first) == _FIRST_CALLS:
        yield from columns[_FIRST_CALLS:].iterator()


def mask_session_secrets(session: int) -> None:
    """Mask the secret values of a session until the current response is complete."""
    masker.mask_values_until_response(load_known_secrets(session))


def _parse_arguments(stored: str) -> object:
    try:
        return parse_json(stored)
    except (ValueError, RecursionError):
        return None
