"""Calls that a session issued between two versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q, QuerySet

from checkpoints.db import keyset_pagination
from checkpoints.enums import IMPORTED_MARK
from checkpoints.models import ToolCall
from harness_site.core.epoch_microseconds import fill_open_range_ends
from harness_site.sessions.selectors import call_records
from harness_site.sessions.selectors.call_records import CallRecord

#: Maximum numbers of calls read and counted.
FIRST = 20
COUNTED = 1000


class SavedVersion(NamedTuple):
    """Number of a version and the time when it was saved."""

    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class FirstCallsAndCount:
    """The oldest `FIRST` calls without their results, and the number of all.

    If `uncounted`, there are more than `COUNTED`, and `count` is `COUNTED`.
    """

    first: tuple[CallRecord, ...] = ()
    count: int = 0
    uncounted: bool = False

    @property
    def further_call_count(self) -> int:
        return self.count - len(self.first)


def load_first_calls_between_versions_and_count(
    session_pk: int, after: SavedVersion | None, upto: SavedVersion
) -> FirstCallsAndCount:
    """Load the calls of a session after the version `after` (None: from the start) up to the version `upto`."""
    calls = ToolCall.objects.filter(build_calls_between_versions_condition(after, upto), session=session_pk)
    rows = list(_query_first_calls(calls))
    count = len(rows) if len(rows) <= FIRST else calls[: COUNTED + 1].count()
    first = call_records.load_decisions_and_build_verified_calls(rows[:FIRST], results=False)
    return FirstCallsAndCount(first, min(count, COUNTED), uncounted=count > COUNTED)


def build_calls_between_versions_condition(after: SavedVersion | None, upto: SavedVersion) -> Q:
    """Build the condition for calls after the version `after` (None: from the start) up to the version `upto`.

    Calls of imported transcripts are selected by the version that has them, as a file may have no times; others by the
    time at which they were issued.
    """
    since, until = fill_open_range_ends(after and after.at, upto.at)
    issued_between = Q(issued_at__gt=since, issued_at__lte=until)
    saved_between = Q(step__gt=after.version if after else 0, step__lte=upto.version)
    imported = Q(side_effects=IMPORTED_MARK)
    return (~imported & issued_between) | (imported & saved_between)


def _query_first_calls(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """Query the oldest calls. Their keys are found first, so that not all columns of all calls are read and sorted."""
    oldest = keyset_pagination.build_oldest_first_ordering()
    first = calls.order_by(oldest).values("pk")[: FIRST + 1]
    return call_records.select_call_records_without_results().filter(pk__in=first).order_by(oldest)
