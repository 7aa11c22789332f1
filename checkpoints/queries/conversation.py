"""A window of a transcript as a conversation: messages, the calls in them with what became of each, and the places
where one run ended and another went on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Any

from django.db.models import QuerySet

from checkpoints.enums import RunStatus
from checkpoints.exceptions import InvalidInput
from checkpoints.models import Checkpoint, Session
from checkpoints.queries import blocks, calls, origins, pairing, transcripts
from checkpoints.queries.blocks import Call, Part, Result
from checkpoints.queries.calls import CallRecord
from checkpoints.queries.origins import Origin, RunFacts
from checkpoints.queries.pairing import Spot
from checkpoints.queries.transcripts import WINDOW, StoredMessage
from checkpoints.serde import canonical, parse_or_text

#: A window reaches so many messages further where a call and its result would be torn apart.
_MARGIN = 16
#: So few more belong to the window too: a link to three messages helps nobody.
_FEW = 10
#: Between two messages so many runs that ended are named; a web application may have thousands that wrote nothing.
NAMED_RUNS = 4


@dataclass(frozen=True, slots=True)
class Place:
    """A version of a session: the first `length` messages of the transcript that ends in `segment_id`.

    `newest` says that it is where the session stands now, so that calls which are not yet in the transcript belong
    to it.
    """

    version: int
    segment_id: int | None
    length: int
    newest: bool


@dataclass(frozen=True, slots=True)
class CallCard:
    """A call in the conversation: what was asked, what came back, and the attempts the log has (oldest first).

    A call that the log does not have (a tool that only reads) has no attempts.
    """

    call: Call
    result: Result | None
    result_position: int | None
    attempts: tuple[CallRecord, ...]
    kind: str = field(default="card", init=False)

    @property
    def record(self) -> CallRecord | None:
        return self.attempts[-1] if self.attempts else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. `version` is the first version that holds it; None where that one was deleted."""

    pk: int
    position: int
    role: str
    at: datetime
    version: int | None
    run_number: int | None
    size: int
    parts: tuple[Part | CallCard, ...]
    kind: str = field(default="message", init=False)


@dataclass(frozen=True, slots=True)
class Handover:
    """Here the runs `ended` (in order) gave way to `follower`."""

    ended: tuple[RunFacts, ...]
    follower: RunFacts
    kind: str = field(default="handover", init=False)

    @property
    def named(self) -> tuple[RunFacts, ...]:
        """The ended runs to name: where there are many, the first, the newest that were lost, and the last."""
        if len(self.ended) <= NAMED_RUNS:
            return self.ended
        between = [run for run in self.ended[1:-1] if run.status == RunStatus.LOST]
        return (self.ended[0], *between[-(NAMED_RUNS - 2) :], self.ended[-1])

    @property
    def unnamed(self) -> int:
        """How many ended runs are only counted."""
        return len(self.ended) - len(self.named)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """From here on `version` replaced what an earlier version said; `forked` says that it is another session's."""

    version: int | None
    forked: bool
    kind: str = field(default="rewrite", init=False)


Item = Entry | CallCard | Handover | Rewrite


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages `first` to `upto` (exclusive) of a version, with what lies between them."""

    place: Place
    first: int
    upto: int
    items: tuple[Item, ...]

    @property
    def earlier(self) -> bool:
        return self.first > 0

    @property
    def later(self) -> bool:
        return self.upto < self.place.length


def newest(session: Session) -> Place:
    return Place(session.latest_version, session.head_segment_id, session.message_count, newest=True)


def place(session: Session, version: int | None = None) -> Place | None:
    """The newest version, or the one asked for; None where there is no such version."""
    if version is None or version == session.latest_version:
        return newest(session)
    stored = Checkpoint.objects.filter(session=session, version=version).values_list("segment_id", "length").first()
    return None if stored is None else Place(version, *stored, newest=False)


def read(session: Session, at: Place, *, first: int | None = None, upto: int | None = None) -> Conversation:
    """The conversation of a version. Without bounds: its newest messages; with one bound: the window beside it."""
    if upto is None:
        upto = at.length if first is None or at.length - first - WINDOW <= _FEW else first + WINDOW
    upto = max(0, min(upto, at.length))
    if first is None:
        first = upto - WINDOW if upto - WINDOW > _FEW else 0
    lead, messages = _window(at, first, upto)
    first, upto = (messages[0].position, messages[-1].position + 1) if messages else (upto, upto)
    return Conversation(at, first, upto, _Builder(session, at, messages, lead, ends=upto == at.length).items())


def around(session: Session, step: int, *, size: int = 4) -> Conversation | None:
    """The end of the conversation as it stood in the newest version not after `step`: the place a call came from."""
    found = _before(session.pk, step).first()
    if found is None:
        return None
    return read(session, Place(*found, newest=False), first=max(0, found[2] - size))


def _before(session: int, step: int) -> QuerySet[Checkpoint, tuple[int, int, int]]:
    stored = Checkpoint.objects.filter(session=session, version__lte=step).order_by("-version")
    return stored.values_list("version", "segment_id", "length")[:1]


def through(session: Session, at: Place, *, size: int = 100) -> Iterator[Conversation]:
    """A version from its start to its end, `size` messages at a time; where messages are large, fewer."""
    first, width = 0, size
    while not first or first < at.length:
        shown = read(session, at, first=first, upto=first + width)
        if shown.first > first and width > 1:
            width //= 2
            continue
        yield replace(shown, items=tuple(item for item in shown.items if _position(item) >= first))
        first, width = max(shown.upto, first + 1), size


def _position(item: Item) -> float:
    return item.position if isinstance(item, Entry) else inf


def _window(at: Place, first: int, upto: int) -> tuple[StoredMessage | None, list[StoredMessage]]:
    """The stored messages, on both sides stretched so that no result is parted from its call, and the one before."""
    if at.segment_id is None or first >= upto:
        return None, []
    stored = transcripts.window(at.segment_id, max(0, first - _MARGIN), min(at.length, upto + _MARGIN))
    if stored[0].position > first:  # neighbours so large that they would push out what was asked for
        stored = transcripts.window(at.segment_id, first, upto)
    start = next((index for index, message in enumerate(stored) if message.position >= first), 0)
    while start > 0 and _continues(stored[start]):
        start -= 1
    end = next((index for index, message in enumerate(stored) if message.position >= upto), len(stored))
    while end < len(stored) and _continues(stored[end]):
        end += 1
    return stored[start - 1] if start else None, stored[start:end]


def _continues(message: StoredMessage) -> bool:
    parts = blocks.read(message.body)
    return bool(parts) and isinstance(parts[0], Result)


def _canonical(args: Any) -> str:
    """As the log would have them; empty for what it cannot have, such as a number without an end."""
    try:
        return canonical(args)
    except InvalidInput:
        return ""


class _Builder:
    """Puts one window together; six queries, however long it is."""

    def __init__(
        self,
        session: Session,
        at: Place,
        messages: Sequence[StoredMessage],
        lead: StoredMessage | None,
        *,
        ends: bool,
    ) -> None:
        self.session, self.messages, self.lead = session, messages, lead
        self.parts = [blocks.read(message.body) for message in messages]
        self.newest_end = at.newest and ends
        self.segments = origins.segments(messages)
        self.origins = origins.origins(session.pk, [lead, *messages] if lead else messages)
        self.log = self._log(at.version)
        self.pairs = pairing.pair(self.parts)
        self.used: set[tuple[str, int]] = set()
        self.runs = self._runs()

    def items(self) -> tuple[Item, ...]:
        items: list[Item] = []
        before = self.origins.get(self.lead.position) if self.lead else None
        run_number = before.run_number if before else None
        for index, message in enumerate(self.messages):
            origin = self.origins.get(message.position)
            entry = self._entry(index, message, origin)
            items += self._rewrite(message, origin)
            if origin is not None and origin.run_number is not None:
                items += self._handover(run_number, origin.run_number)
                run_number = origin.run_number
            if entry.parts or not self.parts[index]:  # what only answers calls is shown with them
                items.append(entry)
        return (*items, *self._pending(run_number)) if self.newest_end else tuple(items)

    def _entry(self, index: int, message: StoredMessage, origin: Origin | None) -> Entry:
        version = origin.version if origin else None
        kept = [
            self._card(part, (index, number), version) if isinstance(part, Call) else part
            for number, part in enumerate(self.parts[index])
            if (index, number) not in self.pairs.taken
        ]
        return Entry(
            pk=message.pk,
            position=message.position,
            role=message.role,
            at=message.created_at,
            version=version,
            run_number=origin.run_number if origin else None,
            size=message.size,
            parts=tuple(kept),
        )

    def _card(self, call: Call, spot: Spot, version: int | None) -> CallCard:
        attempts = self._attempts(call, version)
        if spot not in self.pairs.answers:
            return CallCard(call, None, None, attempts)
        index, number = self.pairs.answers[spot]
        result = self.parts[index][number]
        return CallCard(call, result if isinstance(result, Result) else None, self.messages[index].position, attempts)

    def _attempts(self, call: Call, version: int | None) -> tuple[CallRecord, ...]:
        """The log's rows of a call in the transcript. Providers reuse call ids, so tool, arguments and the step it
        was issued in have to fit too; without a fresh row it was answered from an earlier one."""
        steps = {key: rows for key, rows in self.log.items() if key[0] == call.call_id and rows[0].tool == call.name}
        text = _canonical(call.args)
        steps = {key: rows for key, rows in steps.items() if rows[0].args == text} or steps
        if not steps:
            return ()
        fresh = [key for key in steps if key not in self.used and (version is None or key[1] >= version - 1)]
        chosen = min(fresh) if fresh else max(steps)
        self.used.add(chosen)
        return tuple(steps[chosen])

    def _log(self, version: int) -> dict[tuple[str, int], list[CallRecord]]:
        named = {part.call_id for parts in self.parts for part in parts if isinstance(part, Call)}
        log: defaultdict[tuple[str, int], list[CallRecord]] = defaultdict(list)
        for record in calls.named(self.session.pk, named, since_step=version if self.newest_end else None):
            log[record.call_id, record.step].append(record)
        return log

    def _rewrite(self, message: StoredMessage, origin: Origin | None) -> Iterator[Rewrite]:
        segment = self.segments.get(message.segment_id)
        if segment and segment.parent_id is not None and segment.parent_length == message.position:
            yield Rewrite(origin.version if origin else None, forked=segment.parent_session != self.session.pk)

    def _pending(self, run_number: int | None) -> Iterator[Item]:
        """What the log has and the transcript does not have yet, then the runs that have not written anything."""
        waiting = [rows for key, rows in self.log.items() if key not in self.used]
        for rows in sorted(waiting, key=lambda rows: rows[0].pk):
            last = rows[-1]
            yield from self._handover(run_number, last.run_number)
            run_number = max(run_number or 0, last.run_number)
            yield CallCard(Call(last.call_id, last.tool, parse_or_text(last.args)), None, None, tuple(rows))
        if self.runs:
            yield from self._handover(run_number, max(self.runs))

    def _handover(self, before: int | None, after: int) -> Iterator[Handover]:
        if before is None or after <= before or after not in self.runs:
            return
        ended = tuple(self.runs[number] for number in range(before, after) if number in self.runs)
        yield Handover(ended, self.runs[after])

    def _runs(self) -> dict[int, RunFacts]:
        numbers = [origin.run_number for origin in self.origins.values() if origin.run_number is not None]
        numbers += [record.run_number for rows in self.log.values() for record in rows]
        if not numbers:
            return {}
        return origins.runs(self.session.pk, min(numbers), None if self.newest_end else max(numbers))
