"""Queries for the rows of a timeline as plain tuples, as there may be thousands; `most` limits their number."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, F, Max, Min, Q, QuerySet, TextField, When
from django.db.models.functions import Cast

from checkpoints.db import keyset_pagination
from checkpoints.db.keyset_pagination import cast_field_to_text
from checkpoints.enums import CallStatus, RunStatus
from checkpoints.models import Checkpoint, Decision, PausedTask, PeerCall, Run, ToolCall
from harness_site.core.epoch_microseconds import Instant
from harness_site.sessions.timeline.selectors import run_lanes


def _build_overlap_condition(since: datetime | None, until: datetime | None, begin: str, end: str) -> Q:
    """Build the condition for rows that begin before the end of a range and end after its start, or not yet.

    An open end has no condition: the database would test it for thousands of rows.
    """
    begins_before_end = Q() if until is None else Q(**{f"{begin}__lte": until})
    ends_after_start = Q() if since is None else Q(**{f"{end}__gte": since}) | Q(**{f"{end}__isnull": True})
    return begins_before_end & ends_after_start


def build_saved_between_condition(since: datetime | None, until: datetime | None) -> Q:
    """Build the condition for versions that were saved in a range."""
    bounds = {"created_at__gte": since, "created_at__lte": until}
    return Q(**{name: moment for name, moment in bounds.items() if moment is not None})


def query_newest_calls_in_time(
    session: int, since: datetime | None, until: datetime | None, *, most: int, left_out: Q | None = None
) -> QuerySet[ToolCall, tuple[Any, ...]]:
    overlap = _build_overlap_condition(since, until, "issued_at", "settled_at")
    calls = run_lanes.select_call_rows_newest_first().filter(overlap, session=session)
    return (calls if left_out is None else calls.filter(~left_out))[:most]


@dataclass(frozen=True, slots=True)
class CallGroupSize:
    """How far apart in time and in steps of its session the calls of one group may begin."""

    microseconds: int
    steps: int


class _TextOfGroupKey(Cast):
    """A column by which a query groups as text, cast once for each group: a cast is else computed, and grouped by, for
    each row."""

    def get_group_by_cols(self) -> list[Any]:
        return [column for source in self.get_source_expressions() for column in source.get_group_by_cols()]


def query_calls_in_time_grouping_short_ones(
    session: int,
    since: datetime | None,
    until: datetime | None,
    size: CallGroupSize,
    decided: Collection[int],
    *,
    most: int,
    left_out: Q | None = None,
) -> QuerySet[ToolCall, tuple[Any, ...]]:
    """Query the columns of `LoggedCallRow`, with short completed calls in groups, those that begin last first.

    The calls of a group belong to one run. Calls with the keys `decided`, and those that took longer than a group,
    failed, were interrupted or have no outcome yet are groups of one.
    """
    has_succeeded = Q(status=CallStatus.COMPLETED, interrupted_at=None) & (Q(exit_code=None) | Q(exit_code=0))
    is_grouped = has_succeeded & Q(took__lt=size.microseconds) & ~Q(pk__in=decided)
    calls = ToolCall.objects.filter(_build_overlap_condition(since, until, "issued_at", "settled_at"), session=session)
    if left_out is not None:
        calls = calls.filter(~left_out)
    groups = (
        calls.alias(took=Instant("settled_at") - Instant("issued_at"))
        .annotate(
            single=Case(When(is_grouped, then=None), default="pk"),
            period=Instant("issued_at") / size.microseconds,
            stage=F("step") / size.steps,
        )
        .values("run", "single", "period", "stage")
        .annotate(
            first=Min("pk"),
            any_tool=Min("tool"),
            any_status=Min("status"),
            start=Instant(Min("issued_at")),
            interrupted=Instant(Max("interrupted_at")),
            end=Instant(Max("settled_at")),
            any_code=Max("exit_code"),
            number=Count("*"),
        )
    )
    run = _TextOfGroupKey("run", TextField())
    columns = "first", run, "any_tool", "any_status", "start", "interrupted", "end", "any_code", "number"
    return groups.order_by("-start", "-first").values_list(*columns)[:most]


def query_agent_calls_in_time(
    session: int, since: datetime | None, until: datetime | None, *, most: int
) -> QuerySet[PeerCall, tuple[Any, ...]]:
    """Query run, peer, status, start and end of calls to other agents."""
    overlap = _build_overlap_condition(since, until, "created_at", "settled_at")
    calls = PeerCall.objects.filter(overlap, session=session).order_by(keyset_pagination.build_newest_first_ordering())[
        :most
    ]
    return calls.values_list(
        cast_field_to_text("join__task__run"), "peer", "status", Instant("created_at"), Instant("settled_at")
    )


def query_newest_pauses(session: int, *, most: int) -> QuerySet[PausedTask, tuple[str, int, int | None]]:
    pauses = PausedTask.objects.filter(session=session).order_by("-pk")[:most]
    return pauses.values_list(cast_field_to_text("run"), Instant("paused_at"), Instant("taken_at"))


def query_newest_decisions(session: int, *, most: int) -> QuerySet[Decision, tuple[Any, ...]]:
    """Query the newest decisions: call key, call id, tool, kind, final, actor, actor kind, number of people who
    have to agree, and time."""
    return _select_decisions_newest_first().filter(session=session)[:most]


@cache
def _select_decisions_newest_first() -> QuerySet[Decision, tuple[Any, ...]]:
    decisions = Decision.objects.order_by(keyset_pagination.build_newest_first_ordering())
    call = "tool_call", "tool_call__call_id", "tool_call__tool"
    columns = *call, "kind", "final", "actor", "actor_kind", "tool_call__approvals", Instant("created_at")
    return decisions.values_list(*columns)


def query_newest_runs(session: int, *, most: int) -> QuerySet[Run]:
    return run_lanes.select_lane_runs_newest_first().filter(session=session)[:most]


def query_newest_runs_in_time(
    session: int, since: datetime, until: datetime, involved: list[UUID], *, most: int
) -> QuerySet[Run]:
    is_alive = Q(ended_at__isnull=False) | Q(heartbeat_at__gte=since) | Q(status=RunStatus.RUNNING)
    overlap = _build_overlap_condition(since, until, "started_at", "ended_at")
    runs = run_lanes.select_lane_runs_newest_first().filter((overlap & is_alive) | Q(pk__in=involved), session=session)
    return runs[:most]


def query_newest_versions_in_time(
    session: int, since: datetime | None, until: datetime | None, *, most: int
) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    versions = run_lanes.select_version_rows_newest_first().filter(
        build_saved_between_condition(since, until), session=session
    )
    return versions[:most]


def query_last_version_before(session: int, moment: datetime) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return run_lanes.select_version_rows_newest_first().filter(session=session, created_at__lt=moment)[:1]


def query_first_version_after(session: int, moment: datetime) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return (
        run_lanes.select_version_rows_newest_first()
        .filter(session=session, created_at__gt=moment)
        .order_by("version")[:1]
    )
