"""Places in a whole stored transcript, not only in the window that is shown: words, errors, decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import and_, or_

from django.db.models import Q, QuerySet

from checkpoints.enums import CallStatus
from checkpoints.models import Checkpoint, Message, Session, ToolCall
from checkpoints.queries import blocks, transcripts
from checkpoints.queries.blocks import Result
from checkpoints.queries.conversation import Place

#: Messages that are in memory at once.
_PIECE = 25
#: So many calls are looked at for the next landmark.
_CALLS = 50
#: A call is asked for so many messages before its result at most.
_NEAR = 16
#: As canonical JSON writes it; inside a text its quotes would be escaped.
_FLAG = '"is_error":true'
_WENT_WRONG = (CallStatus.FAILED, CallStatus.INTERRUPTED, CallStatus.REJECTED)


class Landmark(StrEnum):
    ERROR = "error"
    DECISION = "decision"


@dataclass(frozen=True, slots=True)
class Spot:
    """A message, or a call that is not in the transcript yet (then `position` is None)."""

    position: int | None
    call_pk: int | None = None


def containing(at: Place, words: Iterable[str], *, beyond: int, back: bool = False) -> Iterator[tuple[int, str]]:
    """Position and body of the messages whose stored text holds all of `words`, in any case, behind position `beyond`
    or with `back` before it, nearest first. On SQLite letters beyond ASCII are found in the usual cases only."""
    wanted = reduce(and_, map(_holding, words))
    while True:
        found = _beyond(at, beyond, back=back).filter(wanted).values_list("position", "body")[:_PIECE]
        yield from found
        if len(found) < _PIECE:
            return
        beyond = found[len(found) - 1][0]


def _holding(word: str) -> Q:
    stored = json.dumps(word.replace("\0", ""), ensure_ascii=False)[1:-1]
    cases = {stored} if stored.isascii() else {stored, stored.lower(), stored.upper(), stored.title()}
    return reduce(or_, (Q(body__icontains=case) for case in sorted(cases)))


def first_since(at: Place, moment: datetime) -> int | None:
    """The first message that was said at `moment` or later."""
    found = _of(at).filter(created_at__gte=moment).order_by("position")
    return found.values_list("position", flat=True).first()


def next_landmark(session: Session, at: Place, wanted: Landmark, *, beyond: int, back: bool = False) -> Spot | None:
    """The next error or decision behind position `beyond`, or with `back` the last one before it."""
    spots = [spot for spot in (_flagged(at, wanted, beyond, back), _of_call(session, at, wanted, beyond, back)) if spot]
    ending = at.length
    order = sorted(spots, key=lambda spot: ending if spot.position is None else spot.position, reverse=back)
    return order[0] if order else None


def _flagged(at: Place, wanted: Landmark, beyond: int, back: bool) -> Spot | None:
    """A result that says it is an error; it is shown where its call was asked for."""
    if wanted is not Landmark.ERROR:
        return None
    found = _beyond(at, beyond, back=back).filter(body__contains=_FLAG).values_list("position", "body")
    for position, body in found[:_PIECE]:
        place = _call_of(at, position, body)
        if place < beyond if back else place > beyond:
            return Spot(place)
    return None


def _call_of(at: Place, position: int, body: str) -> int:
    flagged = [part.call_id for part in blocks.read(body) if isinstance(part, Result) and part.is_error]
    named = [Q(body__contains=json.dumps(call_id, ensure_ascii=False)) for call_id in flagged]
    if not named:
        return position
    near = _of(at).filter(reduce(or_, named), position__gte=position - _NEAR, position__lt=position)
    asked = near.order_by("-position").values_list("position", flat=True).first()
    return position if asked is None else asked


def _of_call(session: Session, at: Place, wanted: Landmark, beyond: int, back: bool) -> Spot | None:
    lengths = _lengths(session, at)
    here = next((version for version, length in lengths if length > beyond), at.version + 1)
    calls = ToolCall.objects.filter(session=session)
    calls = calls.filter(status__in=_WENT_WRONG) if wanted is Landmark.ERROR else calls.filter(decisions__final=True)
    calls = calls.filter(step__lte=here) if back else calls.filter(step__gte=here - 1)
    order = ("-step", "-pk") if back else ("step", "pk")
    for pk, call_id, step in calls.order_by(*order).values_list("pk", "call_id", "step").distinct()[:_CALLS]:
        position = _asked(at, call_id, step, lengths)
        if position is None:
            if at.newest and not back and beyond < at.length:
                return Spot(None, pk)
        elif position < beyond if back else position > beyond:
            return Spot(position, pk)
    return None


def _asked(at: Place, call_id: str, step: int, lengths: list[tuple[int, int]]) -> int | None:
    """Where a call was asked for that was issued while `step` was the newest version: the message was saved with it,
    or with the version after it."""
    first = max((length for version, length in lengths if version < step), default=0)
    upto = min((length for version, length in lengths if version > step), default=at.length)
    named = json.dumps(call_id, ensure_ascii=False)
    found = _of(at).filter(position__gte=first, position__lt=upto, body__contains=named)
    return found.order_by("position").values_list("position", flat=True).first()


def _lengths(session: Session, at: Place) -> list[tuple[int, int]]:
    """Version and length of what was saved up to here, oldest first."""
    saved = Checkpoint.objects.filter(session=session, version__lte=at.version).order_by("version")
    return list(saved.values_list("version", "length"))


def _beyond(at: Place, beyond: int, *, back: bool) -> QuerySet[Message]:
    found = _of(at)
    if back:
        return found.filter(position__lt=beyond).order_by("-position")
    return found.filter(position__gt=beyond).order_by("position")


def _of(at: Place) -> QuerySet[Message]:
    """The messages of a version."""
    if at.segment_id is None:
        return Message.objects.none()
    parts = [
        Q(segment=part.segment_id, position__gte=part.first, position__lt=part.upto)
        for part in transcripts.stretches(at.segment_id, at.length)
    ]
    return Message.objects.filter(reduce(or_, parts)) if parts else Message.objects.none()
