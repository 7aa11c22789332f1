"""Forking: a new session that goes on from any version of another one."""

from __future__ import annotations

import platform

from django.db import IntegrityError, connections, transaction
from django.db.models.functions import Now

from checkpoints import process
from checkpoints.enums import ActorKind, AuditKind, CallStatus, InterruptReason, RunStatus, SessionStatus
from checkpoints.exceptions import SessionExists, VersionNotFound
from checkpoints.ids import checked
from checkpoints.models import Checkpoint, Run, Segment, Session
from checkpoints.saving import audit, calls, carrying, lookup, phases, revisions
from checkpoints.saving.operations import operation
from checkpoints.saving.state import total_tokens
from checkpoints.saving.store import Store
from checkpoints.serde import money

#: What a fork inherits. A call that may have landed is as undecided in the fork as in the origin.
CARRIED = {
    CallStatus.COMPLETED: CallStatus.COMPLETED,
    CallStatus.ISSUED: CallStatus.INTERRUPTED,
    CallStatus.INTERRUPTED: CallStatus.INTERRUPTED,
    CallStatus.RERUN_APPROVED: CallStatus.INTERRUPTED,
}


def fork(
    store: Store,
    session_id: str,
    new_session_id: str,
    *,
    version: int | None = None,
    actor: str = "fork",
    actor_kind: ActorKind = ActorKind.MACHINE,
) -> int:
    """A new session whose version 1 is `version` (None: the newest) of another one. Returns 1.

    No message is copied: the fork's segment branches from the origin's. Calls with an effect come along, so that
    the fork replays them instead of repeating the effect. Raises `SessionNotFound`, `VersionNotFound`,
    `SessionExists`, `InvalidIdentifier`.
    """
    checked("session id", new_session_id)
    store.flush(session_id)
    with operation(store.using), transaction.atomic(using=store.using):
        origin = lookup.session(store, session_id, lock=True)
        source = _source(store, origin, version)
        forked = _new_session(store, origin, new_session_id, source)
        run = _first_run(store, forked)
        segment = Segment.objects.using(store.using).create(
            session=forked, parent_id=source.segment_id, parent_length=source.length
        )
        _first_version(store, forked, run, segment, source)
        connection = connections[store.using]
        carrying.carry_calls(
            connection,
            origin.pk,
            forked.pk,
            run.pk,
            CARRIED,
            InterruptReason.FORKED,
            origin.latest_version + 1,
            source.version,
        )
        carrying.carry_workflows(store.using, origin.pk, forked.pk)
        undecided = bool(calls.undecided(store, forked))
        forked.head_segment = segment
        forked.status = SessionStatus.NEEDS_REVIEW if undecided else SessionStatus.ACTIVE
        forked.save(using=store.using, update_fields=["head_segment", "status"])
        _tell_both(store, origin, forked, source, actor, actor_kind)
    return 1


def _source(store: Store, origin: Session, version: int | None) -> Checkpoint:
    versions = Checkpoint.objects.using(store.using).filter(session=origin)
    found = versions.order_by("-version").first() if version is None else versions.filter(version=version).first()
    if found is None:
        raise VersionNotFound(origin.session_id, 0 if version is None else version)
    return found


def _new_session(store: Store, origin: Session, new_session_id: str, source: Checkpoint) -> Session:
    rows = Session.objects.using(store.using)
    if rows.filter(workspace_id=store.workspace_id, session_id=new_session_id).exists():
        raise SessionExists(new_session_id)
    forked = Session(
        workspace_id=store.workspace_id,
        session_id=new_session_id,
        agent=origin.agent,
        title=origin.title,
        metadata=origin.metadata,
        labels=origin.labels,
        scratchpad_root=origin.scratchpad_root,
        latest_version=1,
        head_chain=source.chain,
        message_count=source.length,
        budget_spent_usd=money.as_decimal(source.budget_spent_usd),
        total_tokens=total_tokens(source.usage),
        key_space=origin.key_space,
        forked_from=origin,
        forked_version=source.version,
    )
    try:
        with transaction.atomic(using=store.using):
            forked.save(using=store.using, force_insert=True)
    except IntegrityError as error:  # another process has just made it
        raise SessionExists(new_session_id) from error
    return forked


def _first_run(store: Store, forked: Session) -> Run:
    """The run that made the fork: it owns nothing and is over."""
    here = process.this_process()
    run = Run(
        session=forked,
        number=1,
        status=RunStatus.RELEASED,
        fence=0,
        lease_expires_at=Now(),
        host=here.host,
        host_identity=here.host_identity,
        pid=here.pid,
        process_started=here.started,
        owner_token=store.token,
        code_version=f"python {platform.python_version()}",
        ended_at=Now(),
    )
    run.save(using=store.using, force_insert=True)
    return run


def _first_version(store: Store, forked: Session, run: Run, segment: Segment, source: Checkpoint) -> None:
    Checkpoint.objects.using(store.using).create(
        session=forked,
        version=1,
        run=run,
        phase=source.phase,
        segment=segment,
        length=source.length,
        chain=source.chain,
        plan=source.plan,
        budget_spent_usd=source.budget_spent_usd,
        usage=source.usage,
        payload=phases.whole_payload(store, source.session.session_id, source),
        schema_version=source.schema_version,
    )


def _tell_both(
    store: Store, origin: Session, forked: Session, source: Checkpoint, actor: str, actor_kind: ActorKind
) -> None:
    for row, other in ((origin, forked), (forked, origin)):
        audit.record(
            store,
            AuditKind.SESSION_FORKED,
            session_pk=row.pk,
            actor=actor,
            actor_kind=actor_kind,
            origin=origin.session_id,
            forked=forked.session_id,
            version=source.version,
            other=other.pk,
        )
        revisions.touch(store, row.pk)
