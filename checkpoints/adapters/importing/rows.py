"""The rows of an imported session beside its transcript: the session and the run that stands for its life."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now

from checkpoints.adapters.importing.refusal import ImportRefused
from checkpoints.enums import AuditKind, RunStatus, SessionStatus
from checkpoints.exceptions import InvalidIdentifier
from checkpoints.ids import checked
from checkpoints.models import Run, Segment, Session
from checkpoints.resuming.starting import Description
from checkpoints.saving import audit
from checkpoints.saving.store import Store
from checkpoints.serde.canonical import canonical, parse
from checkpoints.serde.digests import text_digest

#: The run of an imported session names no machine: where the agent ran is not known.
NOWHERE: Final = "imported"
IMPORT: Final = "import"


@dataclass
class Origin:
    """What a transcript says about itself. `metadata` and `title` may grow while it is read."""

    session_id: str
    format: str
    agent: str = ""
    program: str = ""
    title: str = ""
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """The columns of the session that an import sets."""
        told = {**self.metadata, IMPORT: {**self.metadata.get(IMPORT, {}), "format": self.format}}
        return Description(title=self.title, agent=self.agent, metadata=told, labels=self.labels).columns()


def session_name(told: str, *parts: str) -> str:
    """A session id from what a transcript calls itself; where that cannot be one, a digest of it."""
    name = "/".join([told, *parts])
    try:
        return checked("session id", name)
    except InvalidIdentifier:
        return f"{IMPORT}-{text_digest(name)[:32]}"


def storable_text(text: str, length: int) -> str:
    """Text as every database keeps it in a column of that length."""
    return text[:length].encode("utf-8", "replace").decode().replace("\0", "")


def require_imported(row: Session, runs: list[Run], origin: Origin) -> None:
    """Refuse a session that comes from elsewhere, or that has gone on since it was imported."""
    told = parse(row.metadata).get(IMPORT)
    if not isinstance(told, dict) or "format" not in told:
        raise ImportRefused(origin.session_id, "it was not imported")
    if told["format"] != origin.format:
        raise ImportRefused(origin.session_id, f"it was imported from {told['format']}")
    if any(run.owner_token != IMPORT for run in runs):
        raise ImportRefused(origin.session_id, "an agent has gone on with it since it was imported")


def create(store: Store, origin: Origin, first: datetime) -> tuple[Session, Run]:
    """The session and its run; both carry the time of what they tell of."""
    row = Session(workspace_id=store.workspace_id, session_id=origin.session_id, created_at=first, **origin.described())
    row.save(using=store.using, force_insert=True)
    row.head_segment = Segment.objects.using(store.using).create(session=row)
    row.save(using=store.using, update_fields=["head_segment"])
    run = Run(
        session=row,
        number=1,
        status=RunStatus.COMPLETED,
        fence=0,
        host=NOWHERE,
        host_identity="",
        pid=0,
        owner_token=IMPORT,
        code_version=storable_text(origin.program, 200),
        started_at=first,
        heartbeat_at=first,
        lease_expires_at=first,
        ended_at=first,
    )
    run.save(using=store.using, force_insert=True)
    audit.record(store, AuditKind.SESSION_STARTED, session_pk=row.pk, actor=IMPORT, format=origin.format)
    return row, run


def finish(store: Store, row: Session, run: Run, origin: Origin, *, last: datetime, broken_off: bool) -> None:
    """What is only known at the end of a transcript. Changes nothing where nothing has changed."""
    status = SessionStatus.CANCELLED if broken_off else SessionStatus.COMPLETED
    described = origin.described()
    wanted = {"title": described["title"], "metadata": described["metadata"], "status": status}
    if all(getattr(row, name) == value for name, value in wanted.items()):
        return
    rows = Session.objects.using(store.using).filter(pk=row.pk)
    rows.update(**wanted, revision=F("revision") + 1, updated_at=Now())
    Run.objects.using(store.using).filter(pk=run.pk).update(
        status=RunStatus(status),
        code_version=storable_text(origin.program, 200),
        heartbeat_at=last,
        lease_expires_at=last,
        ended_at=last,
    )
    audit.record(
        store,
        AuditKind.SESSION_FINISHED,
        session_pk=row.pk,
        actor=IMPORT,
        status=str(status),
        format=origin.format,
        version=row.latest_version,
    )


def storable(values: dict[str, Any]) -> dict[str, Any]:
    """`values` without what says nothing, checked to be storable."""
    told = {name: value for name, value in values.items() if value not in (None, "", [], {})}
    canonical(told, "metadata")
    return told
