"""Sum of the token usage of a session's messages, stored with each version, for frameworks that report the tokens of
each message alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from checkpoints.formats.canonical_json import parse_json
from checkpoints.formats.token_counts import (
    MAX_TOKEN_COUNT,
    TokenCounts,
    is_token_count,
    parse_token_counts,
    truncate_model_name_or_empty_if_list_full,
)
from checkpoints.store.version_state_types import UNCHANGED, Unchanged

#: Names of the sums in a stored usage. The input leaves out what came from or went to a cache.
_NAMES: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "total": "total_tokens",
}
_SUM_NAMES: Final = frozenset(_NAMES.values())
_BY_MODEL: Final = "by_model"


def add_usage_of_messages(before: str | None, messages: Iterable[Mapping[str, Any]]) -> dict[str, Any] | Unchanged:
    """Add the usage of new messages to that of the version before.

    Args:
        before: Stored usage of the version before, as JSON; None if there is none.
        messages: New messages. The `usage` of one is that of the request that it answers, its `model` the name. A
            model that the usage by model has no more room for counts in the sum over all models alone.

    Returns:
        The usage of the version; `UNCHANGED` if nothing is added, or if the one before is not such a sum.
    """
    added = [
        (model if isinstance(model := message.get("model"), str) else "", counts)
        for message in messages
        if "usage" in message and (counts := parse_token_counts(message["usage"])).total
    ]
    usage = parse_json(before) if before else {}
    if not added or not _has_only_token_sums_and_models(usage):
        return UNCHANGED
    by_model = dict(usage.get(_BY_MODEL, {}))
    for model, counts in added:
        usage = _add_counts(usage, counts)
        if name := truncate_model_name_or_empty_if_list_full(model, by_model):
            by_model[name] = _add_counts(by_model.get(name, {}), counts)
    return {**usage, **({_BY_MODEL: by_model} if by_model else {})}


def _has_only_token_sums_and_models(usage: Any) -> TypeGuard[dict[str, Any]]:
    if not isinstance(usage, dict):
        return False
    by_model = usage.get(_BY_MODEL, {})
    sums = {name: count for name, count in usage.items() if name != _BY_MODEL}
    return (
        _has_only_token_sums(sums)
        and isinstance(by_model, dict)
        and all(_has_only_token_sums(model) for model in by_model.values())
    )


def _has_only_token_sums(counts: Any) -> bool:
    return (
        isinstance(counts, dict)
        and counts.keys() <= _SUM_NAMES
        and all(is_token_count(count) for count in counts.values())
    )


def _add_counts(usage: Mapping[str, Any], counts: TokenCounts) -> dict[str, Any]:
    sums = {
        name: min(usage.get(name, 0) + (getattr(counts, kind) or 0), MAX_TOKEN_COUNT) for kind, name in _NAMES.items()
    }
    return {**usage, **{name: count for name, count in sums.items() if count or name in usage}}
