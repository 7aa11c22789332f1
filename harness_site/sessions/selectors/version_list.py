"""Versions of a session, each with its changes since the previous one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, TypeVar

from django.db.models import BooleanField, Case, Count, F, Q, QuerySet, When
from django.utils.translation import gettext as _

from checkpoints.enums import IMPORTED_RUN_HOST, CostBasis, Phase
from checkpoints.formats import money_amount_codec, parse_json, parse_message_parts
from checkpoints.formats.token_counts import TokenCounts, parse_token_counts
from checkpoints.models import Checkpoint, Segment, ToolCall
from checkpoints.models.run import FORK_RUN_NUMBER
from checkpoints.models.tool_calls_and_results import COPIED_CALLS_AFTER_FORK
from checkpoints.models.translated_enum_choices import translate_label
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.sessions import plan_steps_and_changes
from harness_site.sessions.plan_steps_and_changes import Plan, StepChange, StepChangeKind
from harness_site.sessions.selectors import message_windows
from harness_site.sessions.selectors.calls_between_versions import SavedVersion
from harness_site.sessions.selectors.message_windows import SegmentRange, count_shared_messages

PAGE = 30
#: Maximum number of versions to choose from.
CHOICES = 200
#: Longest message, in characters, that is compared with the one that it replaced.
_LONGEST_COMPARED_BODY: Final = 50_000
N = TypeVar("N", int, Decimal)


@dataclass(frozen=True, slots=True)
class Version:
    """One checkpoint without its transcript.

    `cost` (US dollars, None if unknown or unreadable) and `token_counts` are totals since the start of the session.
    `run_number` is None if the version was saved without a run, and `run_host` is the machine of the run.
    """

    version: int
    at: datetime
    phase: str
    run_number: int | None
    run_host: str
    segment_id: int
    length: int
    plan: Plan | None
    cost: Decimal | None
    token_counts: TokenCounts
    run_started_at: datetime | None = None

    @property
    def happened_before_its_run(self) -> bool:
        """Whether a framework's transcript had it before the run that saved it started."""
        if self.run_started_at is None or self.is_copied or self.is_imported:
            return False
        return self.at < self.run_started_at

    @property
    def tokens(self) -> int | None:
        """All tokens since the start of the session; None if unknown or unreadable."""
        return self.token_counts.total

    @property
    def number_and_save_time(self) -> SavedVersion:
        return SavedVersion(self.version, self.at)

    @property
    def phase_label(self) -> str:
        """The phase in which the version was saved; one that a fork has copied was saved when the fork was created."""
        if self.is_copied:
            return _("Forked")
        return self.stored_phase_label

    @property
    def stored_phase_label(self) -> str:
        """The phase from which a run continues, which a fork has copied with its first version."""
        return str(translate_label(Phase(self.phase))) if self.phase in Phase.values else self.phase

    @property
    def is_copied(self) -> bool:
        """Whether a fork has copied this version from its original."""
        return self.run_number == FORK_RUN_NUMBER and not self.is_imported

    @property
    def is_imported(self) -> bool:
        return self.run_host == IMPORTED_RUN_HOST


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version with its changes since `previous`, the nearest earlier version that exists.

    `calls` is the number of calls logged at this version, as the list of calls says, and `tools` are their tools, each
    with the number of its calls, those with most calls first. Calls logged at a version that is no longer stored, or
    before the first one, are those of the next version. They are without the `stored_results` that a fork has of later
    calls of its original, because in the fork these calls have not happened.

    `tokens_delta` is None if `have_tokens_fallen`, because a count that is lower than before makes what the version
    used unknown. `is_answer_continued` says that the removed message is one that a longer one with the same beginning
    has replaced.
    """

    version: Version
    previous: Version | None
    added: int
    removed: int
    plan_changes: tuple[StepChange, ...]
    plan_changed: bool
    cost_delta: Decimal | None
    tokens_delta: int | None
    calls: int
    tools: tuple[tuple[str, int], ...] = ()
    stored_results: int = 0
    have_tokens_fallen: bool = False
    is_answer_continued: bool = False


@dataclass(frozen=True, slots=True)
class VersionPage:
    """A page of versions, newest first. `before` is the cursor of the next page."""

    rows: tuple[VersionRow, ...]
    before: int | None


def load_version_page(session_pk: int, *, before: int | None = None, size: int = PAGE) -> VersionPage:
    """Load a page of versions, which starts before the version `before`. Raises `IntegrityError`."""
    checkpoints = _query_versions(session_pk)
    if before is not None:
        checkpoints = checkpoints.filter(version__lt=before)
    versions = [_build_verified_version(row) for row in checkpoints.order_by("-version")[: size + 1]]
    tree = _load_segment_tree(session_pk)
    pairs = list(zip(versions, [*versions[1:], None], strict=False))[:size]
    counts = _count_calls_by_version_and_tool(session_pk, pairs)
    rows = [_build_version_row(version, previous, tree, counts[version.version]) for version, previous in pairs]
    rows = _mark_continued_answers(rows, tree)
    return VersionPage(tuple(rows), rows[-1].version.version if len(versions) > size else None)


def load_version(session_pk: int, version: int) -> Version | None:
    row = _query_versions(session_pk).filter(version=version).first()
    return _build_verified_version(row) if row else None


def load_two_versions_with_payloads(
    first: tuple[int, int], second: tuple[int, int]
) -> tuple[tuple[Version, str | None], tuple[Version, str | None]] | None:
    """Load two versions, each named by session and number, with the additional data saved with them as canonical JSON
    text.

    None if one of them does not exist. Raises `IntegrityError`.
    """
    (first_session, first_version), (second_session, second_version) = first, second
    rows = _select_versions_with_facts().filter(
        Q(session=first_session, version=first_version) | Q(session=second_session, version=second_version)
    )
    found = {(row.session_id, row.version): (_build_verified_version(row), row.payload) for row in rows}
    return (found[first], found[second]) if first in found and second in found else None


def _build_verified_version(row: Checkpoint) -> Version:
    """Build a version. Raises `IntegrityError` for one that was altered."""
    if get_seal_keys() is not None:
        row_seals.verify_row(row)
    return _build_version(row)


def _query_versions(session: int, *, upto: int | None = None) -> QuerySet[Checkpoint]:
    """Query versions, with their payloads only if a seal, which covers them, has to be verified."""
    has_seals = get_seal_keys() is not None
    checkpoints = _select_versions_with_facts() if has_seals else _select_versions_with_facts_without_payloads()
    return checkpoints.filter(session=session, **({} if upto is None else {"version__lte": upto}))


@cache
def _select_versions_with_facts_without_payloads() -> QuerySet[Checkpoint]:
    return _select_versions_with_facts().defer("payload")


@cache
def _select_versions_with_facts() -> QuerySet[Checkpoint]:
    # Annotations, because the complete rows of session and run have several times as many columns as the version.
    return Checkpoint.objects.annotate(
        run_number=F("run__number"),
        run_host=F("run__host"),
        run_started_at=F("run__started_at"),
        cost_basis=F("session__cost_basis"),
    )


def load_newest_version(session_pk: int, *, upto: int | None = None) -> Version | None:
    """Load the newest version, or the newest one up to the version `upto`. Raises `IntegrityError`."""
    row = next(iter(_query_newest_version(session_pk, upto=upto)), None)
    return _build_verified_version(row) if row else None


def find_newest_version_number_up_to(session_pk: int, version: int) -> int | None:
    """Return the number of the newest version up to this one; None if there is none."""
    numbers = _select_version_numbers_newest_first().filter(session=session_pk, version__lte=version)
    return next(iter(numbers[:1]), None)


def _query_newest_version(session: int, *, upto: int | None = None) -> QuerySet[Checkpoint]:
    return _query_versions(session, upto=upto).order_by("-version")[:1]


def find_newest_version_number_until(session_pk: int, time: datetime | None) -> int | None:
    """Return the number of the newest version that was saved until a time, or of the newest one; None without one."""
    checkpoints = Checkpoint.objects.filter(session=session_pk)
    saved = checkpoints if time is None else checkpoints.filter(created_at__lte=time)
    return saved.order_by("-version").values_list("version", flat=True).first()


def find_last_version_within_shared_messages(session_pk: int, version: Version, shared: int) -> SavedVersion | None:
    """Return the last version up to `version` that has at most `shared` messages; None without one."""
    checkpoints = Checkpoint.objects.filter(session=session_pk, version__lte=version.version, length__lte=shared)
    row = checkpoints.order_by("-version").values_list("version", "created_at").first()
    return None if row is None else SavedVersion(*row)


def list_version_choices(session_pk: int, *, included: int) -> tuple[int, ...]:
    """List version numbers to choose from, newest first, always with the version `included`."""
    newest = list(_query_newest_version_numbers(session_pk))
    return tuple(newest if included in newest else [*newest, included])


def _query_newest_version_numbers(session: int) -> QuerySet[Checkpoint, int]:
    return _select_version_numbers_newest_first().filter(session=session)[:CHOICES]


@cache
def _select_version_numbers_newest_first() -> QuerySet[Checkpoint, int]:
    return Checkpoint.objects.order_by("-version").values_list("version", flat=True)


def _build_version(row: Checkpoint) -> Version:
    return Version(
        version=row.version,
        at=row.created_at,
        phase=row.phase,
        run_number=row.run_number,  # type: ignore[attr-defined]
        run_host=row.run_host or "",  # type: ignore[attr-defined]
        segment_id=row.segment_id,
        length=row.length,
        plan=plan_steps_and_changes.parse_checkpoint_plan(row.plan),
        cost=None if row.cost_basis == CostBasis.UNKNOWN else parse_cost(row.budget_spent_usd),  # type: ignore[attr-defined]
        token_counts=_parse_tokens(row.usage),
        run_started_at=row.run_started_at,  # type: ignore[attr-defined]
    )


@dataclass(frozen=True, slots=True)
class _CallCounts:
    """Numbers of the calls of a version as in `VersionRow`."""

    tools: tuple[tuple[str, int], ...]
    stored_results: int


def _count_calls_by_version_and_tool(
    session_pk: int, pairs: Sequence[tuple[Version, Version | None]]
) -> dict[int, _CallCounts]:
    """Count in the database the calls of each tool logged at each version, or after its predecessor.

    Returns the counts by version number, in which the tools with most calls come first.
    """
    counts = {
        f"v{version.version}": Count(
            "pk",
            filter=Q(step__lte=version.version) & (Q(step__gt=previous.version) if previous else Q()),
        )
        for version, previous in pairs
    }
    is_after_fork = Case(When(COPIED_CALLS_AFTER_FORK, then=True), default=False, output_field=BooleanField())
    calls: QuerySet[Any, Any] = ToolCall.objects.filter(session=session_pk).order_by()
    calls = calls.annotate(is_after_fork=is_after_fork).values("tool", "is_after_fork")
    rows = list(calls.annotate(**counts)) if counts else []
    return {
        version.version: _CallCounts(
            tuple(
                sorted(
                    (
                        (row["tool"], row[f"v{version.version}"])
                        for row in rows
                        if row[f"v{version.version}"] and not row["is_after_fork"]
                    ),
                    key=lambda pair: (-pair[1], pair[0]),
                )
            ),
            sum(row[f"v{version.version}"] for row in rows if row["is_after_fork"]),
        )
        for version, _previous in pairs
    }


def _build_version_row(
    version: Version,
    previous: Version | None,
    tree: Mapping[int, tuple[int | None, int]],
    counts: _CallCounts,
) -> VersionRow:
    tools, stored = counts.tools, counts.stored_results
    calls = sum(number for _tool, number in tools)
    if previous is None:
        planned = version.plan is not None
        cost, tokens = version.cost, version.tokens
        return VersionRow(version, None, version.length, 0, (), planned, cost, tokens, calls, tools, stored)
    common = _count_shared_messages(previous, version, tree)
    changes = plan_steps_and_changes.compare_plan_steps(previous.plan, version.plan)
    return VersionRow(
        version=version,
        previous=previous,
        added=version.length - common,
        removed=previous.length - common,
        plan_changes=tuple(change for change in changes if change.change is not StepChangeKind.SAME),
        plan_changed=previous.plan != version.plan,
        cost_delta=_compute_delta(previous.cost, version.cost),
        tokens_delta=version.token_counts.subtract(previous.token_counts).total,
        have_tokens_fallen=version.token_counts.has_fallen_since(previous.token_counts),
        calls=calls,
        tools=tools,
        stored_results=stored,
    )


def _mark_continued_answers(rows: Iterable[VersionRow], tree: Mapping[int, tuple[int | None, int]]) -> list[VersionRow]:
    """Mark the rows whose version only continues the last message of the version before it."""
    places = {
        row.version.version: (
            _find_segment_and_position(tree, row.previous, row.previous.length - 1),
            _find_segment_and_position(tree, row.version, row.previous.length - 1),
        )
        for row in rows
        if row.previous is not None and row.removed == 1 and row.added
    }
    bodies = message_windows.load_unverified_ids_and_bodies_by_place(
        {place for pair in places.values() for place in pair}, longest=_LONGEST_COMPARED_BODY
    )
    continued = {
        version
        for version, (before, after) in places.items()
        if (grown := bodies.get(after)) is not None
        and message_windows.has_message_only_grown(
            bodies.get(before), grown[0], parse_message_parts.parse_message_parts(grown[1])
        )
    }
    return [replace(row, is_answer_continued=row.version.version in continued) for row in rows]


def _find_segment_and_position(
    tree: Mapping[int, tuple[int | None, int]], version: Version, position: int
) -> tuple[int, int]:
    """Find the segment that has the message of a version at a position; returns both."""
    ranges = _compute_segment_ranges(tree, version)
    segment = next((each.segment_id for each in ranges if each.first <= position < each.upto), version.segment_id)
    return segment, position


def _compute_delta(old: N | None, new: N | None) -> N | None:
    return None if old is None or new is None else new - old


def _count_shared_messages(old: Version, new: Version, tree: Mapping[int, tuple[int | None, int]]) -> int:
    """Count the messages that two versions share."""
    if old.segment_id == new.segment_id:
        return min(old.length, new.length)
    return count_shared_messages(_compute_segment_ranges(tree, old), _compute_segment_ranges(tree, new))


def _load_segment_tree(session_pk: int) -> dict[int, tuple[int | None, int]]:
    """Load the parent and the branching point of each segment of the session."""
    return {pk: (parent, length) for pk, parent, length in _query_segments(session_pk)}


def _query_segments(session: int) -> QuerySet[Segment, tuple[int, int | None, int]]:
    return Segment.objects.filter(session=session).values_list("pk", "parent", "parent_length")


def _compute_segment_ranges(tree: Mapping[int, tuple[int | None, int]], version: Version) -> list[SegmentRange]:
    """Resolve the ranges of a version from memory, as `load_segment_ranges` does with a query.

    A parent in another session counts as a root.
    """
    ranges: list[SegmentRange] = []
    segment: int | None = version.segment_id
    high = version.length
    while segment is not None:
        parent, low = tree.get(segment, (None, 0))
        if low < high:
            ranges.append(SegmentRange(segment, low, high))
        segment, high = parent, min(low, high)
    return ranges[::-1]


def parse_cost(stored: str) -> Decimal | None:
    try:
        return money_amount_codec.round_amount_to_millionth(stored)
    except (ValueError, InvalidOperation):
        return None


def load_tokens_added_by_versions(
    session_pk: int, versions: Collection[int], *, is_fork: bool
) -> dict[int, TokenCounts]:
    """Return what each of these versions added to the tokens of its session, in one query.

    A version whose totals are lower than those before it has no counts: what it added is unknown. Versions
    that state no tokens or added none are left out, and so are those whose predecessor is gone, and the first one of a
    fork, which has the tokens of its original.
    """
    if not versions:
        return {}
    numbers = {*versions, *(version - 1 for version in versions)}
    rows = Checkpoint.objects.filter(session=session_pk, version__in=numbers, usage__isnull=False)
    counts = {version: _parse_tokens(usage) for version, usage in rows.values_list("version", "usage")}
    totals = {
        version: (counts.get(version - 1, TokenCounts()), counts[version])
        for version in versions
        if version in counts and ((version == 1 and not is_fork) or version - 1 in counts)
    }
    return {
        version: added
        for version, (before, after) in totals.items()
        if (added := after.subtract(before)).total or after.has_fallen_since(before)
    }


def parse_total_tokens(stored: str | None) -> int | None:
    """Return all tokens of a stored usage object, those of the cache included; None if it states none."""
    return _parse_tokens(stored).total


def _parse_tokens(stored: str | None) -> TokenCounts:
    try:
        usage: Any = parse_json(stored) if stored else None
    except (ValueError, RecursionError):
        return TokenCounts()
    return parse_token_counts(usage)
