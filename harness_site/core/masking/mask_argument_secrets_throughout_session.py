"""Secret argument values of a session's calls, masked wherever else they occur in that session."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final

from django.db.models import OuterRef, Q, QuerySet, Subquery

from checkpoints.db.decompressed_text_sql import StoredSize
from checkpoints.formats import parse_json
from checkpoints.models import Session, ToolCall
from harness_site.core.masking import masker
from harness_site.core.masking.find_known_secret_values import MAX_KNOWN_VALUES

#: Maximum number of calls of each session that are searched, newest first.
_MAX_CALLS: Final = 1_000
#: Maximum size in bytes of arguments that are searched; larger ones are masked only where they are displayed.
_MAX_ARGUMENT_BYTES: Final = 20_000
#: Maximum size in bytes of all arguments searched for one response.
_BUDGET: Final = 4_000_000
#: Number of calls that are read in one statement.
_FIRST_CALLS: Final = 6_000
#: Number of calls whose arguments are searched at once for names of secrets.
_BATCH: Final = 200


def load_known_secrets_of_session(session: int) -> frozenset[str]:
    """Return the secret values in the arguments of a session's calls, for the current reader."""
    rules = masker.get_current_masking_rules()
    calls = _select_newest_calls_with_small_arguments().filter(session=session)[:_MAX_CALLS]
    return frozenset() if rules is None else _collect_secret_values_by_session(calls, rules).get(session, frozenset())


def mask_secrets_in_session_names_until_response(names: Mapping[int, Sequence[str]]) -> None:
    """Mask the secret values of other sessions, if their names have any: `names` are titles and ids by the key."""
    secrets = load_known_secrets_of_sessions(names)
    for pk, values in secrets.items():
        before = [masker.mask_text(name) for name in names[pk]]
        with masker.use_masking_rules_with_extra_values(values):
            has_secret = before != [masker.mask_text(name) for name in names[pk]]
        if has_secret:
            masker.mask_values_until_response(values)


def load_known_secrets_of_sessions(sessions: Collection[int]) -> dict[int, frozenset[str]]:
    """Return the secret values of several sessions, in two queries; empty for a reader who may see secrets."""
    rules = masker.get_current_masking_rules()
    return (
        _collect_secret_values_by_session(_select_newest_calls_of_sessions(sessions), rules)
        if sessions and rules is not None
        else {}
    )


def _collect_secret_values_by_session(
    calls: QuerySet[ToolCall, tuple[int, str]], rules: masker.MaskingRules
) -> dict[int, frozenset[str]]:
    values: defaultdict[int, set[str]] = defaultdict(set)
    left = _BUDGET
    for session, args in _iterate_call_arguments_that_may_hold_secrets(calls, rules):
        if left <= 0:
            break
        if len(values[session]) < MAX_KNOWN_VALUES:
            left -= len(args)
            values[session] |= masker.collect_secret_values(_parse_call_arguments_or_none(args))
    return {session: frozenset(found) for session, found in values.items() if found}


def _iterate_call_arguments_that_may_hold_secrets(
    calls: QuerySet[ToolCall, tuple[int, str]], rules: masker.MaskingRules
) -> Iterator[tuple[int, str]]:
    """Yield session and arguments of the calls that may have a secret, the newest first, those of all sessions in turn,
    so that each has its share of the budget.

    Most pages have few calls. A server-side cursor, which takes several statements, reads only those after the first.
    """
    first = list(calls[:_FIRST_CALLS])
    ranks: Counter[int] = Counter()
    turns = []
    for session, args in _filter_calls_with_secret_named_arguments(first, rules):
        ranks[session] += 1
        turns.append((ranks[session], session, args))
    yield from ((session, args) for _, session, args in sorted(turns))
    if len(first) == _FIRST_CALLS:
        yield from _filter_calls_with_secret_named_arguments(calls[_FIRST_CALLS:].iterator(), rules)


def _filter_calls_with_secret_named_arguments(
    rows: Iterable[tuple[int, Any]], rules: masker.MaskingRules
) -> Iterator[tuple[int, str]]:
    """Yield the rows whose arguments hold a name of a secret: few, so many are searched at once.

    Arguments that are no text, which SQLite stores, are shown nowhere.
    """
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH)):
        texts = [row for row in batch if isinstance(row[1], str)]
        if rules.may_contain_secret_name("\n".join([args for _, args in texts])):
            yield from [row for row in texts if rules.may_contain_secret_name(row[1])]


def _select_newest_calls_of_sessions(sessions: Collection[int]) -> QuerySet[ToolCall, tuple[int, str]]:
    """Query the calls of sessions; of sessions with very many calls only those of the newest steps, which an index
    finds without reading the others."""
    oldest_read = _select_sessions_with_oldest_step_to_search().filter(pk__in=sessions)
    long_sessions = {session: step for session, step in oldest_read if step is not None}
    calls = _select_calls_with_small_arguments_by_key()
    if not long_sessions:
        return calls.filter(session__pk__in=sessions)
    is_read = Q(session__pk__in=[session for session in sessions if session not in long_sessions])
    for session, step in long_sessions.items():
        is_read |= Q(session=session, step__gte=step)
    return calls.filter(is_read)


@cache
def _select_sessions_with_oldest_step_to_search() -> QuerySet[Session, tuple[int, int | None]]:
    """Select all sessions, each with the oldest step whose calls are read; None for those with few calls."""
    newest_steps = ToolCall.objects.filter(session=OuterRef("pk")).order_by("-step").values("step")
    step = Subquery(newest_steps[_MAX_CALLS : _MAX_CALLS + 1])
    return Session.objects.annotate(oldest_step=step).values_list("pk", "oldest_step")


@cache
def _select_calls_with_small_arguments() -> QuerySet[ToolCall, tuple[int, str]]:
    """Select the session and the arguments of each call whose arguments are small."""
    calls = ToolCall.objects.alias(size=StoredSize("args")).filter(size__lte=_MAX_ARGUMENT_BYTES)
    return calls.values_list("session_id", "args")


@cache
def _select_newest_calls_with_small_arguments() -> QuerySet[ToolCall, tuple[int, str]]:
    return _select_calls_with_small_arguments().order_by("-step", "-pk")


@cache
def _select_calls_with_small_arguments_by_key() -> QuerySet[ToolCall, tuple[int, str]]:
    return _select_calls_with_small_arguments().order_by("-pk")


def mask_session_secrets_until_response(session: int) -> None:
    """Mask the secret values of a session until the current response is complete."""
    masker.mask_values_until_response(load_known_secrets_of_session(session))


def _parse_call_arguments_or_none(stored: str) -> object:
    try:
        return parse_json(stored)
    except (ValueError, RecursionError):
        return None
