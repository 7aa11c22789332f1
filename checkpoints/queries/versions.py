"""The versions of a session, each with what it changed against the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from django.db.models import Count, Q, QuerySet

from checkpoints.enums import Phase
from checkpoints.models import Checkpoint, Segment, ToolCall
from checkpoints.queries import plans
from checkpoints.queries.plans import Change, Plan, StepChange
from checkpoints.queries.transcripts import Stretch, shared
from checkpoints.serde import money, parse

PAGE = 50
#: Versions to choose from.
CHOICES = 200
N = TypeVar("N", int, Decimal)


@dataclass(frozen=True, slots=True)
class Version:
    """One checkpoint without its transcript. `cost` (US dollars) and `tokens` count from the session's start; they
    are None where nothing was said or it cannot be read. `run_number` is None where no run wrote it."""

    version: int
    at: datetime
    phase: str
    run_number: int | None
    segment_id: int
    length: int
    plan: Plan | None
    cost: Decimal | None
    tokens: int | None

    @property
    def phase_label(self) -> str:
        return str(Phase(self.phase).label) if self.phase in Phase.values else self.phase


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version and what it changed against `previous`, the version before it that still exists. So many `calls` were
    begun between the two."""

    version: Version
    previous: Version | None
    added: int
    removed: int
    plan_changes: tuple[StepChange, ...]
    plan_changed: bool
    cost_delta: Decimal | None
    tokens_delta: int | None
    calls: int


@dataclass(frozen=True, slots=True)
class VersionPage:
    """Versions with the newest first. `before` is where the next page starts."""

    rows: tuple[VersionRow, ...]
    before: int | None


def page(session_pk: int, *, before: int | None = None, size: int = PAGE) -> VersionPage:
    found = Checkpoint.objects.filter(session=session_pk)
    if before is not None:
        found = found.filter(version__lt=before)
    versions = [read(row) for row in found.select_related("run").defer("payload").order_by("-version")[: size + 1]]
    tree = _tree(session_pk)
    pairs = list(zip(versions, [*versions[1:], None], strict=False))[:size]
    calls = _calls(session_pk, pairs)
    rows = tuple(_row(version, previous, tree, calls[version.version]) for version, previous in pairs)
    return VersionPage(rows, rows[-1].version.version if len(versions) > size else None)


def one(session_pk: int, version: int) -> Version | None:
    row = _one(session_pk, version).first()
    return read(row) if row else None


def _one(session: int, version: int) -> QuerySet[Checkpoint]:
    return Checkpoint.objects.filter(session=session, version=version).select_related("run").defer("payload")


def payload(session_pk: int, version: int) -> str | None:
    """What else a version was saved with, as canonical JSON text."""
    return _payload(session_pk, version).first()


def _payload(session: int, version: int) -> QuerySet[Checkpoint, str | None]:
    return Checkpoint.objects.filter(session=session, version=version).values_list("payload", flat=True)


def newest(session_pk: int) -> Version | None:
    row = _newest(session_pk).first()
    return read(row) if row else None


def _newest(session: int) -> QuerySet[Checkpoint]:
    found = Checkpoint.objects.filter(session=session).select_related("run").defer("payload")
    return found.order_by("-version")[:1]


def parted(session_pk: int, version: Version, shared: int) -> datetime | None:
    """When a session was last saved with no more than `shared` messages, up to `version`; None where it never was."""
    found = Checkpoint.objects.filter(session=session_pk, version__lte=version.version, length__lte=shared)
    return found.order_by("-version").values_list("created_at", flat=True).first()


def numbers(session_pk: int, *, around: int) -> tuple[int, ...]:
    """Version numbers to choose from, newest first: the newest ones, and always `around`."""
    newest = list(_numbers(session_pk))
    return tuple(newest if around in newest else [*newest, around])


def _numbers(session: int) -> QuerySet[Checkpoint, int]:
    found = Checkpoint.objects.filter(session=session).order_by("-version")
    return found.values_list("version", flat=True)[:CHOICES]


def read(row: Checkpoint) -> Version:
    return Version(
        version=row.version,
        at=row.created_at,
        phase=row.phase,
        run_number=None if row.run is None else row.run.number,
        segment_id=row.segment_id,
        length=row.length,
        plan=plans.read(row.plan),
        cost=cost(row.budget_spent_usd),
        tokens=tokens(row.usage),
    )


def _calls(session_pk: int, pairs: Sequence[tuple[Version, Version | None]]) -> dict[int, int]:
    """How many calls were begun between a version and the one before it, by its number; counted by the database."""
    asked = {}
    for version, previous in pairs:
        begun = Q(issued_at__lte=version.at)
        if previous is not None:
            begun &= Q(issued_at__gt=previous.at)
        asked[f"v{version.version}"] = Count("pk", filter=begun)
    found = ToolCall.objects.filter(session=session_pk).aggregate(**asked)
    return {int(name.removeprefix("v")): count for name, count in found.items()}


def _row(
    version: Version, previous: Version | None, tree: Mapping[int, tuple[int | None, int]], calls: int
) -> VersionRow:
    if previous is None:
        planned = version.plan is not None
        return VersionRow(version, None, version.length, 0, (), planned, version.cost, version.tokens, calls)
    common = _common(previous, version, tree)
    changes = plans.compare(previous.plan, version.plan)
    return VersionRow(
        version=version,
        previous=previous,
        added=version.length - common,
        removed=previous.length - common,
        plan_changes=tuple(change for change in changes if change.change is not Change.SAME),
        plan_changed=previous.plan != version.plan,
        cost_delta=_delta(previous.cost, version.cost),
        tokens_delta=_delta(previous.tokens, version.tokens),
        calls=calls,
    )


def _delta(old: N | None, new: N | None) -> N | None:
    return None if old is None or new is None else new - old


def _common(old: Version, new: Version, tree: Mapping[int, tuple[int | None, int]]) -> int:
    """How many messages two versions share."""
    if old.segment_id == new.segment_id:
        return min(old.length, new.length)
    return shared(_stretches(tree, old), _stretches(tree, new))


def _tree(session_pk: int) -> dict[int, tuple[int | None, int]]:
    """Parent and branching point of each segment of the session."""
    return {pk: (parent, length) for pk, parent, length in _segments(session_pk)}


def _segments(session: int) -> QuerySet[Segment, tuple[int, int | None, int]]:
    return Segment.objects.filter(session=session).values_list("pk", "parent", "parent_length")


def _stretches(tree: Mapping[int, tuple[int | None, int]], version: Version) -> list[Stretch]:
    """As `transcripts.stretches`, from memory. A parent that belongs to another session counts as a root."""
    found: list[Stretch] = []
    segment: int | None = version.segment_id
    high = version.length
    while segment is not None:
        parent, low = tree.get(segment, (None, 0))
        if low < high:
            found.append(Stretch(segment, low, high))
        segment, high = parent, min(low, high)
    return found[::-1]


def cost(stored: str) -> Decimal | None:
    try:
        return money.as_decimal(stored)
    except (ValueError, InvalidOperation):
        return None


def tokens(stored: str | None) -> int | None:
    """The total that a usage names, or the sum of what went in and what came out."""
    try:
        usage: Any = parse(stored) if stored else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(usage, dict):
        return None
    total = usage.get("total_tokens")
    counts = [total] if isinstance(total, int) else [usage.get(key) for key in ("input_tokens", "output_tokens")]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if known else None
