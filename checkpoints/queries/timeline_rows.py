"""The rows that a timeline is made of, as plain values: there may be thousands. `most` is how many are read at most."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from checkpoints.enums import RunStatus
from checkpoints.models import Checkpoint, Decision, PausedTask, PeerCall, Run, ToolCall
from checkpoints.queries import keyset, timeline
from checkpoints.queries.instants import Instant
from checkpoints.queries.keyset import stored_text


def _reaching(since: datetime, until: datetime, begin: str, end: str) -> Q:
    """What began in a time or before it, and ended in it, later, or not yet."""
    return Q(**{f"{begin}__lte": until}) & (Q(**{f"{end}__gte": since}) | Q(**{f"{end}__isnull": True}))


def calls(session: int, since: datetime, until: datetime, *, most: int) -> QuerySet[ToolCall, tuple[Any, ...]]:
    reaching = _reaching(since, until, "issued_at", "settled_at")
    return timeline.newest(ToolCall.objects.filter(reaching, session=session))[:most]


def asked(session: int, since: datetime, until: datetime, *, most: int) -> QuerySet[PeerCall, tuple[Any, ...]]:
    """Run, peer, status, beginning and end of calls to other agents."""
    reaching = _reaching(since, until, "created_at", "settled_at")
    found = PeerCall.objects.filter(reaching, session=session).order_by(keyset.newest())[:most]
    return found.values_list(
        stored_text("join__task__run"), "peer", "status", Instant("created_at"), Instant("settled_at")
    )


def pauses(session: int, *, most: int) -> QuerySet[PausedTask, tuple[str, int, int | None]]:
    found = PausedTask.objects.filter(session=session).order_by("-pk")[:most]
    return found.values_list(stored_text("run"), Instant("paused_at"), Instant("taken_at"))


def decisions(session: int, *, most: int) -> QuerySet[Decision, tuple[Any, ...]]:
    """Call, its id, tool, kind, whether it is final, by whom, of what kind, and when: of the newest decisions."""
    found = Decision.objects.filter(session=session).order_by(keyset.newest())[:most]
    told = ("tool_call", "tool_call__call_id", "tool_call__tool", "kind", "final", "actor", "actor_kind")
    return found.values_list(*told, Instant("created_at"))


def all_runs(session: int, *, most: int) -> QuerySet[Run]:
    return timeline.keyed(Run.objects.filter(session=session)).order_by("-number")[:most]


def some_runs(session: int, since: datetime, until: datetime, involved: list[UUID], *, most: int) -> QuerySet[Run]:
    alive = Q(ended_at__isnull=False) | Q(heartbeat_at__gte=since) | Q(status=RunStatus.RUNNING)
    reaching = _reaching(since, until, "started_at", "ended_at")
    found = Run.objects.filter((reaching & alive) | Q(pk__in=involved), session=session)
    return timeline.keyed(found).order_by("-number")[:most]


def saved(session: int, since: datetime, until: datetime, *, most: int) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    inside = Checkpoint.objects.filter(session=session, created_at__gte=since, created_at__lte=until)
    return _light(inside.order_by("-version"))[:most]


def last_before(session: int, moment: datetime) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return _light(Checkpoint.objects.filter(session=session, created_at__lt=moment).order_by("-version"))[:1]


def first_after(session: int, moment: datetime) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return _light(Checkpoint.objects.filter(session=session, created_at__gt=moment).order_by("version"))[:1]


def _light(found: QuerySet[Checkpoint]) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return found.values_list(stored_text("run"), "version", Instant("created_at"), "phase", "length")
