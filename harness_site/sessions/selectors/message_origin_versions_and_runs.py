"""Origins of the messages in a window: segments, first versions and runs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from django.db.models import Min, QuerySet

from checkpoints.enums import IMPORTED_RUN_HOST
from checkpoints.models import Checkpoint, Run, Segment
from checkpoints.models.run import FORK_RUN_NUMBER
from harness_site.sessions.selectors.transcript_message_queries import StoredMessage

#: Upper bound of run numbers (32-bit integer).
_MAX_RUN_NUMBER: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a message; `run_number` is None for a version that was saved without a run."""

    version: int
    run_number: int | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    number: int
    status: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    ended_at: datetime | None

    @property
    def stands_for_fork(self) -> bool:
        """Whether no process was this run: it has what a fork has copied from its original."""
        return self.number == FORK_RUN_NUMBER and self.host != IMPORTED_RUN_HOST

    @property
    def is_outside_of_runs(self) -> bool:
        """Whether no process was this run: it has the calls that were read from the transcript of a framework."""
        return self.number <= FORK_RUN_NUMBER and self.host == IMPORTED_RUN_HOST


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    parent_id: int | None
    parent_length: int
    parent_session: int | None


def load_segments_of_messages(messages: Sequence[StoredMessage]) -> dict[int, SegmentFacts]:
    if not messages:
        return {}
    rows = _query_segments(sorted({message.segment_id for message in messages}))
    return {pk: SegmentFacts(*facts) for pk, *facts in rows}


def _query_segments(pks: list[int]) -> QuerySet[Segment, tuple[Any, ...]]:
    return _select_segment_facts().filter(pk__in=pks)


@cache
def _select_segment_facts() -> QuerySet[Segment, tuple[Any, ...]]:
    return Segment.objects.values_list("pk", "parent", "parent_length", "parent__session")


def load_origins_by_position(session_pk: int, messages: Sequence[StoredMessage]) -> dict[int, Origin]:
    """Map each position to the first version that contains it and the run of that version.

    Transcripts within a segment only grow, so that is the version with the smallest length that includes the position.
    """
    if not messages:
        return {}
    segments = sorted({message.segment_id for message in messages})
    first, limit = messages[0].position, (len(messages) + 1) * len(segments)
    lengths: defaultdict[int, deque[tuple[int, Origin]]] = defaultdict(deque)
    for segment, length, version, run_number in _query_version_lengths(session_pk, segments, first)[:limit]:
        lengths[segment].append((length, Origin(version, run_number)))
    origins = {}
    for message in messages:
        candidates = lengths[message.segment_id]
        while candidates and candidates[0][0] <= message.position:
            candidates.popleft()
        if candidates:
            origins[message.position] = candidates[0][1]
    return origins


def _query_version_lengths(session: int, segments: list[int], first: int) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    """Query the lengths above `first` of the versions in each segment, each with its first version and run."""
    return _select_version_lengths().filter(session=session, segment__in=segments, length__gt=first)


@cache
def _select_version_lengths() -> QuerySet[Checkpoint, tuple[Any, ...]]:
    lengths = Checkpoint.objects.values_list("segment_id", "length").order_by("length")
    return lengths.annotate(version=Min("version"), run_number=Min("run__number"))


def load_runs_by_number(session_pk: int, first: int, last: int | None) -> dict[int, RunFacts]:
    """Load the runs from `first` to `last` (None: the newest) by number."""
    return {
        run.number: build_run_facts(run)
        for run in _query_runs_in_number_range(session_pk, first, _MAX_RUN_NUMBER if last is None else last)
    }


def _query_runs_in_number_range(session: int, first: int, last: int) -> QuerySet[Run]:
    return Run.objects.filter(session=session, number__gte=first, number__lte=last).order_by("number")


def build_run_facts(run: Run) -> RunFacts:
    return RunFacts(run.number, run.status, run.host, run.pid, run.started_at, run.heartbeat_at, run.ended_at)
