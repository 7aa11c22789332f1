"""What a session's transcripts are made of: its own segments, and those of other sessions that it branches from."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet

from checkpoints.models import Message, Segment, Session


def borrowed(using: str, session: Session) -> dict[int, int]:
    """Segments of other sessions that this one branches from, and how many messages are needed up to there."""
    needed: dict[int, int] = {}
    found = Segment.objects.using(using)
    waiting = list(found.filter(session=session, parent__isnull=False).exclude(parent__session=session))
    while waiting:
        child = waiting.pop()
        if child.parent_id is None:
            continue
        known = needed.get(child.parent_id)
        needed[child.parent_id] = max(child.parent_length, known or 0)
        if known is None:
            waiting += [parent for parent in found.filter(pk=child.parent_id) if parent.session_id != session.pk]
    return needed


def segments(using: str, session: Session, needed: Mapping[int, int]) -> QuerySet[Segment]:
    """Its own and the `borrowed` ones, parents before their children: these were made later."""
    found = Segment.objects.using(using)
    return (found.filter(session=session) | found.filter(pk__in=list(needed))).order_by("pk")


def messages(using: str, segment: Segment, needed: Mapping[int, int]) -> QuerySet[Message]:
    """What a segment contributes, in order: of a borrowed one the messages that are needed."""
    found = Message.objects.using(using).filter(segment=segment).order_by("position")
    return found.filter(position__lt=needed[segment.pk]) if segment.pk in needed else found
