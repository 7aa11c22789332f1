"""Query of a workspace's audit trail, newest first, with whether each displayed entry is intact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import Q, QuerySet, TextChoices
from django.utils.translation import gettext_lazy as _

from checkpoints.audit.chained_event_digest import compute_chained_event_digest
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.formats import parse_json
from checkpoints.models import AuditEvent, Session
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.accounts.models import Membership
from harness_site.core.similar_known_names import find_similar_names
from harness_site.core.time_range_parameters import TimeRange
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, convert_rows_or_mark_unreadable

#: Most digits of a number of a session.
_MAX_NUMBER_LENGTH: Final = 18
#: Newest sessions whose ids are compared with one that was typed and that none has.
_COMPARED_SESSIONS: Final = 2_000
#: Largest number of entries that are read at once.
_CHUNK = 1000
_LABELS: Final = dict(build_choices(AuditKind))
#: What readers saw. Readers cause most entries of a trail.
PAGE_VIEWS: Final = frozenset({AuditKind.VIEWED, AuditKind.EXCERPTED})
#: What happens to a session whenever an agent works, waits or ends. A take-over, which somebody orders, is not routine.
RUN_EVENTS: Final = frozenset(
    {
        AuditKind.SESSION_STARTED,
        AuditKind.SESSION_FINISHED,
        AuditKind.SESSION_NEEDS_REVIEW,
        AuditKind.SESSION_READY,
        AuditKind.RUN_STARTED,
        AuditKind.RUN_RELEASED,
        AuditKind.RUN_LOST,
        AuditKind.PAUSED_FOR_PEERS,
        AuditKind.JOIN_COMPLETE,
    }
)


#: Kinds of actors that a reader filters by: each run has the name of many others.
_NAMED_ACTOR_KINDS: Final = frozenset({ActorKind.PERSON, ActorKind.TOKEN})
#: Largest number of members whose names are offered.
_MAX_MEMBERS: Final = 200
#: Number of the newest entries whose actors may be meant by a name that has none.
_MAX_ENTRIES_WITH_ACTORS: Final = 2_000


class AuditSubject(TextChoices):
    """Subject of audit events, for the filter: what people and API tokens did, or events of some kinds by anybody."""

    ACTS = "acts", _("What people and tokens did")
    ACCESS = "access", _("Sign-ins")
    READING = "reading", _("Reading and exports")
    DECISIONS = "decisions", _("Decisions")
    PEOPLE = "people", _("Members and accounts")
    TOKENS = "tokens", _("API tokens and webhooks")
    SESSIONS = "sessions", _("Sessions and runs")


_KINDS: Final = {
    AuditSubject.ACCESS: {
        AuditKind.SIGNED_IN,
        AuditKind.SIGN_IN_FAILED,
        AuditKind.SIGNED_OUT,
        AuditKind.SIGN_INS_ENDED,
    },
    AuditSubject.READING: {
        AuditKind.VIEWED,
        AuditKind.EXCERPTED,
        AuditKind.EVIDENCE_OPENED,
        AuditKind.EXPORTED,
        AuditKind.UNMASKED,
        AuditKind.AUDIT_VERIFIED,
    },
    AuditSubject.DECISIONS: {
        AuditKind.DECIDED,
        AuditKind.VERIFY_REQUESTED,
        AuditKind.TAKEOVER,
        AuditKind.CLAIMED,
        AuditKind.RELEASED,
        AuditKind.HANDED_OVER,
        AuditKind.COMMENTED,
    },
    AuditSubject.PEOPLE: {
        AuditKind.PASSWORD_CHANGED,
        AuditKind.FACTOR_ADDED,
        AuditKind.FACTOR_REMOVED,
        AuditKind.FACTOR_RULE_CHANGED,
        AuditKind.INVITED,
        AuditKind.INVITATION_REVOKED,
        AuditKind.MEMBER_ADDED,
        AuditKind.ROLE_CHANGED,
        AuditKind.MEMBER_REMOVED,
        AuditKind.MEMBER_DEACTIVATED,
        AuditKind.MEMBER_REACTIVATED,
        AuditKind.MASKING_CHANGED,
        AuditKind.NOTIFICATIONS_CHANGED,
        AuditKind.ADDRESS_CONFIRMED,
        AuditKind.MAIL_TESTED,
    },
    AuditSubject.TOKENS: {
        AuditKind.TOKEN_CREATED,
        AuditKind.TOKEN_REVOKED,
        AuditKind.TOKEN_USED,
        AuditKind.TOKEN_REFUSED,
        AuditKind.WEBHOOK_CREATED,
        AuditKind.WEBHOOK_CHANGED,
        AuditKind.WEBHOOK_PAUSED,
        AuditKind.WEBHOOK_RESUMED,
        AuditKind.WEBHOOK_DELETED,
        AuditKind.WEBHOOK_TESTED,
        AuditKind.MESSAGE_RETRIED,
    },
}


def get_audit_kinds_of_subject(subject: AuditSubject) -> frozenset[AuditKind]:
    """List the kinds of a subject that is one of kinds; kinds without another subject belong to `SESSIONS`."""
    if subject in _KINDS:
        return frozenset(_KINDS[subject])
    return frozenset(set(AuditKind) - set().union(*_KINDS.values()))


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """`actor` is a whole name, `session` the id of a session or, if none has this id, a number or the start of ids.

    `words` are separated by spaces. `search_entries_by_words` searches for them; queries of this module do not.
    """

    subject: AuditSubject | None = None
    actor: str = ""
    session: str = ""
    words: str = ""
    times: TimeRange = field(default_factory=TimeRange)

    def __bool__(self) -> bool:
        return bool(self.subject or self.actor or self.session or self.words or self.times)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """`number` is its place in the chain of digests, None while it has none.

    `matches_chain` says whether its digest fits its content and the entry before it, None without a number;
    `matches_seal` whether this library wrote it, None without a seal key: anybody can compute digests.
    `session_pk` and `session_id` are empty where it is about none, or about one that is gone.
    """

    pk: int
    at: datetime
    kind: str
    actor: str
    actor_kind: str
    details: dict[str, Any]
    number: int | None
    matches_chain: bool | None
    matches_seal: bool | None
    session_pk: int | None
    session_id: str

    @property
    def intact(self) -> bool:
        return self.matches_chain is not False and self.matches_seal is not False

    @property
    def label(self) -> str:
        """Label of the kind in the current language; derived from its value if a newer version wrote it."""
        label = _LABELS.get(self.kind)
        return str(label) if label else self.kind.replace("_", " ").capitalize()


def iterate_entries(
    workspace_pk: int,
    wanted: AuditFilter,
    *,
    before: int | None = None,
    oldest: int = 0,
    first_batch: int = _CHUNK,
    limit: int | None = None,
) -> Iterator[AuditEntry | UnreadableRecord]:
    """Iterate over the matching entries, newest first. Entries that are recorded meanwhile are not among them.

    Args:
        workspace_pk: Key of the workspace.
        wanted: Filter that the entries match.
        before: Only entries with a smaller key.
        oldest: Only entries with at least this key.
        first_batch: Number of entries that are read first, for a reader who may stop early; each further batch has
            twice as many as the one before. By default, all batches have the largest size.
        limit: Largest number of entries; None for all.
    """
    matching_events = query_filtered_events(workspace_pk, wanted).order_by("-pk")
    if oldest:
        matching_events = matching_events.filter(pk__gte=oldest)
    size, left = first_batch, limit
    while left is None or left > 0:
        size = min(size, _CHUNK) if left is None else min(size, _CHUNK, left)
        events = list((matching_events if before is None else matching_events.filter(pk__lt=before))[:size])
        yield from load_seals_and_build_entries(workspace_pk, events)
        if len(events) < size:
            return
        before, left, size = events[-1].pk, None if left is None else left - size, 2 * size


def find_altered_event_keys(workspace_pk: int, events: list[AuditEvent]) -> frozenset[int]:
    """Return the keys of the given events of one workspace that are not as they were recorded. One query."""
    seals = _load_preceding_seals(workspace_pk, events)
    return frozenset(event.pk for event in events if not _is_entry_intact(event, seals))


def query_filtered_events(workspace_pk: int, audit_filter: AuditFilter) -> QuerySet[AuditEvent]:
    """Query the entries that match a filter, whatever its words."""
    matching_events = AuditEvent.objects.filter(workspace=workspace_pk)
    if audit_filter.subject is AuditSubject.ACTS:
        matching_events = matching_events.filter(actor_kind__in=sorted(_NAMED_ACTOR_KINDS)).exclude(kind__in=PAGE_VIEWS)
    elif audit_filter.subject:
        matching_events = matching_events.filter(kind__in=sorted(get_audit_kinds_of_subject(audit_filter.subject)))
    if audit_filter.actor:
        matching_events = matching_events.filter(actor=audit_filter.actor.replace("\0", ""))
    if audit_filter.session:
        matching_events = matching_events.filter(
            _build_condition_of_session_id_or_prefix(workspace_pk, audit_filter.session)
        )
    if audit_filter.times.since is not None:
        matching_events = matching_events.filter(created_at__gte=audit_filter.times.since)
    if audit_filter.times.until is not None:
        matching_events = matching_events.filter(created_at__lt=audit_filter.times.until)
    return matching_events


def _build_condition_of_session_id_or_prefix(workspace_pk: int, session_id: str) -> Q:
    """Select the entries of the session with an id; if there is none, those of the session with that number in
    addresses; without one, those of all whose ids begin so."""
    beginning = session_id.replace("\0", "")
    sessions = Session.objects.filter(workspace=workspace_pk)
    pks = list(sessions.filter(session_id=beginning).values_list("pk", flat=True))
    if not pks and beginning.isascii() and beginning.isdigit() and len(beginning) <= _MAX_NUMBER_LENGTH:
        pks = list(sessions.filter(pk=int(beginning)).values_list("pk", flat=True))
    if pks or not beginning:
        return Q(session__in=pks)
    return Q(session__in=sessions.filter(session_id__startswith=beginning).values("pk"))


def list_actors_to_filter_by(workspace_pk: int, entries: Iterable[AuditEntry | UnreadableRecord]) -> list[str]:
    """List the names of members, and of the people and API tokens of the entries, in one query."""
    members = Membership.objects.filter(workspace=workspace_pk).order_by("user__username")
    names = set(members.values_list("user__username", flat=True)[:_MAX_MEMBERS])
    named = (entry for entry in entries if isinstance(entry, AuditEntry) and entry.actor_kind in _NAMED_ACTOR_KINDS)
    return sorted(names | {entry.actor for entry in named} - {""}, key=str.casefold)


def list_near_actors(workspace_pk: int, actor: str, members: Iterable[str]) -> tuple[str, ...]:
    """List the names that are like an `actor` without entries, from `members` and the newest entries. One query."""
    events = AuditEvent.objects.filter(workspace=workspace_pk, actor_kind__in=sorted(_NAMED_ACTOR_KINDS))
    newest = events.order_by("-pk").values_list("actor", flat=True)[:_MAX_ENTRIES_WITH_ACTORS]
    return find_similar_names(actor, {*members, *newest} - {""})


def list_near_session_ids(workspace_pk: int, typed: str) -> tuple[str, ...]:
    """List the ids of the newest sessions that are like one without entries. One query."""
    newest = Session.objects.filter(workspace=workspace_pk).order_by("-pk")[:_COMPARED_SESSIONS]
    return find_similar_names(typed, newest.values_list("session_id", flat=True))


def load_seals_and_build_entries(
    workspace_pk: int, events: list[AuditEvent]
) -> tuple[AuditEntry | UnreadableRecord, ...]:
    """Build the entries of stored events, with their sessions and whether they are intact. Two queries."""
    seals = _load_preceding_seals(workspace_pk, events)
    pks = {event.session_id for event in events if event.session_id is not None}
    sessions = dict(_query_session_pks_and_ids(workspace_pk, sorted(pks)) if pks else ())
    return tuple(
        convert_rows_or_mark_unreadable(events, lambda event: _build_entry(event, seals, sessions), "audit entry")
    )


def _load_preceding_seals(workspace_pk: int, events: list[AuditEvent]) -> dict[int, str]:
    """Map number → seal of each entry before one of `events`; number 0 is the start of the chain."""
    numbers = [event.number - 1 for event in events if event.number]
    return {0: ""} | dict(_query_seals(workspace_pk, numbers) if numbers else ())


def _query_seals(workspace: int, numbers: list[int]) -> QuerySet[AuditEvent, tuple[Any, str]]:
    return AuditEvent.objects.filter(workspace=workspace, number__in=numbers).values_list("number", "seal")


def _query_session_pks_and_ids(workspace: int, pks: list[int]) -> QuerySet[Session, tuple[int, str]]:
    return Session.objects.filter(workspace=workspace, pk__in=pks).values_list("pk", "session_id")


def _build_entry(event: AuditEvent, seals: dict[int, str], sessions: dict[int, str]) -> AuditEntry:
    pk = event.session_id if event.session_id in sessions else None
    return AuditEntry(
        pk=event.pk,
        at=event.created_at,
        kind=event.kind,
        actor=event.actor,
        actor_kind=event.actor_kind,
        details=parse_event_details(event.details),
        number=event.number,
        matches_chain=_match_chain_or_none(event, seals),
        matches_seal=_match_seal_or_none(event),
        session_pk=pk,
        session_id=sessions.get(event.session_id or 0, ""),
    )


def _is_entry_intact(event: AuditEvent, seals: dict[int, str]) -> bool:
    """Return whether an entry matches its keyed seal and, once it has a number, the chain, which needs no key."""
    return _match_seal_or_none(event) is not False and _match_chain_or_none(event, seals) is not False


def _match_seal_or_none(event: AuditEvent) -> bool | None:
    """Return whether an entry matches its keyed seal; None without a key."""
    if get_seal_keys() is None:
        return None
    return row_seals.is_row_genuine_or_sealing_off(event)


def _match_chain_or_none(event: AuditEvent, seals: dict[int, str]) -> bool | None:
    """Return whether an entry matches its place in the chain; None while it has no number."""
    number = event.number
    if number is None:
        return None
    return number - 1 in seals and event.seal == compute_chained_event_digest(seals[number - 1], number, event)


def parse_event_details(stored: str) -> dict[str, Any]:
    """Parse the details of an audit entry; what is no object of JSON is the value of the key "details"."""
    try:
        details = parse_json(stored)
    except (ValueError, RecursionError):
        return {"details": stored}
    return details if isinstance(details, dict) else {"details": details}
