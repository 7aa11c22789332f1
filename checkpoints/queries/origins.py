"""Where the messages of a window come from: their segments, the versions that first held them, the runs."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Min

from checkpoints.models import Checkpoint, Run, Segment
from checkpoints.queries.transcripts import StoredMessage


@dataclass(frozen=True, slots=True)
class Origin:
    version: int
    run_number: int


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
    found = Segment.objects.filter(pk__in={message.segment_id for message in messages})
    rows = found.annotate(parent_session=F("parent__session"))
    return {row.pk: SegmentFacts(row.parent_id, row.parent_length, row.parent_session) for row in rows}


def origins(session_pk: int, messages: Sequence[StoredMessage]) -> dict[int, Origin]:
    """For each position the first version that holds it and that version's run.

    Within a segment transcripts only grow, so it is the version with the smallest length that reaches the position.
    """
    if not messages:
        return {}
    segments = {message.segment_id for message in messages}
    saved = Checkpoint.objects.filter(session=session_pk, segment__in=segments, length__gt=messages[0].position)
    grouped = saved.values("segment_id", "length").annotate(version=Min("version"), run_number=Min("run__number"))
    lengths: defaultdict[int, deque[tuple[int, Origin]]] = defaultdict(deque)
    for row in grouped.order_by("length")[: (len(messages) + 1) * len(segments)]:
        lengths[row["segment_id"]].append((row["length"], Origin(row["version"], row["run_number"])))
    origins = {}
    for message in messages:
        reaching = lengths[message.segment_id]
        while reaching and reaching[0][0] <= message.position:
            reaching.popleft()
        if reaching:
            origins[message.position] = reaching[0][1]
    return origins


def runs(session_pk: int, first: int, last: int | None) -> dict[int, RunFacts]:
    """The runs `first` to `last` (to the newest one where it is None) by number."""
    found = Run.objects.filter(session=session_pk, number__gte=first)
    if last is not None:
        found = found.filter(number__lte=last)
    return {run.number: facts(run) for run in found.order_by("number")}


def facts(run: Run) -> RunFacts:
    return RunFacts(run.number, run.status, run.host, run.pid, run.started_at, run.heartbeat_at, run.ended_at)
