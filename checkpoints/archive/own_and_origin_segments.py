"""Segments that a session's transcripts consist of: its own, and those of other sessions that it branches from."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import QuerySet

from checkpoints.models import Message, Segment, Session


def map_origin_segments_to_needed_lengths(using: str, session: Session) -> dict[int, int]:
    """Find the segments of other sessions that this one branches from, and the number of messages needed of each."""
    needed: dict[int, int] = {}
    segments = Segment.objects.using(using)
    pending = list(segments.filter(session=session, parent__isnull=False).exclude(parent__session=session))
    while pending:
        child = pending.pop()
        if child.parent_id is None:
            continue
        length = needed.get(child.parent_id)
        needed[child.parent_id] = max(child.parent_length, length or 0)
        if length is None:
            pending += [parent for parent in segments.filter(pk=child.parent_id) if parent.session_id != session.pk]
    return needed


def select_own_and_origin_segments(using: str, session: Session, needed: Mapping[int, int]) -> QuerySet[Segment]:
    """Select the session's own segments and the `needed` ones, parents before their children, which are created
    later."""
    segments = Segment.objects.using(using)
    return (segments.filter(session=session) | segments.filter(pk__in=list(needed))).order_by("pk")


def select_needed_messages_of_segment(using: str, segment: Segment, needed: Mapping[int, int]) -> QuerySet[Message]:
    """Select the messages of a segment, in order; of a borrowed segment only those that are needed."""
    messages = Message.objects.using(using).filter(segment=segment).order_by("position")
    return messages.filter(position__lt=needed[segment.pk]) if segment.pk in needed else messages
