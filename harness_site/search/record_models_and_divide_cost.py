"""Models of sessions from what their versions store, and the part of a session's cost that each model has.

A loop names its model in the usage of a version (`model`, or the keys of `by_model`), in a snapshot, or in the details
of a phase. Messages that name one are read by `message_project_branch_and_model`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from django.db import transaction
from django.db.models import F, Q, QuerySet

from checkpoints.enums import Phase
from checkpoints.formats import money_amount_codec, parse_json
from checkpoints.formats.token_counts import MAX_MODELS, parse_token_counts
from checkpoints.models import Checkpoint
from harness_site.core.hidden_characters import make_text_for_column
from harness_site.search import index_writer
from harness_site.search.models import Fact, Kind, Trait

#: Number of newest versions that are read: the phases of one step of a loop.
_VERSIONS: Final = 8
#: Number of sessions that one statement looks up.
_CHUNK_SIZE: Final = 200
_COLUMN_LENGTH: Final = 255
#: Cost in US dollars below which a rest comes from rounding the parts.
_LEAST_REST: Final = Decimal("0.00001")


def record_models_named_by_newest_versions(workspace: int, session_pks: Iterable[int]) -> None:
    """Note the models that the newest versions of these sessions name, as facts that the session list finds."""
    keys = sorted(session_pks)
    for start in range(0, len(keys), _CHUNK_SIZE):
        _record_models_of_chunk(workspace, keys[start : start + _CHUNK_SIZE])


def _record_models_of_chunk(workspace: int, sessions: list[int]) -> None:
    models = Fact.objects.filter(session__in=sessions, trait=Trait.MODEL).values_list("session", "value")
    new = _load_session_model_pairs_from_newest_versions(sessions) - set(models)
    if not new:
        return
    with transaction.atomic():
        existing = index_writer.lock_and_list_existing_sources(Kind.SESSION, sorted({session for session, _ in new}))
        facts = [
            Fact(workspace_id=workspace, session_id=session, trait=Trait.MODEL, value=model)
            for session, model in sorted(new)
            if session in existing
        ]
        Fact.objects.bulk_create(facts, ignore_conflicts=True)


def _load_session_model_pairs_from_newest_versions(sessions: list[int]) -> set[tuple[int, str]]:
    """Load the models that the newest version names, and those that the few versions before it name after an answer of
    the model."""
    is_newest = Q(version=F("session__latest_version"))
    rows = Checkpoint.objects.filter(session__in=sessions, version__gt=F("session__latest_version") - _VERSIONS)
    stated: QuerySet[Any, Any] = rows.filter(is_newest | Q(phase=Phase.POST_LLM)).order_by()
    return {
        (session, model)
        for session, usage, payload in stated.values_list("session", "usage", "payload").iterator(chunk_size=50)
        for model in list_models_named_by_version(
            _parse_json_object_or_empty(usage), _parse_json_object_or_empty(payload)
        )
    }


def list_models_named_by_version(usage: Mapping[str, Any], payload: Mapping[str, Any]) -> list[str]:
    """List the models that a version names: those of its usage, else of its snapshot, else of its phase.

    A phase before the model has answered names none: nothing has been spent on it yet.
    """
    by_model, details = usage.get("by_model"), payload.get("details")
    names: list[Any] = list(by_model)[:MAX_MODELS] if isinstance(by_model, dict) else [usage.get("model")]
    if not any(_make_storable_name(name) for name in names):
        names = [payload.get("normalized_model")]
    if (
        not any(_make_storable_name(name) for name in names)
        and isinstance(details, dict)
        and "finish_reason" in details
    ):
        names = [details.get("model")]
    return [model for model in map(_make_storable_name, names) if model]


def divide_cost_by_model_and_undivided_rest(
    cost: Decimal, usage: str | None, metadata: str
) -> tuple[dict[str, Decimal], Decimal]:
    """Divide the cost of a session with several models, in US dollars.

    Args:
        cost: Cost of the session.
        usage: Stored usage of its newest version.
        metadata: Stored metadata of the session, which have the estimate of an import.

    Returns:
        The cost of each model as far as it is stated or estimated, and the rest that nothing divides. What the parts
        have lost by rounding counts for the most expensive model.
    """
    mark = _parse_json_object_or_empty(metadata).get("import")
    estimate = mark.get("estimate") if isinstance(mark, dict) else None
    estimate = estimate if isinstance(estimate, dict) else {}
    by_model = _parse_json_object_or_empty(usage).get("by_model")
    by_model = by_model if isinstance(by_model, dict) else {}
    costs = {
        _make_storable_name(model): amount
        for model in [*by_model, *(model for model in estimate if model not in by_model)][:MAX_MODELS]
        if _make_storable_name(model)
        and (amount := get_stated_or_estimated_model_cost(by_model.get(model), estimate.get(model))) is not None
    }
    costs = count_rounding_for_most_expensive_model(costs, cost)
    rest = cost - sum(costs.values(), Decimal())
    # More than the whole cost is no division of it, apart from rounding.
    return (costs, max(rest, Decimal())) if rest > -Decimal("0.001") else ({}, cost)


def count_rounding_for_most_expensive_model(costs: dict[str, Decimal], total: Decimal) -> dict[str, Decimal]:
    """Return the costs of models in US dollars so that they add up to the total, if only rounding makes a difference.

    It counts for the most expensive model.
    """
    rest = total - sum(costs.values(), Decimal())
    if not costs or not 0 < abs(rest) < _LEAST_REST:
        return costs
    most_expensive = max(costs, key=lambda model: costs[model])
    return {**costs, most_expensive: max(costs[most_expensive] + rest, Decimal())}


def read_stated_tokens_by_model_and_rest(total: int, usage: str | None) -> tuple[dict[str, int], int]:
    """Divide the tokens of a session with several models.

    Args:
        total: Tokens of the session.
        usage: Stored usage of its newest version.

    Returns:
        The tokens of each model as far as they are stated, and the rest that nothing divides.
    """
    by_model = _parse_json_object_or_empty(usage).get("by_model")
    tokens = {
        _make_storable_name(model): number
        for model, counts in list(by_model.items() if isinstance(by_model, dict) else ())[:MAX_MODELS]
        if _make_storable_name(model) and (number := parse_token_counts(counts).total)
    }
    rest = total - sum(tokens.values())
    # More than all tokens is no division of them.
    return (tokens, rest) if rest >= 0 else ({}, total)


def get_stated_or_estimated_model_cost(counts: Any, estimate: Any) -> Decimal | None:
    """Return the cost of one model in US dollars: as its part of a usage states it, else as estimated, else None."""
    if isinstance(counts, dict) and (stated := _parse_cost(counts.get("cost_usd"))) is not None:
        return stated
    parts = [_parse_cost(part) for part in estimate.values()] if isinstance(estimate, dict) else []
    known = [part for part in parts if part is not None]
    return sum(known, Decimal()) if known else None


def _parse_cost(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        amount = money_amount_codec.round_amount_to_millionth(str(value))
    except (ValueError, InvalidOperation):
        return None
    return amount if amount >= 0 else None


def _parse_json_object_or_empty(stored: str | None) -> dict[str, Any]:
    try:
        value = parse_json(stored) if stored else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _make_storable_name(value: Any) -> str:
    return make_text_for_column(value, _COLUMN_LENGTH)
