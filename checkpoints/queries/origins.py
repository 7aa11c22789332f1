"""Where the messages of a window come from: their segments, the versions that first held them, the runs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Min, QuerySet

from checkpoints.models import Checkpoint, Run, Segment
from checkpoints.queries.transcripts import StoredMessage

#: No run has a greater number.
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Origin:
    """`run_number` is None for a version that was appended without a run."""

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


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    parent_id: int | None
    parent_length: int
    parent_session: int | None


def segments(messages: Sequence[StoredMessage]) -> dict[int, SegmentFacts]:
    rows = _segments(sorted({message.segment_id for message in messages}))
    return {pk: SegmentFacts(*told) for pk, *told in rows}


def _segments(pks: list[int]) -> QuerySet[Segment, tuple[Any, ...]]:
    found = Segment.objects.filter(pk__in=pks)
    return found.values_list("pk", "parent", "parent_length", "parent__session")


def origins(session_pk: int, messages: Sequence[StoredMessage]) -> dict[int, Origin]:
    """For each position the first version that holds it and that version's run.

    Within a segment transcripts only grow, so it is the version with the smallest length that reaches the position.
    """
    if not messages:
        return {}
    segments = sorted({message.segment_id for message in messages})
    first, most = messages[0].position, (len(messages) + 1) * len(segments)
    lengths: defaultdict[int, deque[tuple[int, Origin]]] = defaultdict(deque)
    for segment, length, version, run_number in _grown(session_pk, segments, first)[:most]:
        lengths[segment].append((length, Origin(version, run_number)))
    origins = {}
    for message in messages:
        reaching = lengths[message.segment_id]
        while reaching and reaching[0][0] <= message.position:
            reaching.popleft()
        if reaching:
            origins[message.position] = reaching[0][1]
    return origins


def _grown(session: int, segments: list[int], first: int) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    """The lengths above `first` that versions have of each segment, each with its first version and run."""
    saved = Checkpoint.objects.filter(session=session, segment__in=segments, length__gt=first)
    lengths = saved.values_list("segment_id", "length").order_by("length")
    return lengths.annotate(version=Min("version"), run_number=Min("run__number"))


def runs(session_pk: int, first: int, last: int | None) -> dict[int, RunFacts]:
    """The runs `first` to `last` (to the newest one where it is None) by number."""
    return {run.number: facts(run) for run in _runs(session_pk, first, _MOST if last is None else last)}


def _runs(session: int, first: int, last: int) -> QuerySet[Run]:
    return Run.objects.filter(session=session, number__gte=first, number__lte=last).order_by("number")


def facts(run: Run) -> RunFacts:
    return RunFacts(run.number, run.status, run.host, run.pid, run.started_at, run.heartbeat_at, run.ended_at)
