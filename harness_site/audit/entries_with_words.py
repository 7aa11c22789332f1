"""Search of the audit trail by words that the reader can see in an entry, in steps of bounded work.

The table has no index of its text: an agent whose event is recorded would wait for it. The database therefore compares
the entries of the trail one by one, at most `SEARCHED_ENTRIES` for a page, and the next page continues below them. What
it finds is compared again as the reader sees it, so that nobody finds what is masked for them by guessing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import and_, or_
from typing import Any, Final

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, Decision
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.accounts.models import Invitation
from harness_site.audit.audit_trail_query import (
    PAGE_VIEWS,
    RUN_EVENTS,
    AuditEntry,
    AuditFilter,
    load_seals_and_build_entries,
    parse_event_details,
    query_filtered_events,
)
from harness_site.audit.calls_of_audit_entries import TIME_UNTIL_ENTRY
from harness_site.audit.folded_entry_pages import Routine
from harness_site.audit.invitations_of_audit_entries import INVITATION_KINDS
from harness_site.core.masking.masker import MASK, use_masking_rules_with_extra_values
from harness_site.core.masking.secret_values_in_call_arguments import load_known_secrets_of_sessions
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

#: Number of entries of the trail, whatever the other filters, among which one page searches.
SEARCHED_ENTRIES: Final = 10_000
#: Largest number of entries that one page compares as the reader sees them.
_MAX_COMPARED: Final = 2_000
#: Most words of a search; further ones are left out.
MOST_WORDS: Final = 8
#: Largest number of entries that are read at once.
_CHUNK: Final = 1_000
#: Largest number of invitations whose notes are searched: the newest.
_MAX_INVITATIONS: Final = 200
#: Time that entries may be older than one that was recorded before them, because their transaction began earlier.
_DISORDER: Final = timedelta(hours=1)


def split_words(text: str) -> tuple[str, ...]:
    """Split a text into the words of a search, in folded case."""
    return tuple(dict.fromkeys(text.replace("\0", "").casefold().split()))[:MOST_WORDS]


@dataclass(frozen=True, slots=True)
class _Window:
    """Entries that are searched at once: those below the key `before`, down to `oldest`. `is_last` if none is older."""

    before: int | None
    oldest: int
    reached_at: datetime | None
    is_last: bool


@dataclass(slots=True)
class WordSearch:
    """Search for the entries that match a filter with words.

    After the entries have been read to their end, the search can go on below the key `before`; it is None if there is
    nothing below. `reached_at` is then the time of the oldest entry that was searched.
    """

    workspace_pk: int
    wanted: AuditFilter
    #: What is not searched, because the page leaves it out.
    hides: frozenset[Routine] = frozenset()
    before: int | None = None
    reached_at: datetime | None = None

    def iterate_entries(self, *, before: int | None, oldest: int, first_batch: int, limit: int) -> Iterator[AuditEntry]:
        """Iterate over the matching entries among `SEARCHED_ENTRIES`, newest first.

        Args:
            before: Only entries with a smaller key.
            oldest: Only entries with at least this key.
            first_batch: Number of entries that are read first, for a reader who may stop early; each further batch has
                twice as many as the one before.
            limit: Largest number of entries.
        """
        start = _skip_entries_after_period(self.workspace_pk, self.wanted, before)
        window = _find_window(self.workspace_pk, self.wanted, start, oldest)
        compared_count = 0
        for batch in self._iterate_batches(window, first_batch):
            found = self._build_found_entries(batch)
            yield from found[:limit]
            limit -= len(found)
            if limit <= 0:
                return
            compared_count += len(batch)
            if compared_count >= _MAX_COMPARED:
                self.before, self.reached_at = batch[-1].pk, batch[-1].created_at
                return
        if not window.is_last:
            self.before, self.reached_at = window.oldest, window.reached_at

    def iterate_all_entries(self) -> Iterator[AuditEntry]:
        """Iterate over all matching entries of the trail, newest first, for an export."""
        before = _skip_entries_after_period(self.workspace_pk, self.wanted, None)
        while True:
            window = _find_window(self.workspace_pk, self.wanted, before, 0)
            for batch in self._iterate_batches(window, _CHUNK):
                yield from self._build_found_entries(batch)
            if window.is_last:
                return
            before = window.oldest

    def _build_found_entries(self, batch: Sequence[AuditEvent]) -> list[AuditEntry]:
        events = _filter_visible_events(self.workspace_pk, batch, split_words(self.wanted.words))
        entries = load_seals_and_build_entries(self.workspace_pk, events)
        return [entry for entry in entries if isinstance(entry, AuditEntry)]

    def _iterate_batches(self, window: _Window, first_batch: int) -> Iterator[Sequence[AuditEvent]]:
        """Iterate over the events of a window that may be found, each batch twice as large as the one before."""
        condition = _build_condition_of_words(self.workspace_pk, split_words(self.wanted.words), window)
        events = query_filtered_events(self.workspace_pk, self.wanted).filter(condition, pk__gte=window.oldest)
        if Routine.PAGE_VIEW in self.hides:
            events = events.exclude(kind__in=sorted(PAGE_VIEWS))
        if Routine.RUN_EVENT in self.hides:
            events = events.exclude(kind__in=sorted(RUN_EVENTS), actor_kind=ActorKind.MACHINE)
        events = events.annotate(searched_session_id=F("session__session_id"), searched_title=F("session__title"))
        size, before = first_batch, window.before
        while True:
            size = min(size, _CHUNK)
            batch = list((events if before is None else events.filter(pk__lt=before)).order_by("-pk")[:size])
            if batch:
                yield batch
            if len(batch) < size:
                return
            before, size = batch[-1].pk, 2 * size


def _find_window(workspace_pk: int, wanted: AuditFilter, before: int | None, oldest: int) -> _Window:
    """Find the entries to search next: the newest of the trail below `before`, of one session the newest of these."""
    events: QuerySet[AuditEvent] = AuditEvent.objects.filter(workspace=workspace_pk)
    if wanted.session:  # these are found by an index
        events = query_filtered_events(workspace_pk, AuditFilter(session=wanted.session))
    if before is not None:
        events = events.filter(pk__lt=before)
    keys = events.order_by("-pk").values_list("pk", "created_at")
    last = next(iter(keys[SEARCHED_ENTRIES - 1 : SEARCHED_ENTRIES]), None)
    if last is None or last[0] <= oldest:
        return _Window(before, oldest, None, is_last=True)
    is_older_than_period = wanted.times.since is not None and last[1] < wanted.times.since - _DISORDER
    return _Window(before, last[0], last[1], is_last=is_older_than_period)


def _skip_entries_after_period(workspace_pk: int, wanted: AuditFilter, before: int | None) -> int | None:
    """Return a key that no entry of the wanted period exceeds, found by halving, if the trail is long; else `before`.

    The times of entries ascend with their keys, but for transactions that take long.
    """
    until = wanted.times.until
    events = AuditEvent.objects.filter(workspace=workspace_pk)
    if until is None or wanted.session:
        return before
    newest = events.order_by("-pk").values_list("pk", flat=True)
    pks = list(newest[:1]) + list(newest[SEARCHED_ENTRIES : SEARCHED_ENTRIES + 1])
    if len(pks) < 2:
        return before
    low, high = 0, pks[0] + 1
    while high - low > 1:
        middle = (low + high) // 2
        row = events.filter(pk__gte=middle).order_by("pk").values_list("pk", "created_at").first()
        if row is None or row[1] >= until + _DISORDER:
            high = middle
        else:
            low = max(middle, row[0])
    return high if before is None else min(before, high)


def _build_condition_of_words(workspace_pk: int, words: Sequence[str], window: _Window) -> Q:
    return reduce(and_, (_build_condition_of_word(workspace_pk, word, window) for word in words), Q())


def _build_condition_of_word(workspace_pk: int, word: str, window: _Window) -> Q:
    """Select the entries that may have a word: in their actor, details or session, or in the reason of their decision
    or the note of their invitation."""
    reasons = Decision.objects.filter(_contains("reason", word), session=OuterRef("session"))
    if window.reached_at is not None:
        reasons = reasons.filter(created_at__gt=window.reached_at - _DISORDER)
    notes = Invitation.objects.filter(_contains("note", word) | _contains("email", word), workspace=workspace_pk)
    invitations = list(notes.order_by("-pk").values_list("pk", flat=True)[:_MAX_INVITATIONS])
    about_invitation = reduce(or_, (Q(details__contains=f'"invitation":{pk}') for pk in invitations), Q(pk__in=()))
    return (
        _contains("actor", word)
        | _contains("details", json.dumps(word, ensure_ascii=False)[1:-1])
        | _contains("session__session_id", word)
        | _contains("session__title", word)
        | (Q(kind=AuditKind.DECIDED) & Q(Exists(reasons)))
        | (Q(kind__in=sorted(INVITATION_KINDS)) & about_invitation)
    )


def _contains(column: str, word: str) -> Q:
    """Ignore case. SQLite does so for ASCII only, so letters beyond it match in their common case variants."""
    cases = {word} if word.isascii() else {word, word.lower(), word.upper(), word.title()}
    return reduce(or_, (Q(**{f"{column}__icontains": case}) for case in sorted(cases)))


def _filter_visible_events(workspace_pk: int, events: Sequence[AuditEvent], words: Sequence[str]) -> list[AuditEvent]:
    """Return the events in whose visible text each word occurs. At most five queries."""
    reasons = _load_reasons_of_decisions(events)
    notes = _load_notes_of_invitations(workspace_pk, events)
    texts = {
        event.pk: [*_iterate_own_texts(event), *reasons.get(event.pk, ()), *notes.get(event.pk, ())] for event in events
    }
    # Masking takes time and only removes text.
    candidates = [event for event in events if _has_all_words(texts[event.pk], words)]
    secrets = load_known_secrets_of_sessions({event.session_id for event in candidates if event.session_id is not None})
    found = []
    for event in candidates:
        with use_masking_rules_with_extra_values(secrets.get(event.session_id or 0, ())):
            texts_with_words = (text for text in texts[event.pk] if any(word in text.casefold() for word in words))
            visible = [mask_and_reveal_hidden(text).replace(MASK, "\n") for text in texts_with_words]
        if _has_all_words(visible, words):
            found.append(event)
    return found


def _iterate_own_texts(event: AuditEvent) -> Iterator[str]:
    """Yield the names in an event, and the id and the title of its session."""
    yield from (event.actor, *_iterate_values(parse_event_details(event.details)))
    session_id, title = event.searched_session_id, event.searched_title  # type: ignore[attr-defined]
    yield from (text for text in (session_id, title) if text)


def _load_reasons_of_decisions(events: Sequence[AuditEvent]) -> dict[int, list[str]]:
    """Map the key of each event of a decision to the reasons that may be its own, which are as they were written."""
    decided = [event for event in events if event.kind == AuditKind.DECIDED and event.session_id is not None]
    if not decided:
        return {}
    stored = Decision.objects.filter(
        session__in={event.session_id for event in decided},
        created_at__gt=min(event.created_at for event in decided) - TIME_UNTIL_ENTRY,
        created_at__lte=max(event.created_at for event in decided),
    ).exclude(reason="")
    decisions: defaultdict[tuple[int, str, str, str], list[Decision]] = defaultdict(list)
    for decision in stored if get_seal_keys() is not None else stored.defer("result", "evidence"):
        if row_seals.is_row_genuine_or_sealing_off(decision):
            decisions[decision.session_id, decision.kind, decision.actor, decision.actor_kind].append(decision)
    return {
        event.pk: [
            decision.reason
            for decision in decisions[event.session_id or 0, _get_decision(event), event.actor, event.actor_kind]
            if timedelta() <= event.created_at - decision.created_at < TIME_UNTIL_ENTRY
        ]
        for event in decided
    }


def _get_decision(event: AuditEvent) -> str:
    return str(parse_event_details(event.details).get("decision", ""))


def _load_notes_of_invitations(workspace_pk: int, events: Iterable[AuditEvent]) -> dict[int, tuple[str, str]]:
    """Map the key of each event about an invitation that still exists to its note and its address."""
    keys = {
        event.pk: parse_event_details(event.details).get("invitation")
        for event in events
        if event.kind in INVITATION_KINDS
    }
    wanted = {pk for pk in keys.values() if isinstance(pk, int)}
    invitations = Invitation.objects.filter(workspace=workspace_pk).in_bulk(wanted) if wanted else {}
    return {
        event: (invitations[pk].note, invitations[pk].email)
        for event, pk in keys.items()
        if isinstance(pk, int) and pk in invitations
    }


def _iterate_values(value: Any) -> Iterator[str]:
    """Yield the values of details. Their names are no data."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iterate_values(inner)
    elif value is not None:
        yield str(value)


def _has_all_words(texts: Iterable[str], words: Sequence[str]) -> bool:
    text = "\n".join(texts).casefold()
    return all(word in text for word in words)
