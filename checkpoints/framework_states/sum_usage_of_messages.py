"""Usage of a session whose framework states the tokens of single messages: the sum, which its versions carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from checkpoints.formats.canonical_json import parse_json
from checkpoints.formats.token_counts import TokenCounts, parse_token_counts
from checkpoints.store.version_state_types import UNCHANGED, Unchanged

#: Names of the sums in a stored usage. The input leaves out what came from or went to a cache.
_NAMES: Final = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "total": "total_tokens",
}
_BY_MODEL: Final = "by_model"
_KNOWN: Final = frozenset({*_NAMES.values(), _BY_MODEL})


def add_usage_of_messages(before: str | None, messages: Iterable[Mapping[str, Any]]) -> dict[str, Any] | Unchanged:
    """Add the usage of new messages to that of the version before.

    Args:
        before: Stored usage of the version before, as JSON; None if there is none.
        messages: New messages. The `usage` of one is that of the request that it answers, its `model` the name.

    Returns:
        The usage of the version; `UNCHANGED` if nothing is added, or if something else has written the one before.
    """
    added = [
        (model if isinstance(model := message.get("model"), str) else "", counts)
        for message in messages
        if "usage" in message and (counts := parse_token_counts(message["usage"])).total
    ]
    usage = parse_json(before) if before else {}
    if not added or not isinstance(usage, dict) or not usage.keys() <= _KNOWN:
        return UNCHANGED
    by_model = dict(usage.get(_BY_MODEL) or {})
    for model, counts in added:
        usage = _add_counts(usage, counts)
        if model:
            by_model[model] = _add_counts(by_model.get(model) or {}, counts)
    return {**usage, **({_BY_MODEL: by_model} if by_model else {})}


def _add_counts(usage: Mapping[str, Any], counts: TokenCounts) -> dict[str, Any]:
    sums = {name: (usage.get(name) or 0) + (getattr(counts, kind) or 0) for kind, name in _NAMES.items()}
    return {**usage, **{name: count for name, count in sums.items() if count or name in usage}}
