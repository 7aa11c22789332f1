"""Search of the audit trail by words that the reader can see in an entry, in steps of bounded work.

The table has no index of its text: an agent whose event is recorded would wait for it. The database therefore compares
the entries of the trail one by one, at most `SEARCHED_ENTRIES` for a page, and the next page continues below them. What
it finds is compared again as the reader sees it, so that nobody finds what is masked for them by guessing.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from html import unescape
from operator import and_, or_
from typing import Any, Final

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import translation
from django.utils.html import strip_tags
from django.utils.translation import gettext

from checkpoints.db.decompressed_text_sql import StoredSize
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, Decision, ToolCall
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
from harness_site.audit.calls_of_audit_entries import TIME_UNTIL_ENTRY, AuditedCall, load_calls_of_unfolded_entries
from harness_site.audit.decision_consequences import (
    describe_consequence_of_decision,
    list_decisions_with_word_in_consequence,
)
from harness_site.audit.event_sentences import (
    build_entry_sentence,
    build_sentence_about_several_decisions,
    format_decision_label,
    list_kinds_with_word_in_sentence,
)
from harness_site.audit.folded_entry_pages import EntryRow, Routine
from harness_site.audit.format_event_details_and_actors import (
    list_beginnings_of_actors_with_word,
    list_machines_with_word_in_name,
    list_values_with_word_in_label,
)
from harness_site.audit.invitations_of_audit_entries import INVITATION_KINDS, load_invitations_of_entries
from harness_site.core.call_sentences import list_texts_of_default_sentences
from harness_site.core.masking.mask_argument_secrets_throughout_session import load_known_secrets_of_sessions
from harness_site.core.masking.masker import MASK, use_masking_rules_with_extra_values
from harness_site.core.money_amounts_in_call_arguments import GROUPED_NUMBER, list_readings_of_number
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden

#: Number of entries of the trail, whatever the other filters, among which one page searches.
SEARCHED_ENTRIES: Final = 10_000
#: Largest number of entries that one page compares as the reader sees them.
_MAX_COMPARED: Final = 2_000
#: Most words of a search; further ones are left out.
MOST_WORDS: Final = 8
#: A phrase in quotation marks, or a word.
_TERM: Final = re.compile(r"(?<!\S)[\"“„]([^\"“”„]*[^\"“”„\s][^\"“”„]*)[\"“”](?!\S)|(\S+)")
#: The number of an entry, as a page or an export writes it.
_ENTRY_NUMBER: Final = re.compile(r"#?([1-9]\d{0,2}(?:[.,]\d{3}){1,5}|[1-9]\d{0,17})", re.ASCII)
#: Punctuation beside a word, which a sentence may have between a text of its own and a name.
_PUNCTUATION: Final = ".,:;()!?…\"'“”„‘’‚"
#: Largest size in bytes of arguments that the database searches. Calls with larger ones are compared afterwards.
_MAX_ARGUMENT_BYTES: Final = 20_000
#: Details of an entry that is about a call.
_HAS_CALL: Final = Q(details__contains='"call_id":')
#: Kinds of entries that are about the text of a comment. The note of a hand-over is one.
_COMMENT_KINDS: Final = frozenset({AuditKind.COMMENTED, AuditKind.HANDED_OVER})
#: Largest number of entries that are read at once.
_CHUNK: Final = 1_000
#: Largest number of invitations whose notes are searched: the newest.
_MAX_INVITATIONS: Final = 200
#: Time that entries may be older than one that was recorded before them, because their transaction began earlier.
_DISORDER: Final = timedelta(hours=1)


def split_words(text: str) -> tuple[str, ...]:
    """Split a text into the words and the phrases in quotation marks of a search, in folded case."""
    parts = (_normalize_spaces(phrase or word) for phrase, word in _TERM.findall(text.replace("\0", "")))
    return tuple(dict.fromkeys(part for part in parts if part))[:MOST_WORDS]


def _normalize_spaces(text: str) -> str:
    return " ".join(text.casefold().split())


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
    #: Language of the reader. An export is written after the request has left it.
    language: str = field(default_factory=lambda: translation.get_language() or "en")

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
                break
        else:
            if not window.is_last:
                self.before, self.reached_at = window.oldest, window.reached_at
        if self.before is not None and before is None:
            yield from self._iterate_entries_of_wanted_numbers(self.before)

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

    def _iterate_entries_of_wanted_numbers(self, before: int) -> Iterator[AuditEntry]:
        """Iterate over the matching entries below the key `before` whose number is one of the words.

        An index finds them, so that a reader who knows a number does not have to go on from page to page.
        """
        numbers = [number for term in split_words(self.wanted.words) if (number := _parse_entry_number(term))]
        numbered = AuditEvent.objects.filter(workspace=self.workspace_pk, number__in=numbers, pk__lt=before)
        for pk, at in numbered.order_by("-pk").values_list("pk", "created_at") if numbers else ():
            for batch in self._iterate_batches(_Window(pk + 1, pk, at, is_last=True), 2):
                yield from self._build_found_entries(batch)

    def _build_found_entries(self, batch: Sequence[AuditEvent]) -> list[AuditEntry]:
        with translation.override(self.language):
            return _find_visible_entries(self.workspace_pk, list(batch), split_words(self.wanted.words))

    def _iterate_batches(self, window: _Window, first_batch: int) -> Iterator[Sequence[AuditEvent]]:
        """Iterate over the events of a window that may be found, each batch twice as large as the one before."""
        with translation.override(self.language):
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


def _build_condition_of_words(workspace_pk: int, terms: Sequence[str], window: _Window) -> Q:
    """Select the entries that may have all words of the terms. Their order in a phrase is compared afterwards."""
    words = list(dict.fromkeys(word.strip(_PUNCTUATION) or word for term in terms for word in term.split()))
    return reduce(and_, (_build_condition_of_word(workspace_pk, word, window) for word in words[:MOST_WORDS]), Q())


def _build_condition_of_word(workspace_pk: int, word: str, window: _Window) -> Q:
    """Select the entries that may have a word: in their actor, details, session or sentence, in the reason of their
    decision, or in the note of their invitation or hand-over; or that have it as their number."""
    reasons = Decision.objects.filter(_contains("reason", word), session=OuterRef("session"))
    if window.reached_at is not None:
        reasons = reasons.filter(created_at__gt=window.reached_at - _DISORDER)
    notes = Invitation.objects.filter(_contains("note", word) | _contains("email", word), workspace=workspace_pk)
    invitations = list(notes.order_by("-pk").values_list("pk", flat=True)[:_MAX_INVITATIONS])
    about_invitation = reduce(or_, (Q(details__contains=f'"invitation":{pk}') for pk in invitations), Q(pk__in=()))
    calls = _query_calls_of_sessions_in_window(workspace_pk, window)
    commented = calls.filter(_contains("comments__text", word)).values("session")
    return (
        _contains("actor", word)
        | _contains("details", _escape_as_json(word))
        | _contains("session__session_id", word)
        | _contains("session__title", word)
        | (Q(kind=AuditKind.DECIDED) & Q(Exists(reasons)))
        | (Q(kind__in=sorted(INVITATION_KINDS)) & about_invitation)
        | (Q(kind__in=sorted(_COMMENT_KINDS)) & Q(session__in=commented))
        | Q(number=_parse_entry_number(word) or -1)
        | _build_condition_of_word_in_sentence(word)
        | _build_condition_of_word_in_call(word, calls)
    )


def _build_condition_of_word_in_sentence(word: str) -> Q:
    """Select the entries whose sentence, or that about its consequence, may have a word in the language of the reader
    besides names."""
    found = Q(pk__in=())
    for entries in list_kinds_with_word_in_sentence(word):
        found |= (
            Q(kind=entries.kind, details__contains=entries.in_details) if entries.in_details else Q(kind=entries.kind)
        )
    for decision in sorted(list_decisions_with_word_in_consequence(word)):
        found |= Q(kind=AuditKind.DECIDED, details__contains=f'"{decision}"')
    for value in sorted(list_values_with_word_in_label(word)):
        found |= Q(details__contains=value)
    for beginning in sorted(list_beginnings_of_actors_with_word(word)):
        found |= Q(actor__startswith=beginning)
    if word in gettext("(API token)").casefold():
        found |= Q(actor_kind=ActorKind.TOKEN)
    if word in gettext("a deleted session").casefold():
        found |= Q(session=None)
    return found | Q(actor__in=sorted(list_machines_with_word_in_name(word)))


def _query_calls_of_sessions_in_window(workspace_pk: int, window: _Window) -> QuerySet[ToolCall]:
    """Query the calls of the sessions that entries of a window are about."""
    events = AuditEvent.objects.filter(_HAS_CALL, workspace=workspace_pk, pk__gte=window.oldest)
    if window.before is not None:
        events = events.filter(pk__lt=window.before)
    return ToolCall.objects.filter(workspace=workspace_pk, session__in=events.values("session"))


def _build_condition_of_word_in_call(word: str, calls: QuerySet[ToolCall]) -> Q:
    """Select the entries about a call of a session in which one may have a word in its sentence.

    The arguments before an edit are stored elsewhere, so an edited call may have any word.
    """
    if any(word in text.casefold() for text in list_texts_of_default_sentences()):
        return _HAS_CALL
    may_have = Q(asked_args_digest__gt="") | Q(size__gt=_MAX_ARGUMENT_BYTES)
    for text in sorted(_list_stored_forms(word)):
        may_have |= _contains("sentence", text) | _contains("tool", text) | _contains("args", _escape_as_json(text))
    return _HAS_CALL & Q(session__in=calls.alias(size=StoredSize("args")).filter(may_have).values("session"))


def _list_stored_forms(word: str) -> set[str]:
    """List what the stored arguments may have of a word: of a number, its digits without separators."""
    number = GROUPED_NUMBER.search(word)
    if number is None:
        return {word}
    *thousands, last = re.split(r"\D", number[0])
    forms = {word, "".join([*thousands, last])}
    if thousands:
        forms.add(".".join([*thousands, last]))
    if len(thousands) > 1 or (thousands and len(last) != 3):
        forms.add("".join(thousands))
    return forms


def _parse_entry_number(word: str) -> int | None:
    """Parse a word that is the number of an entry, such as `#1,203`."""
    found = _ENTRY_NUMBER.fullmatch(word.rstrip(_PUNCTUATION))
    return None if found is None else int(re.sub(r"\D", "", found[1]))


def _leave_out_number(terms: Sequence[str], number: int | None) -> list[str]:
    """Return the terms without those that are the number of an entry."""
    return [term for term in terms if number is None or _parse_entry_number(term) != number]


def _escape_as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _contains(column: str, word: str) -> Q:
    """Ignore case. SQLite does so for ASCII only, so letters beyond it match in their common case variants."""
    cases = {word} if word.isascii() else {word, word.lower(), word.upper(), word.title()}
    return reduce(or_, (Q(**{f"{column}__icontains": case}) for case in sorted(cases)))


def _find_visible_entries(workspace_pk: int, events: list[AuditEvent], terms: Sequence[str]) -> list[AuditEntry]:
    """Return the entries in whose visible text each term occurs. A fixed number of queries."""
    built = load_seals_and_build_entries(workspace_pk, events)
    entries = {entry.pk: entry for entry in built if isinstance(entry, AuditEntry)}
    loaded: list[Mapping[int, Sequence[str]]] = [
        _load_reasons_of_decisions(events),
        _load_notes_of_invitations(workspace_pk, events),
        _load_comments(workspace_pk, [entry for entry in entries.values() if entry.kind in _COMMENT_KINDS]),
    ]
    texts = {
        event.pk: [*_iterate_own_texts(event), *(text for found in loaded for text in found.get(event.pk, ()))]
        for event in events
    }
    # Masking takes time and only removes text; sentences are masked when they are built.
    terms_of_entries = {pk: _leave_out_number(terms, entry.number) for pk, entry in entries.items()}
    without_sentence = {pk for pk in entries if _has_all_terms(texts[pk], terms_of_entries[pk])}
    rows = [EntryRow((entry,)) for pk, entry in entries.items() if pk not in without_sentence]
    calls = load_calls_of_unfolded_entries(workspace_pk, rows)
    invitations = load_invitations_of_entries(workspace_pk, rows)
    secrets = load_known_secrets_of_sessions({entry.session_pk for entry in entries.values() if entry.session_pk})
    found = []
    for pk, entry in entries.items():
        terms = terms_of_entries[pk]
        with use_masking_rules_with_extra_values(secrets.get(entry.session_pk or 0, ())):
            candidates = [text for text in texts[pk] if any(_has_term(_normalize_spaces(text), term) for term in terms)]
            visible = [mask_and_reveal_hidden(text) for text in candidates]
            if not _has_all_terms(visible, terms):
                visible += _iterate_sentences(entry, calls.get(pk), invitations.get(pk))
        if _has_all_terms(visible, terms):
            found.append(entry)
    return found


def _iterate_sentences(entry: AuditEntry, call: AuditedCall | None, invitation: Invitation | None) -> Iterator[str]:
    """Yield the masked sentence of an entry with its consequence; of a decision also its label, and what the sentence
    of a row says that it shares with decisions about other calls."""
    sentence = unescape(strip_tags(build_entry_sentence(entry, call, invitation)))
    consequence = describe_consequence_of_decision(entry, call)
    yield f"{sentence}. {consequence}" if consequence else sentence
    if label := format_decision_label(entry):
        yield label
        yield unescape(strip_tags(build_sentence_about_several_decisions(entry, number="")))


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


def _load_comments(workspace_pk: int, entries: Iterable[AuditEntry]) -> dict[int, list[str]]:
    """Map the key of each entry of a comment to its text, and of a hand-over to its note, which is a comment too."""
    keys = {entry.pk: entry.details.get("comment") for entry in entries}
    wanted = {pk for pk in keys.values() if isinstance(pk, int)}
    calls = ToolCall.objects.filter(workspace=workspace_pk, comments__in=wanted)
    texts = dict(calls.values_list("comments__pk", "comments__text")) if wanted else {}
    return {entry: [texts[pk]] for entry, pk in keys.items() if pk in texts}


def _iterate_values(value: Any) -> Iterator[str]:
    """Yield the values of details. Their names are no data."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iterate_values(inner)
    elif value is not None:
        yield str(value)


def _has_all_terms(texts: Iterable[str], terms: Sequence[str]) -> bool:
    """Return whether each term occurs in one of the texts, and not across what is masked."""
    text = "\n".join(_normalize_spaces(part) for text in texts for part in text.split(MASK))
    return all(_has_term(text, term) for term in terms)


def _has_term(text: str, term: str) -> bool:
    """Return whether a text has a term; a number in whatever way its thousands are separated."""
    if term in text:
        return True
    if not GROUPED_NUMBER.fullmatch(term):
        return False
    wanted = list_readings_of_number(term)
    return any(not wanted.isdisjoint(list_readings_of_number(number)) for number in GROUPED_NUMBER.findall(text))
