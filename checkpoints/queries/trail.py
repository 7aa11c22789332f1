"""The audit trail of a workspace, newest first, and whether what is shown is what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db.models import QuerySet, TextChoices

from checkpoints.enums import AuditKind
from checkpoints.integrity.chain import link
from checkpoints.models import AuditChain, AuditEvent, Session
from checkpoints.queries.unreadable import UnreadableRecord, read_each
from checkpoints.serde import parse

PAGE = 100
#: Rows that an export reads at once.
_CHUNK = 1000


class Subject(TextChoices):
    """What an entry is about, in the words of the filter."""

    ACCESS = "access", "Sign-ins"
    READING = "reading", "Reading and exports"
    DECISIONS = "decisions", "Decisions"
    PEOPLE = "people", "Members and accounts"
    TOKENS = "tokens", "API tokens and webhooks"
    SESSIONS = "sessions", "Sessions and runs"


_KINDS: Final = {
    Subject.ACCESS: {
        AuditKind.SIGNED_IN,
        AuditKind.SIGN_IN_FAILED,
        AuditKind.SIGNED_OUT,
        AuditKind.SIGN_INS_ENDED,
    },
    Subject.READING: {
        AuditKind.VIEWED,
        AuditKind.EXCERPTED,
        AuditKind.EVIDENCE_OPENED,
        AuditKind.EXPORTED,
        AuditKind.UNMASKED,
        AuditKind.AUDIT_VERIFIED,
    },
    Subject.DECISIONS: {
        AuditKind.DECIDED,
        AuditKind.VERIFY_REQUESTED,
        AuditKind.TAKEOVER,
        AuditKind.CLAIMED,
        AuditKind.RELEASED,
    },
    Subject.PEOPLE: {
        AuditKind.PASSWORD_CHANGED,
        AuditKind.FACTOR_ADDED,
        AuditKind.FACTOR_REMOVED,
        AuditKind.INVITED,
        AuditKind.INVITATION_REVOKED,
        AuditKind.MEMBER_ADDED,
        AuditKind.ROLE_CHANGED,
        AuditKind.MEMBER_REMOVED,
        AuditKind.MASKING_CHANGED,
        AuditKind.NOTIFICATIONS_CHANGED,
        AuditKind.ADDRESS_CONFIRMED,
    },
    Subject.TOKENS: {
        AuditKind.TOKEN_CREATED,
        AuditKind.TOKEN_REVOKED,
        AuditKind.TOKEN_USED,
        AuditKind.TOKEN_REFUSED,
        AuditKind.WEBHOOK_CREATED,
        AuditKind.WEBHOOK_PAUSED,
        AuditKind.WEBHOOK_RESUMED,
        AuditKind.WEBHOOK_DELETED,
        AuditKind.WEBHOOK_TESTED,
        AuditKind.MESSAGE_RETRIED,
    },
}


def kinds_of(subject: Subject) -> frozenset[AuditKind]:
    """Every kind is about one subject: those that no other names are about sessions."""
    if subject in _KINDS:
        return frozenset(_KINDS[subject])
    return frozenset(set(AuditKind) - set().union(*_KINDS.values()))


@dataclass(frozen=True, slots=True)
class TrailFilter:
    """`actor` is a whole name, `session` a session's own id; both days count."""

    subject: Subject | None = None
    actor: str = ""
    session: str = ""
    first: date | None = None
    last: date | None = None

    def __bool__(self) -> bool:
        return bool(self.subject or self.actor or self.session or self.first or self.last)


@dataclass(frozen=True, slots=True)
class Entry:
    """`number` is its place in the chain, None while it is not sealed; `intact` says whether its seal fits its content.

    `session_pk` and `session_id` are empty where it is about none, or about one that is gone.
    """

    pk: int
    at: datetime
    kind: str
    label: str
    actor: str
    actor_kind: str
    details: dict[str, Any]
    number: int | None
    intact: bool
    session_pk: int | None
    session_id: str


@dataclass(frozen=True, slots=True)
class TrailPage:
    """`before` is where the next page starts."""

    entries: tuple[Entry | UnreadableRecord, ...]
    before: int | None


@dataclass(frozen=True, slots=True)
class Integrity:
    """The end of the chain, how many entries wait for their seal, and what the last verification found."""

    number: int
    seal: str
    waiting: int
    verified_at: datetime | None
    verified_number: int
    problem: str


def page(workspace_pk: int, wanted: TrailFilter, *, before: int | None = None, size: int = PAGE) -> TrailPage:
    found = _filtered(workspace_pk, wanted).order_by("-pk")
    if before is not None:
        found = found.filter(pk__lt=before)
    events = list(found[: size + 1])
    return TrailPage(_entries(workspace_pk, events[:size]), events[size - 1].pk if len(events) > size else None)


def every(workspace_pk: int, wanted: TrailFilter) -> Iterator[Entry | UnreadableRecord]:
    """Every entry that matches and is there when the reading begins, newest first; read in pieces."""
    before: int | None = None
    while True:
        piece = page(workspace_pk, wanted, before=before, size=_CHUNK)
        yield from piece.entries
        before = piece.before
        if before is None:
            return


def integrity(workspace_pk: int) -> Integrity:
    chain = _chain(workspace_pk).first() or AuditChain()
    waiting = _unsealed(workspace_pk).count()
    return Integrity(chain.number, chain.seal, waiting, chain.verified_at, chain.verified_number, chain.problem)


def _chain(workspace: int) -> QuerySet[AuditChain]:
    return AuditChain.objects.filter(workspace=workspace)


def _unsealed(workspace: int) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(workspace=workspace, number=None)


def broken(workspace_pk: int, events: list[AuditEvent]) -> frozenset[int]:
    """The keys of those `events` of one workspace that are not what was recorded, or not where it was. One query."""
    seals = _seals_before(workspace_pk, events)
    return frozenset(
        event.pk for event in events if event.number is not None and not _intact(event, event.number, seals)
    )


def _filtered(workspace_pk: int, wanted: TrailFilter) -> QuerySet[AuditEvent]:
    found = AuditEvent.objects.filter(workspace=workspace_pk)
    if wanted.subject:
        found = found.filter(kind__in=sorted(kinds_of(wanted.subject)))
    if wanted.actor:
        found = found.filter(actor=wanted.actor.replace("\0", ""))
    if wanted.session:
        named = Session.objects.filter(workspace=workspace_pk, session_id=wanted.session.replace("\0", ""))
        found = found.filter(session__in=list(named.values_list("pk", flat=True)))
    if wanted.first:
        found = found.filter(created_at__gte=_midnight(wanted.first))
    if wanted.last:
        found = found.filter(created_at__lt=_midnight(wanted.last) + timedelta(days=1))
    return found


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _entries(workspace_pk: int, events: list[AuditEvent]) -> tuple[Entry | UnreadableRecord, ...]:
    seals = _seals_before(workspace_pk, events)
    pks = {event.session_id for event in events if event.session_id is not None}
    sessions = dict(_named(workspace_pk, sorted(pks)) if pks else ())
    return tuple(read_each(events, lambda event: _entry(event, seals, sessions), "audit entry"))


def _seals_before(workspace_pk: int, events: list[AuditEvent]) -> dict[int, str]:
    """Number → seal, of each entry that stands before one of `events`; 0 is the beginning."""
    numbers = [event.number - 1 for event in events if event.number]
    return {0: ""} | dict(_seals(workspace_pk, numbers) if numbers else ())


def _seals(workspace: int, numbers: list[int]) -> QuerySet[AuditEvent, tuple[Any, str]]:
    return AuditEvent.objects.filter(workspace=workspace, number__in=numbers).values_list("number", "seal")


def _named(workspace: int, pks: list[int]) -> QuerySet[Session, tuple[int, str]]:
    return Session.objects.filter(workspace=workspace, pk__in=pks).values_list("pk", "session_id")


def _entry(event: AuditEvent, seals: dict[int, str], sessions: dict[int, str]) -> Entry:
    pk = event.session_id if event.session_id in sessions else None
    return Entry(
        pk=event.pk,
        at=event.created_at,
        kind=event.kind,
        label=_label(event.kind),
        actor=event.actor,
        actor_kind=event.actor_kind,
        details=_details(event.details),
        number=event.number,
        intact=event.number is None or _intact(event, event.number, seals),
        session_pk=pk,
        session_id=sessions.get(event.session_id or 0, ""),
    )


def _intact(event: AuditEvent, number: int, seals: dict[int, str]) -> bool:
    return number - 1 in seals and event.seal == link(seals[number - 1], number, event)


def _label(kind: str) -> str:
    """The word for a kind; one that a newer version wrote, as it is."""
    return str(AuditKind(kind).label) if kind in AuditKind.values else kind.replace("_", " ").capitalize()


def _details(stored: str) -> dict[str, Any]:
    try:
        details = parse(stored)
    except (ValueError, RecursionError):
        return {"details": stored}
    return details if isinstance(details, dict) else {"details": details}
