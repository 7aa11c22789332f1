"""What there is to read for the index: the texts of the store, masked as their workspaces mask them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import F, QuerySet

from checkpoints.enums import ActorKind, CallStatus
from checkpoints.models import Decision, Message, Session, ToolCall, Workspace
from checkpoints.queries.sessions import labels_of
from harness_site.accounts import secrecy
from harness_site.rendering import masking
from harness_site.rendering.masking import Rules
from harness_site.search import active_days, extracting
from harness_site.search.leaving import SOURCES
from harness_site.search.models import Kind, Trait

#: Rows that are fetched at once.
_CHUNK: Final = 100
#: Of longer texts, fewer are held at once.
_CHARACTERS: Final = 10_000_000
#: A call in one of these will not change any more.
SETTLED_CALL: Final = frozenset(
    {CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.REJECTED, CallStatus.SUPERSEDED, CallStatus.DISCARDED}
)


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


def read(kind: Kind, keys: list[int]) -> tuple[list[Found], int]:
    """The texts of these rows, and how many of `keys` that were: the last ones wait where the texts are long."""
    found: list[Found] = []
    rules: dict[int, Rules | None] = {}
    taken = characters = 0
    while taken < len(keys) and characters < _CHARACTERS:
        chunk = _chunk(kind, keys[taken : taken + _CHUNK], rules)
        characters += sum(len(one.text) for one in chunk)
        found += chunk
        taken += _CHUNK
    return found, min(taken, len(keys))


def _chunk(kind: Kind, keys: list[int], rules: dict[int, Rules | None]) -> list[Found]:
    by_workspace: defaultdict[int, list[Any]] = defaultdict(list)
    for row in _rows(kind, keys):
        by_workspace[row.read_for].append(row)
    if unknown := by_workspace.keys() - rules.keys():
        there = Workspace.objects.select_related("masking").in_bulk(unknown)
        rules |= {pk: secrecy.rules_of(workspace) for pk, workspace in there.items()}
    found = []
    for workspace, theirs in by_workspace.items():
        with masking.reading(rules[workspace]):
            found += [_found(row, workspace) for row in theirs]
    return found


def _rows(kind: Kind, keys: list[int]) -> QuerySet[Any]:
    """`read_for` is the workspace; of messages and decisions it stands in their session's row."""
    beside = kind in {Kind.MESSAGE, Kind.DECISION}
    workspace = F("session__workspace" if beside else "workspace")
    rows: QuerySet[Any] = SOURCES[kind]._default_manager.annotate(read_for=workspace)
    return rows.filter(pk__in=keys).order_by("pk")


def _found(row: Message | ToolCall | Decision | Session, workspace: int) -> Found:
    if isinstance(row, Message):
        text = extracting.of_message(row.body, row.message_id)
        return Found(
            row.session_id, workspace, row.pk, text, position=row.position, facts=active_days.facts(row.created_at)
        )
    if isinstance(row, ToolCall):
        return _call(row, workspace)
    if isinstance(row, Decision):
        by = ((Trait.DECIDED_BY, row.actor),) if row.actor_kind != ActorKind.MACHINE else ()
        facts = (*by, *active_days.facts(row.created_at))
        return Found(row.session_id, workspace, row.pk, extracting.of_decision(row), facts=facts)
    labels = tuple((Trait.LABEL, label) for label in labels_of(row.labels))
    facts = (*labels, *active_days.facts(row.created_at))
    return Found(row.pk, workspace, row.pk, extracting.of_session(row), facts=facts)


def _call(row: ToolCall, workspace: int) -> Found:
    still_open = row.status not in SETTLED_CALL
    interrupted = ((Trait.INTERRUPTED, ""),) if row.interrupted_at is not None else ()
    facts = ((Trait.TOOL, row.tool), *interrupted, *active_days.facts(row.issued_at, row.settled_at))
    text = extracting.of_call(row)
    return Found(row.session_id, workspace, row.pk, text, revision=row.revision, open=still_open, facts=facts)
