"""Rows to be indexed, with their texts masked under the rules of their workspaces."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from checkpoints.db.decompressed_text_sql import StoredSize
from checkpoints.enums import ActorKind, CallStatus, InterruptReason
from checkpoints.models import Workspace
from checkpoints.models.session import deserialize_labels
from harness_site.accounts import load_masking_rules
from harness_site.core.hidden_characters import replace_unencodable_characters
from harness_site.core.masking import mask_argument_secrets_throughout_session, masker
from harness_site.search import (
    hourly_call_and_decision_sums,
    message_project_branch_and_model,
    sessions_by_active_hour,
    text_extraction,
)
from harness_site.search.hourly_call_and_decision_sums import Tally
from harness_site.search.index_delete_triggers import SOURCES
from harness_site.search.models import Kind, Problem, Trait
from harness_site.search.text_extraction import ExtractedText

logger = logging.getLogger(__name__)

#: Maximum characters in memory; batches of longer texts have fewer rows and stay short.
_CHARACTERS: Final = 2_000_000
#: Statuses of calls that do not change any more.
SETTLED_CALL: Final = frozenset(
    {CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.REJECTED, CallStatus.SUPERSEDED, CallStatus.DISCARDED}
)
#: Columns to read; the workspace of messages and decisions is that of their session.
_FIELDS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.MESSAGE: ("pk", "session_id", "message_id", "body", "position", "created_at"),
    Kind.CALL: (
        *("pk", "session_id", "call_id", "tool", "sentence", "args", "result", "error_type"),
        *(
            "error_message",
            "status",
            "exit_code",
            "revision",
            "issued_at",
            "settled_at",
            "interrupted_at",
            "reason",
            "session__has_times",
            "session__agent",
            "idempotency_key",
            "step",
            "supersedes_id",
            "is_answered",
        ),
    ),
    Kind.DECISION: (
        *("pk", "session_id", "kind", "final", "actor", "actor_kind", "reason", "evidence", "result", "created_at"),
        *("tool_call__call_id", "tool_call__issued_at", "tool_call__interrupted_at", "session__agent"),
    ),
    Kind.SESSION: ("pk", "session_id", "title", "agent", "labels", "created_at"),
}
_WORKSPACE: Final = {
    Kind.MESSAGE: "session__workspace",
    Kind.CALL: "workspace",
    Kind.DECISION: "session__workspace",
    Kind.SESSION: "workspace",
}
#: Columns that may be long.
_LONG: Final = {
    Kind.MESSAGE: ("body",),
    Kind.CALL: ("args", "result", "error_message"),
    Kind.DECISION: ("evidence", "result"),
    Kind.SESSION: ("title",),
}


@dataclass(frozen=True, slots=True)
class IndexedText:
    """One text of the store, prepared for the index. Results of a search are ordered by the times `at`."""

    session: int
    workspace: int
    source: int
    at: datetime
    text: str
    position: int | None = None
    revision: int = 0
    open: bool = False
    facts: tuple[tuple[Trait, str], ...] = ()
    #: Set for a decision, and for a call that will not change any more, if it counts in the sums.
    tally: Tally | None = None
    problem: Problem | None = None


def list_keys_and_text_sizes(kind: Kind, rows: QuerySet[Any]) -> list[tuple[int, int]]:
    """List the keys of rows and the approximate length of their texts."""
    size = sum((Coalesce(StoredSize(name), 0) for name in _LONG[kind][1:]), Coalesce(StoredSize(_LONG[kind][0]), 0))
    return list(rows.values_list("pk", size))


def list_keys_that_fit_in_memory(rows: Sequence[tuple[int, int]]) -> list[int]:
    """Return the first keys whose texts fit into memory, at least one."""
    keys: list[int] = []
    characters = 0
    for key, size in rows:
        characters += min(size, text_extraction.LONGEST)
        if keys and characters > _CHARACTERS:
            break
        keys.append(key)
    return keys


def load_texts_to_index(kind: Kind, keys: list[int]) -> list[IndexedText]:
    """Load the texts of these rows in the order of their keys."""
    rows: QuerySet[Any] = SOURCES[kind]._default_manager.filter(pk__in=keys).annotate(read_for=F(_WORKSPACE[kind]))
    if kind is Kind.CALL:
        rows = rows.annotate(is_answered=hourly_call_and_decision_sums.ANSWERED_CALLS)
    by_workspace: defaultdict[int, list[Any]] = defaultdict(list)
    loaded: list[Any] = list(rows.values_list(*_FIELDS[kind], "read_for", named=True))
    if kind is Kind.DECISION:
        loaded = hourly_call_and_decision_sums.replace_call_start_times_by_approval_request_times(loaded)
    for row in loaded:
        by_workspace[row.read_for].append(row)
    workspaces = Workspace.objects.select_related("masking").in_bulk(by_workspace)
    texts: list[IndexedText] = []
    for pk, workspace_rows in by_workspace.items():
        rules = load_masking_rules.load_workspace_masking_rules(workspaces[pk])
        with masker.use_masking_rules(rules):
            secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(
                {_get_session_pk(kind, row) for row in workspace_rows}
            )
        for row in workspace_rows:
            with masker.use_masking_rules(
                rules.with_known_values(secrets.get(_get_session_pk(kind, row), frozenset()))
            ):
                texts.append(_build_indexed_text_or_placeholder(kind, row, pk))
    return sorted(texts, key=lambda text: text.source)


def _get_session_pk(kind: Kind, row: Any) -> int:
    return int(row.pk if kind is Kind.SESSION else row.session_id)


def _build_indexed_text_or_placeholder(kind: Kind, row: Any, workspace: int) -> IndexedText:
    """Build the indexed text of a row.

    A row that cannot be read is indexed without text, so that indexing does not stop at it.
    """
    try:
        return _FOUND[kind](row, workspace)
    except Exception:
        session = row.pk if kind == Kind.SESSION else row.session_id
        logger.exception("The %s %s of session %s is not in the search index.", kind.value, row.pk, session)
        position, revision = getattr(row, "position", None), getattr(row, "revision", 0)
        still_open = kind == Kind.CALL and row.status not in SETTLED_CALL
        at = _get_time(kind, row)
        return IndexedText(session, workspace, row.pk, at, "", position, revision, still_open, problem=Problem.SKIPPED)


def _get_time(kind: Kind, row: Any) -> datetime:
    at: datetime = row.issued_at if kind is Kind.CALL else row.created_at
    return at


def _get_truncation_problem(extract: ExtractedText) -> Problem | None:
    return None if extract.whole else Problem.CUT


def _build_indexed_message(row: Any, workspace: int) -> IndexedText:
    extract = text_extraction.extract_masked_message_text(row.body, row.message_id)
    facts = (
        *sessions_by_active_hour.build_active_hour_facts(row.created_at),
        *message_project_branch_and_model.extract_project_and_model_facts_of_message(row.body),
    )
    return IndexedText(
        row.session_id,
        workspace,
        row.pk,
        row.created_at,
        extract.text,
        position=row.position,
        facts=facts,
        problem=_get_truncation_problem(extract),
    )


def _build_indexed_call(row: Any, workspace: int) -> IndexedText:
    still_open, extract = row.status not in SETTLED_CALL, text_extraction.extract_masked_call_text(row)
    is_interrupted = row.interrupted_at is not None and row.reason != InterruptReason.NO_RESULT
    interrupted = ((Trait.INTERRUPTED, ""),) if is_interrupted else ()
    return IndexedText(
        row.session_id,
        workspace,
        row.pk,
        row.issued_at,
        extract.text,
        revision=row.revision,
        open=still_open,
        facts=(
            (Trait.TOOL, row.tool),
            *interrupted,
            *sessions_by_active_hour.build_active_hour_facts(row.issued_at, row.settled_at),
        ),
        tally=None if still_open else hourly_call_and_decision_sums.build_tally_of_settled_call(workspace, row),
        problem=_get_truncation_problem(extract),
    )


def _build_indexed_decision(row: Any, workspace: int) -> IndexedText:
    by = ((Trait.DECIDED_BY, row.actor),) if row.actor_kind != ActorKind.MACHINE else ()
    facts = (*by, *sessions_by_active_hour.build_active_hour_facts(row.created_at))
    extract = text_extraction.extract_masked_decision_text(row)
    return IndexedText(
        row.session_id,
        workspace,
        row.pk,
        row.created_at,
        extract.text,
        facts=facts,
        tally=hourly_call_and_decision_sums.build_wait_tally_if_decided_by_person(workspace, row),
        problem=_get_truncation_problem(extract),
    )


def _build_indexed_session(row: Any, workspace: int) -> IndexedText:
    labels = tuple((Trait.LABEL, replace_unencodable_characters(label)) for label in deserialize_labels(row.labels))
    facts = (*labels, *sessions_by_active_hour.build_active_hour_facts(row.created_at))
    extract = text_extraction.extract_masked_session_text(row)
    return IndexedText(
        row.pk,
        workspace,
        row.pk,
        row.created_at,
        extract.text,
        facts=facts,
        problem=_get_truncation_problem(extract),
    )


_FOUND: Final[dict[Kind, Callable[[Any, int], IndexedText]]] = {
    Kind.MESSAGE: _build_indexed_message,
    Kind.CALL: _build_indexed_call,
    Kind.DECISION: _build_indexed_decision,
    Kind.SESSION: _build_indexed_session,
}
