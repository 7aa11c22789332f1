"""Versions of a session, each with its changes since the previous one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, TypeVar

from django.db.models import BooleanField, Case, Count, Q, QuerySet, When

from checkpoints.formats import parse_message_parts
from checkpoints.formats.token_counts import TokenCounts
from checkpoints.models import Checkpoint, Segment, ToolCall
from harness_site.sessions import plan_steps_and_changes
from harness_site.sessions.plan_steps_and_changes import StepChange, StepChangeKind
from harness_site.sessions.selectors import calls_of_original_after_fork, transcript_message_queries
from harness_site.sessions.selectors.transcript_message_queries import SegmentRange, count_shared_messages
from harness_site.sessions.selectors.version_lookup import (
    Version,
    build_verified_version,
    parse_stored_token_counts,
    query_versions,
)

PAGE = 30
#: Longest message, in characters, that is compared with the one that it replaced.
_LONGEST_COMPARED_BODY: Final = 50_000
N = TypeVar("N", int, Decimal)


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


def load_version_page(
    session_pk: int, *, before: int | None = None, size: int = PAGE, may_have_copied_calls: bool = True
) -> VersionPage:
    """Load a page of versions, which starts before the version `before`. Raises `IntegrityError`.

    Without `may_have_copied_calls`, the session is known to be no fork.
    """
    checkpoints = query_versions(session_pk)
    if before is not None:
        checkpoints = checkpoints.filter(version__lt=before)
    versions = [build_verified_version(row) for row in checkpoints.order_by("-version")[: size + 1]]
    tree = _load_segment_tree(session_pk)
    pairs = list(zip(versions, [*versions[1:], None], strict=False))[:size]
    counts = _count_calls_by_version_and_tool(session_pk, pairs, may_have_copied_calls=may_have_copied_calls)
    rows = [_build_version_row(version, previous, tree, counts[version.version]) for version, previous in pairs]
    rows = _mark_continued_answers(rows, tree)
    return VersionPage(tuple(rows), rows[-1].version.version if len(versions) > size else None)


@dataclass(frozen=True, slots=True)
class _CallCounts:
    """Numbers of the calls of a version as in `VersionRow`."""

    tools: tuple[tuple[str, int], ...]
    stored_results: int


def _count_calls_by_version_and_tool(
    session_pk: int, pairs: Sequence[tuple[Version, Version | None]], *, may_have_copied_calls: bool
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
    after_fork = calls_of_original_after_fork.build_condition_of_calls_after_fork(
        session_pk, may_have_copied_calls=may_have_copied_calls
    )
    is_after_fork = Case(When(after_fork, then=True), default=False, output_field=BooleanField())
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
    bodies = transcript_message_queries.load_unverified_ids_and_bodies_by_place(
        {place for pair in places.values() for place in pair}, longest=_LONGEST_COMPARED_BODY
    )
    continued = {
        version
        for version, (before, after) in places.items()
        if (grown := bodies.get(after)) is not None
        and transcript_message_queries.has_message_only_grown(
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
    counts = {version: parse_stored_token_counts(usage) for version, usage in rows.values_list("version", "usage")}
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
