"""Change number (`revision`) of a session, by which pages notice a change."""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.models import Session
from checkpoints.store.store import Store


def bump_revision(store: Store, session_pk: int) -> None:
    """Increment the session's revision, so that its pages refresh."""
    Session.objects.using(store.using).filter(pk=session_pk).update(revision=F("revision") + 1, updated_at=Now())
