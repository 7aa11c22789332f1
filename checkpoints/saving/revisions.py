"""What tells the pages that something of a session changed."""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.models import Session
from checkpoints.saving.store import Store


def touch(store: Store, session_pk: int) -> None:
    """Let the pages notice that something of a session changed."""
    Session.objects.using(store.using).filter(pk=session_pk).update(revision=F("revision") + 1, updated_at=Now())
