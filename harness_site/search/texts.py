"""What there is to read for the index: the texts of the store, masked as their workspaces mask them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from checkpoints.enums import ActorKind, CallStatus
from checkpoints.models import Workspace
from checkpoints.queries.known import labels_of
from harness_site.accounts import call_secrets, secrecy
from harness_site.accounts.call_secrets import StoredSize
from harness_site.rendering import masking
from harness_site.rendering.safe_text import encodable
from harness_site.search import active_days, extracting, tool_days
from harness_site.search.extracting import Extract
from harness_site.search.leaving import SOURCES
from harness_site.search.models import Kind, Problem, Trait
from harness_site.search.tool_days import Tally

logger = logging.getLogger(__name__)

#: Of longer texts, fewer are held at once: a step is over in a moment, whatever the texts are.
_CHARACTERS: Final = 2_000_000
#: A call in one of these will not change any more.
SETTLED_CALL: Final = frozenset(
    {CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.REJECTED, CallStatus.SUPERSEDED, CallStatus.DISCARDED}
)
#: What is read of a row; of messages and decisions, the workspace stands in their session's row.
_FIELDS: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.MESSAGE: ("pk", "session_id", "message_id", "body", "position", "created_at"),
    Kind.CALL: (
        *("pk", "session_id", "call_id", "tool", "sentence", "args", "result", "error_type", "status", "revision"),
        *("issued_at", "settled_at", "interrupted_at"),
    ),
    Kind.DECISION: ("pk", "session_id", "actor", "actor_kind", "reason", "evidence", "result", "created_at"),
    Kind.SESSION: ("pk", "session_id", "title", "agent", "labels", "created_at"),
}
_WORKSPACE: Final = {
    Kind.MESSAGE: "session__workspace",
    Kind.CALL: "workspace",
    Kind.DECISION: "session__workspace",
    Kind.SESSION: "workspace",
}
#: What may be long.
_LONG: Final = {
    Kind.MESSAGE: ("body",),
    Kind.CALL: ("args", "result"),
    Kind.DECISION: ("evidence", "result"),
    Kind.SESSION: ("title",),
}


@dataclass(frozen=True, slots=True)
class Found:
    """One text of the store, ready for the index."""

    session: int
    workspace: int
    source: int
    text: str
    position: int | None = None
    revision: int = 0
    open: bool = False
    facts: tuple[tuple[Trait, str], ...] = ()
    #: Of a call that will not change any more, where it says something about its tool.
    tally: Tally | None = None
    problem: Problem | None = None


def sized(kind: Kind, rows: QuerySet[Any]) -> list[tuple[int, int]]:
    """The keys of these rows, and about how long their texts are."""
    size = sum((Coalesce(StoredSize(name), 0) for name in _LONG[kind][1:]), Coalesce(StoredSize(_LONG[kind][0]), 0))
    return list(rows.values_list("pk", size))


def fitting(rows: Sequence[tuple[int, int]]) -> list[int]:
    """The keys of as many of the first of these as may be held at once; of one at least."""
    keys: list[int] = []
    characters = 0
    for key, size in rows:
        characters += min(size, extracting.LONGEST)
        if keys and characters > _CHARACTERS:
            break
        keys.append(key)
    return keys


def read(kind: Kind, keys: list[int]) -> list[Found]:
    """The texts of these rows, in the order of their keys."""
    rows: QuerySet[Any] = SOURCES[kind]._default_manager.filter(pk__in=keys).annotate(read_for=F(_WORKSPACE[kind]))
    by_workspace: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows.values_list(*_FIELDS[kind], "read_for", named=True):
        by_workspace[row.read_for].append(row)
    there = Workspace.objects.select_related("masking").in_bulk(by_workspace)
    found: list[Found] = []
    for pk, theirs in by_workspace.items():
        rules = secrecy.rules_of(there[pk])
        with masking.reading(rules):
            known = call_secrets.of_sessions({_session_of(kind, row) for row in theirs})
        for row in theirs:
            with masking.reading(rules.knowing(known.get(_session_of(kind, row), frozenset()))):
                found.append(_found(kind, row, pk))
    return sorted(found, key=lambda one: one.source)


def _session_of(kind: Kind, row: Any) -> int:
    return int(row.pk if kind is Kind.SESSION else row.session_id)


def _found(kind: Kind, row: Any, workspace: int) -> Found:
    """What goes into the index of a row. One that cannot be read is in it without words: nobody finds it, and nobody
    waits for it."""
    try:
        return _FOUND[kind](row, workspace)
    except Exception:
        session = row.pk if kind == Kind.SESSION else row.session_id
        logger.exception("The %s %s of session %s is not in the search index.", kind.value, row.pk, session)
        position, revision = getattr(row, "position", None), getattr(row, "revision", 0)
        still_open = kind == Kind.CALL and row.status not in SETTLED_CALL
        return Found(session, workspace, row.pk, "", position, revision, still_open, problem=Problem.SKIPPED)


def _problem(extract: Extract) -> Problem | None:
    return None if extract.whole else Problem.CUT


def _message(row: Any, workspace: int) -> Found:
    extract = extracting.of_message(row.body, row.message_id)
    facts = active_days.facts(row.created_at)
    return Found(
        row.session_id,
        workspace,
        row.pk,
        extract.text,
        position=row.position,
        facts=facts,
        problem=_problem(extract),
    )


def _call(row: Any, workspace: int) -> Found:
    still_open, extract = row.status not in SETTLED_CALL, extracting.of_call(row)
    interrupted = ((Trait.INTERRUPTED, ""),) if row.interrupted_at is not None else ()
    return Found(
        row.session_id,
        workspace,
        row.pk,
        extract.text,
        revision=row.revision,
        open=still_open,
        facts=((Trait.TOOL, row.tool), *interrupted, *active_days.facts(row.issued_at, row.settled_at)),
        tally=None if still_open else tool_days.tally(workspace, row),
        problem=_problem(extract),
    )


def _decision(row: Any, workspace: int) -> Found:
    by = ((Trait.DECIDED_BY, row.actor),) if row.actor_kind != ActorKind.MACHINE else ()
    facts = (*by, *active_days.facts(row.created_at))
    extract = extracting.of_decision(row)
    return Found(row.session_id, workspace, row.pk, extract.text, facts=facts, problem=_problem(extract))


def _session(row: Any, workspace: int) -> Found:
    labels = tuple((Trait.LABEL, encodable(label)) for label in labels_of(row.labels))
    facts = (*labels, *active_days.facts(row.created_at))
    extract = extracting.of_session(row)
    return Found(row.pk, workspace, row.pk, extract.text, facts=facts, problem=_problem(extract))


_FOUND: Final[dict[Kind, Callable[[Any, int], Found]]] = {
    Kind.MESSAGE: _message,
    Kind.CALL: _call,
    Kind.DECISION: _decision,
    Kind.SESSION: _session,
}
