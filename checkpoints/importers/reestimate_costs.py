"""Estimate the costs of imported sessions again, from a price table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import F

from checkpoints.audit import insert_unchained_events
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import ActorKind, AuditKind, CostBasis
from checkpoints.formats import money_amount_codec
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.importers.imported_session_and_run import IMPORT_MARK
from checkpoints.importers.price_table import ESTIMATE_MARKS, Cost, PriceTable
from checkpoints.models import Checkpoint, Session
from checkpoints.store.database_client_state import Store


@dataclass
class AppliedPrices:
    """Result of applying a price table: numbers of sessions, and of those of each model without a price."""

    sessions: int = 0
    estimated: int = 0
    changed: int = 0
    unpriced: Counter[str] = field(default_factory=Counter)


def reestimate_costs_of_imported_sessions(store: Store, table: PriceTable, *, applied_by: str) -> AppliedPrices:
    """Estimate the costs of the imported sessions whose source states none. Each session is one transaction."""
    result = AppliedPrices()
    rows = Session.objects.using(store.using).filter(workspace_id=store.workspace_id)
    imported = rows.exclude(cost_basis=CostBasis.STATED)
    for pk in list(imported.order_by("pk").values_list("pk", flat=True)):
        with database_operation(store.using), transaction.atomic(using=store.using):
            row = rows.select_for_update().filter(pk=pk).exclude(cost_basis=CostBasis.STATED).first()
            if row is not None:
                _reestimate_session_and_version_costs(store, row, table, result, applied_by)
    return result


def _reestimate_session_and_version_costs(
    store: Store, row: Session, table: PriceTable, result: AppliedPrices, applied_by: str
) -> None:
    checkpoints = Checkpoint.objects.using(store.using).filter(session=row)
    cost, changed = Cost(None, CostBasis.UNKNOWN), []
    by_model: Mapping[str, Mapping[str, int]] = {}
    for checkpoint in checkpoints.order_by("version"):
        by_model = _parse_usage_by_model(checkpoint.usage)
        cost = table.estimate_cost(by_model)
        budget = "0" if cost.amount is None else money_amount_codec.encode_amount_as_json(cost.amount)
        if checkpoint.budget_spent_usd != budget:
            checkpoint.budget_spent_usd = budget
            changed.append(checkpoint)
    result.unpriced.update(model or "a model without a name" for model in by_model if not table.find_prices(model))
    result.sessions += 1
    result.estimated += cost.basis == CostBasis.ESTIMATED
    metadata = parse_json(row.metadata)
    mark = {name: value for name, value in metadata.get(IMPORT_MARK, {}).items() if name not in ESTIMATE_MARKS}
    mark |= cost.build_import_mark()
    text = to_canonical_json({**metadata, IMPORT_MARK: mark}, "metadata")
    if not changed and text == row.metadata and row.cost_basis == cost.basis:
        return
    result.changed += 1
    checkpoints.bulk_update(changed, ["budget_spent_usd"], batch_size=200)
    Session.objects.using(store.using).filter(pk=row.pk).update(
        budget_spent_usd=money_amount_codec.round_amount_to_millionth("0" if cost.amount is None else str(cost.amount)),
        cost_basis=cost.basis,
        metadata=text,
        revision=F("revision") + 1,
    )
    insert_unchained_events.record_event(
        store,
        AuditKind.SESSION_IMPORTED,
        session_pk=row.pk,
        actor=applied_by or IMPORT_MARK,
        actor_kind=ActorKind.PERSON if applied_by else ActorKind.MACHINE,
        prices=table.name,
    )


def _parse_usage_by_model(usage: str | None) -> Mapping[str, Mapping[str, int]]:
    """Read the tokens by model of a stored usage; those without a model have an empty name."""
    value: Any = parse_json(usage) if usage else {}
    if not isinstance(value, dict):
        return {}
    by_model = value.get("by_model")
    return by_model if isinstance(by_model, dict) else {"": value}
