"""Following a foreign transcript from its start: what is new in it, where it goes, and what becomes a version."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from checkpoints.adapters.importing.calls import CallLog
from checkpoints.adapters.importing.report import ImportReport
from checkpoints.adapters.importing.rows import Origin, storable_text
from checkpoints.adapters.importing.said import START, Said, Totals
from checkpoints.adapters.importing.writer import Place, Turn, Writer
from checkpoints.enums import Phase
from checkpoints.models import ToolCall
from checkpoints.queries import blocks
from checkpoints.saving.state import State
from checkpoints.saving.statements import NewMessage
from checkpoints.saving.store import Store
from checkpoints.serde import digests, money
from checkpoints.serde.canonical import canonical

#: A turn that is longer becomes several versions, and so much is written in one transaction.
MESSAGES = 250
CHARACTERS = 4_000_000


class Recorder:
    """One session being imported. What is there already is recognised by its keys and left alone.

    `by_place`: keys stand for a place in the transcript, so that only those in its present form count as known.
    `otherwise` is when something was said that bears no time. Raises `ImportRefused` where the session is none that an
    import may add to, and `ImportOvertaken` where another process writes to it meanwhile.
    """

    def __init__(
        self, store: Store, origin: Origin, report: ImportReport, *, otherwise: datetime, by_place: bool = False
    ) -> None:
        self.origin, self.report = origin, report
        self.totals = Totals()
        self._calls = CallLog(store, report)
        self._writer = Writer(store, origin)
        self._writer.load(self._calls)
        self.path = self._writer.path
        self._index = {place.key: number for number, place in enumerate(self.path)}
        self._elsewhere = set[str]() if by_place else self._writer.known
        self._turn, self._turns = Turn(), list[Turn]()
        self._by_place = by_place
        self._first: datetime | None = None
        self._at = otherwise

    def knows(self, key: str) -> bool:
        """Whether the session has this message already, in any of its versions."""
        return key in self._index or key in self._elsewhere

    def place(self, key: str) -> int | None:
        """Where in the transcript, as it stands now, a message is."""
        return self._index.get(key)

    def last_body(self) -> Any:
        """The last message that an earlier import wrote; None where there is none."""
        return self._writer.last_body()

    def say(self, said: Said) -> None:
        """The next message of the transcript."""
        self._at = said.at or self._at
        self._first = self._first or self._at
        self.report.messages += 1
        body = canonical(said.body, "message")
        parts = blocks.read(body)
        if self.knows(said.key):
            self._calls.follow(said.key, parts, self._at, new=False)
            return
        if said.after is not None:
            self._go_back(said.after)
        if said.begins_turn or self._full(self._turn):
            self._end_turn()
        self._append(said, body, self._calls.follow(said.key, parts, self._at, new=True))

    def _go_back(self, after: str) -> None:
        """Leave what stands behind the message of that key; where it is not in the transcript, nothing is left."""
        keep = 0 if after == START else self._index.get(after, len(self.path) - 1) + 1
        if keep < len(self.path):
            self._end_turn()
            for place in self.path[keep:]:
                del self._index[place.key]
                if not self._by_place:
                    self._elsewhere.add(place.key)
            del self.path[keep:]
            self._turn.keep = keep

    def _append(self, said: Said, body: str, calls: list[ToolCall]) -> None:
        if {call.call_id for call in calls} & {call.call_id for call in self._turn.calls}:
            self._end_turn()  # a version knows a call by its id
        chain = digests.link(self.path[-1].chain if self.path else digests.EMPTY_CHAIN, body)
        place = Place(said.key, storable_text(said.role, 32), chain)
        self._turn.messages.append(NewMessage(len(self.path), said.key, place.role, self._at, body, chain))
        self._turn.calls += calls
        self._turn.characters += len(body)
        self._index[said.key] = len(self.path)
        self.path.append(place)
        self.report.new_messages += 1

    def _end_turn(self) -> None:
        if not self._turn.messages:
            return
        usage = self.totals.usage()
        stored = None if usage is None else canonical(usage, "usage")
        self._turn.state = State(Phase.TURN, None, money.dump(self.totals.cost), stored, None)
        self._turns.append(self._turn)
        self._turn = Turn()
        if self._full(*self._turns):
            self._write()

    def _full(self, *turns: Turn) -> bool:
        long = sum(len(turn.messages) for turn in turns) >= MESSAGES
        return long or sum(turn.characters for turn in turns) >= CHARACTERS

    def _write(self) -> None:
        if self._turns and self._first is not None:
            made = self._writer.write(self._turns, self._calls, first=self._first)
            self.report.new_sessions += made
            self.report.new_versions += len(self._turns)
            self._turns = []

    def flush(self) -> None:
        """Write what waits."""
        self._end_turn()
        self._write()

    def close(self) -> None:
        """The transcript has ended: write what waits, and say how the session stands."""
        self.flush()
        if self._first is not None:
            self._writer.finish(last=self._at, broken_off=self._calls.broken_off)
            self.report.sessions += 1
            self.report.session_ids.append(self.origin.session_id)
