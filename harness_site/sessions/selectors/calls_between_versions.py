"""Calls that a session logged between two versions, and those that it issued between the times of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import attrgetter, or_
from typing import NamedTuple

from django.db.models import Q, QuerySet

from checkpoints.db import keyset_pagination
from checkpoints.enums import IMPORTED_MARK
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS, COPIED_CALLS_AFTER_FORK
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

    If `uncounted`, there are more than `COUNTED`, and `count` is `COUNTED`. `first_at_start`, which are not counted,
    are the oldest calls logged at the version before these, whose messages a later version may have saved.
    """

    first: tuple[CallRecord, ...] = ()
    count: int = 0
    uncounted: bool = False
    first_at_start: tuple[CallRecord, ...] = ()

    @property
    def further_call_count(self) -> int:
        return self.count - len(self.first)


def load_first_calls_logged_between_versions_and_count(
    session_pk: int, after: SavedVersion, upto: SavedVersion
) -> FirstCallsAndCount:
    """Load the calls logged at the versions after `after` up to `upto`, as the list of versions counts them."""
    session_calls = ToolCall.objects.filter(session=session_pk)
    calls = session_calls.filter(step__gt=after.version, step__lte=upto.version)
    at_start = session_calls.filter(step=after.version)
    rows = list(_query_first_calls(calls, at_start))
    records = call_records.load_decisions_and_build_verified_calls(rows, results=False)
    found = _count_and_shorten(calls, [record for record in records if record.step > after.version])
    return replace(found, first_at_start=tuple(record for record in records if record.step == after.version))


def load_first_calls_issued_between_versions_and_count(
    session_pk: int, after: SavedVersion | None, upto: SavedVersion
) -> FirstCallsAndCount:
    """Load the calls issued after the version `after` was saved (None: from the start) until `upto` was.

    A session that diverged from another one after a version has issued the calls logged at this version alone.
    """
    calls = ToolCall.objects.filter(build_calls_between_versions_condition(after, upto), session=session_pk)
    rows = list(_query_first_calls(calls))
    return _count_and_shorten(calls, call_records.load_decisions_and_build_verified_calls(rows, results=False))


def add_copies_in_fork(found: FirstCallsAndCount, fork_pk: int, originals: Sequence[CallRecord]) -> FirstCallsAndCount:
    """Add the copies that a fork has of calls of its original, which were issued before the fork was made.

    Completed calls that the original has made after the forked version are left out: they have not happened in the
    fork, besides those that people have decided there.

    Args:
        found: Calls that the fork has issued itself.
        fork_pk: Key of the session that may be a fork.
        originals: Calls of the session that may be its original.
    """
    places = {_get_place_and_time(record) for record in originals} - {_get_place_and_time(each) for each in found.first}
    if not places:
        return found
    not_in_fork = COPIED_CALLS_AFTER_FORK & Q(decisions=None)
    copied = ToolCall.objects.filter(COPIED_CALLS, session=fork_pk, call_id__in={place[0] for place in places})
    rows = list(_query_first_calls(copied.exclude(not_in_fork)))
    records = call_records.load_decisions_and_build_verified_calls(rows, results=False)
    copies = [record for record in records if _get_place_and_time(record) in places]
    first = sorted((*found.first, *copies), key=attrgetter("issued_at"))[:FIRST]
    return replace(found, first=tuple(first), count=found.count + len(copies))


def _get_place_and_time(record: CallRecord) -> tuple[str, int, datetime]:
    return record.call_id, record.attempt, record.issued_at


def _count_and_shorten(calls: QuerySet[ToolCall], first: Sequence[CallRecord]) -> FirstCallsAndCount:
    """Count `calls`, of which `first` are the oldest: without a query if there are no more than `FIRST`."""
    count = len(first) if len(first) <= FIRST else calls[: COUNTED + 1].count()
    return FirstCallsAndCount(tuple(first[:FIRST]), min(count, COUNTED), uncounted=count > COUNTED)


def build_calls_between_versions_condition(after: SavedVersion | None, upto: SavedVersion) -> Q:
    """Build the condition for calls issued after the version `after` was saved (None: from the start) until `upto` was.

    Calls of imported transcripts are selected by the version that has them, as a file may have no times; others by the
    time at which they were issued.
    """
    since, until = fill_open_range_ends(after and after.at, upto.at)
    issued_between = Q(issued_at__gt=since, issued_at__lte=until)
    saved_between = Q(step__gt=after.version if after else 0, step__lte=upto.version)
    imported = Q(side_effects=IMPORTED_MARK)
    return (~imported & issued_between) | (imported & saved_between)


def _query_first_calls(*selections: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """Query the oldest calls of each selection, one more than `FIRST`.

    Their keys are found first, so that not all columns of all calls are read and sorted.
    """
    oldest = keyset_pagination.build_oldest_first_ordering()
    pks = (Q(pk__in=calls.order_by(oldest).values("pk")[: FIRST + 1]) for calls in selections)
    return call_records.select_call_records_without_results().filter(reduce(or_, pks)).order_by(oldest)
