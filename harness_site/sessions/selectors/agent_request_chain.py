"""Chain of sessions in which agents asked each other: who asked whom, from the first session down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.db.models import Case, F, QuerySet, TextField, Value, When
from django.db.models.functions import Length

from checkpoints.enums import PeerCallStatus
from checkpoints.models import PeerCall, Session
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.core.unreadable_rows_and_quarantine import filter_out_unreadable_records
from harness_site.sessions.selectors import (
    requests_from_other_agents,
    session_rows,
    waits_for_other_agents,
)
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.session_rows import SessionRow

#: Sessions and requests of one chain that are loaded.
MAX_ENTRIES: Final = 50
#: Requests above a session, and below it one after the other, that are followed.
MAX_LEVELS: Final = 12
#: Characters of a stored question or answer up to which its beginning is displayed.
MAX_TEXT_CHARS: Final = 20_000
_TEXT_COLUMNS: Final = ("request", "result", "late_result")


@dataclass(frozen=True, slots=True)
class RequestText:
    """A question or an answer: a JSON value without encrypted secrets, None if it `is_too_long` to be loaded."""

    value: Any
    is_too_long: bool


@dataclass(frozen=True, slots=True)
class RequestTexts:
    """What was asked, and what was answered in time or too late; None for what does not exist."""

    question: RequestText | None
    answer: RequestText | None
    late_answer: RequestText | None


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """A session at `depth` below the first one, and the request that it works on.

    The first session has no `request`, and one whose record does not match its seal is left out. `session_pk` is None
    for a request on which no session of this workspace works; `row` also if the session cannot be read. `texts` is None
    without `request`.
    """

    depth: int
    agent: str
    call_id: str
    request: PeerCall | None
    session_pk: int | None
    row: SessionRow | None
    texts: RequestTexts | None = None

    @property
    def time_until_answer(self) -> timedelta | None:
        """Return how long the answer took; None if there is none, or it came too late."""
        asked = self.request
        if asked is None or asked.status != PeerCallStatus.ANSWERED or asked.settled_at is None:
            return None
        return asked.settled_at - asked.created_at


@dataclass(frozen=True, slots=True)
class RequestChain:
    """The entries from the first session down, each before those that it asked. `is_complete` is False if there are
    more."""

    entries: tuple[ChainEntry, ...]
    is_complete: bool

    def list_names_by_session(self) -> dict[int, tuple[str, ...]]:
        """Return the titles and ids of the sessions, and the ids of their requests, by the key of the session."""
        names: defaultdict[int, list[str]] = defaultdict(list)
        for entry in self.entries:
            if entry.row is not None:
                names[entry.row.pk] += [entry.row.title, entry.row.session_id]
            if entry.request is not None:
                names[entry.request.session_id] += [entry.agent, entry.call_id]
        return {pk: tuple(of_session) for pk, of_session in names.items()}

    def list_values_by_session(self) -> dict[int, tuple[Any, ...]]:
        """Return the questions and answers by the key of the session that asked."""
        values: defaultdict[int, list[Any]] = defaultdict(list)
        for entry in self.entries:
            if entry.request is not None and entry.texts is not None:
                texts = (entry.texts.question, entry.texts.answer, entry.texts.late_answer)
                values[entry.request.session_id] += [text.value for text in texts if text is not None]
        return {pk: tuple(of_session) for pk, of_session in values.items()}


def load_request_chain(head: SessionHead) -> RequestChain | None:
    """Load the chain of requests that a session belongs to, with two queries for each level and one for the texts.

    Returns None if the page of the session shows the whole chain anyway: no other session asked for it, and none of
    those that it asked has asked another agent.
    """
    if head.asking_call is None and not head.peer_calls:
        return None
    path, is_complete = _load_requests_above(head.stored)
    root = path[0].session if path else head.stored
    calls, answering, has_all = _load_requests_below(root.pk, path, head.row.pk)
    if not path and calls.keys() <= {root.pk}:
        return None
    rows = session_rows.load_session_rows_in_order_of_pks(
        head.stored.workspace_id, tuple({root.pk, *answering.values()})
    )
    known = {row.pk: row for row in filter_out_unreadable_records(rows)}
    texts = _load_texts_of_requests([call for of_session in calls.values() for call in of_session])
    below = tuple(_iterate_entries_below(root.pk, 1, calls, answering, known, texts))
    first = ChainEntry(0, root.agent, root.session_id, None, root.pk, known.get(root.pk))
    return RequestChain((first, *below), is_complete and has_all)


def _load_requests_above(session: Session) -> tuple[list[PeerCall], bool]:
    """Load the requests that led to a session, the first one first, and whether these are all."""
    path: list[PeerCall] = []
    seen = {session.pk}
    for _ in range(MAX_LEVELS):
        call = requests_from_other_agents.find_request_of_session(session)
        if call is None or call.session_id in seen:
            return path, True
        path.insert(0, call)
        session = call.session
        seen.add(session.pk)
    return path, False


def _load_requests_below(
    root: int, path: list[PeerCall], session_pk: int
) -> tuple[Mapping[int, list[PeerCall]], Mapping[int, int], bool]:
    """Load the requests of the session `root` and of those that it asked, always with `path`, which leads to a session.

    Returns them by the session that asked, the sessions that work on them by the key of the request, and whether these
    are all.
    """
    calls: defaultdict[int, list[PeerCall]] = defaultdict(list)
    path_sessions = [*(call.session_id for call in path[1:]), *([session_pk] if path else ())]
    answering = {call.pk: pk for call, pk in zip(path, path_sessions, strict=True)}
    on_path = {call.session_id: call for call in path}
    seen = {root, *answering.values()}
    room, level = MAX_ENTRIES - 1 - len(path), [root]
    for _ in range(len(path) + MAX_LEVELS):
        others = list(_select_requests(level).exclude(pk__in=answering)[: room + 1])
        is_full = len(others) > room
        others = others[:room]
        room -= len(others)
        found = {
            call: pk for call, pk in waits_for_other_agents.load_answering_session_pks(others).items() if pk not in seen
        }
        answering |= found
        asked = [on_path[pk] for pk in level if pk in on_path]
        for call in sorted([*others, *asked], key=lambda call: call.pk):
            calls[call.session_id].append(call)
        seen.update(found.values())
        level = [*found.values(), *(answering[call.pk] for call in asked)]
        if not level or is_full:
            _add_remaining_requests_of_path(calls, path)
            return calls, answering, not is_full
    return calls, answering, not _select_requests(level).exists()


def _add_remaining_requests_of_path(calls: Mapping[int, list[PeerCall]], path: Iterable[PeerCall]) -> None:
    for call in path:
        if call not in calls[call.session_id]:
            calls[call.session_id].append(call)


def _select_requests(sessions: list[int]) -> QuerySet[PeerCall]:
    """Select the requests of sessions; what was asked and answered, which may be long, only where a seal needs it."""
    calls = PeerCall.objects.filter(session__in=sessions).order_by("pk")
    return calls if get_seal_keys() is not None else calls.defer("request", "result", "late_result")


def _load_texts_of_requests(calls: list[PeerCall]) -> dict[int, RequestTexts]:
    """Load the questions and answers by the key of the request, without long ones; verified rows have them."""
    if get_seal_keys() is not None:
        stored = [(call.pk, call.request, call.result, call.late_result) for call in calls]
    else:
        short_texts = {
            f"short_{column}": Case(
                When(**{f"{column}__isnull": True}, then=None),
                When(**{f"{column}_length__lte": MAX_TEXT_CHARS}, then=F(column)),
                default=Value(""),  # JSON is never empty
                output_field=TextField(null=True),
            )
            for column in _TEXT_COLUMNS
        }
        lengths = {f"{column}_length": Length(column) for column in _TEXT_COLUMNS}
        rows = PeerCall.objects.filter(pk__in=[call.pk for call in calls]).alias(**lengths).annotate(**short_texts)
        stored = list(rows.values_list("pk", *short_texts))
    return {pk: RequestTexts(*map(_parse_text_or_mark_too_long, texts)) for pk, *texts in stored}


def _parse_text_or_mark_too_long(stored: str | None) -> RequestText | None:
    if stored is None:
        return None
    if not 0 < len(stored) <= MAX_TEXT_CHARS:
        return RequestText(None, is_too_long=True)
    return RequestText(waits_for_other_agents.parse_json_and_hide_encrypted_secrets(stored), is_too_long=False)


def _iterate_entries_below(
    session: int,
    depth: int,
    calls: Mapping[int, list[PeerCall]],
    answering: Mapping[int, int],
    known: Mapping[int, SessionRow],
    texts: Mapping[int, RequestTexts],
) -> Iterator[ChainEntry]:
    for call in calls.get(session, ()):
        pk = answering.get(call.pk)
        request = call if row_seals.is_row_genuine_or_sealing_off(call) else None
        row = None if pk is None else known.get(pk)
        shown_texts = None if request is None else texts.get(call.pk)
        yield ChainEntry(depth, call.peer, call.call_id, request, pk, row, shown_texts)
        if pk is not None:
            yield from _iterate_entries_below(pk, depth + 1, calls, answering, known, texts)
