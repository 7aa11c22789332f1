"""The operations of a session that no saved version has answered yet, and which call of this run stands for which.

An operation is everything that was tried under one idempotency key. A saved transcript that has the result of a call
answers its operation: from then on it is history. Until then a call of the same kind (tool and arguments) may be that
operation asked for again, after a crash and with another call id. Operations of one kind are alike, so the calls of a
run pair off with the logged operations of their kind in order; a call id that the log knows decides before the order.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from checkpoints.enums import SETTLED_CALL, CallStatus
from checkpoints.models import ToolCall

#: A tool, and the digest of the arguments it was asked with.
Kind = tuple[str, str]
#: Reads the calls of the session that no saved version has answered, oldest first.
Read = Callable[[], Sequence[ToolCall]]


@dataclass(eq=False)
class Operation:
    """The attempts under one key: their rows in the log, and the ids of the calls that asked for it."""

    key: str
    kind: Kind | None = None
    call_ids: set[str] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    #: The calls of this run, by id and kind, that stand for it.
    asked: set[tuple[str, Kind]] = field(default_factory=set)


def kind_of(call: ToolCall) -> Kind:
    """The kind of a logged call, by the arguments it was asked with."""
    return call.tool, call.asked_args_digest or call.args_digest


class OpenOperations:
    """What one owner of a session knows about them. Safe to use from many threads.

    `loaded` False: operations of earlier runs may be in the log, and are read when they are needed first.
    """

    def __init__(self, *, loaded: bool = False) -> None:
        self._lock = threading.Lock()
        self._loaded = loaded
        self._by_key: dict[str, Operation] = {}
        #: The operations that each call id has stood for, in the order in which it did.
        self._by_call_id: dict[str, list[Operation]] = {}
        #: Rows whose outcome this process does not know.
        self._unsettled: set[int] = set()
        #: What each call that this run has asked for stands for, by its id.
        self._paired: dict[str, dict[Kind, Operation]] = {}
        #: Logged operations that no call of this run stands for yet, in the order of the log.
        self._unpaired: dict[Kind, list[Operation]] = {}
        #: Calls that were asked for and have no operation yet, in the order in which they were asked for.
        self._arrived: dict[Kind, list[str]] = {}
        #: Calls that the resumed transcript, or its journaled answer, asks for by these very ids.
        self._expected: frozenset[tuple[str, Kind]] = frozenset()
        #: Rows whose result was taken from the resume point, with the id it was taken for.
        self._taken: dict[int, str] = {}
        #: Keys of paired operations whose dispatch ended without a result.
        self._without_result: set[str] = set()
        self._logged_keys: set[str] = set()
        self._numbers: dict[Kind, int] = {}
        self._numbers_step = -1

    def reset(self, expected: Iterable[tuple[str, Kind]] = ()) -> None:
        """A model is about to be asked anew: no logged operation is paired with a call of this run any more."""
        with self._lock:
            for operation in self._pairings():
                operation.asked.clear()
            for pairing in (self._paired, self._arrived, self._taken, self._without_result):
                pairing.clear()
            self._expected = frozenset(expected)
            self._loaded = False

    def require_reading(self) -> None:
        """Read the log again before the next use: it has changed without this object."""
        with self._lock:
            self._loaded = False

    # which operation a call is

    def arrive(self, kind: Kind, call_id: str) -> None:
        """Note the order in which calls were asked for, before anything waits for the database."""
        with self._lock:
            self._arrive(kind, call_id)

    def _arrive(self, kind: Kind, call_id: str) -> None:
        arrived = self._arrived.setdefault(kind, [])
        if call_id not in arrived:
            arrived.append(call_id)

    def key(self, kind: Kind, call_id: str, step: int, make_key: Callable[[int], str], read: Read) -> str:
        """The key of the operation that a call stands for: one of the log, or a new one.

        `make_key` makes the key of the n-th new operation of this kind in `step`. Raises what `read` raises.
        """
        with self._lock:
            if not self._loaded:
                self._load(read())
            self._arrive(kind, call_id)
            self._pair(kind, step, make_key)
            return self._paired[call_id][kind].key

    def _pair(self, kind: Kind, step: int, make_key: Callable[[int], str]) -> None:
        """Give every call of `kind` that has arrived its operation: by call id first, the others in order."""
        others = []
        for call_id in self._arrived.pop(kind, []):
            known = self._pairing(kind, call_id) or self._named(kind, call_id)
            if known is None:
                others.append(call_id)
            else:
                self._stand_for(kind, call_id, known)
        for call_id in others:
            self._stand_for(kind, call_id, self._next(kind, call_id) or self._new(kind, step, make_key))

    def _pairing(self, kind: Kind, call_id: str) -> Operation | None:
        return self._paired.get(call_id, {}).get(kind)

    def _pairings(self) -> list[Operation]:
        return [operation for kinds in self._paired.values() for operation in kinds.values()]

    def _named(self, kind: Kind, call_id: str) -> Operation | None:
        return next((each for each in self._unpaired.get(kind, []) if call_id in each.call_ids), None)

    def _next(self, kind: Kind, call_id: str) -> Operation | None:
        """The first operation that is left. Where the transcript asks for calls by their ids, each of them keeps its
        own."""
        left = self._unpaired.get(kind, [])
        if (call_id, kind) in self._expected:
            left = [each for each in left if not any((known, kind) in self._expected for known in each.call_ids)]
        return left[0] if left else None

    def _new(self, kind: Kind, step: int, make_key: Callable[[int], str]) -> Operation:
        if step != self._numbers_step:
            self._numbers, self._numbers_step = {}, step
        number = self._numbers.get(kind, 0)
        while make_key(number) in self._logged_keys:
            number += 1
        self._numbers[kind] = number + 1
        return Operation(make_key(number), kind)

    def _stand_for(self, kind: Kind, call_id: str, operation: Operation) -> None:
        self._stop_standing(operation)
        if operation in self._unpaired.get(kind, []):
            self._unpaired[kind].remove(operation)
        self._without_result.discard(operation.key)
        self._by_key[operation.key] = operation
        self._paired.setdefault(call_id, {})[kind] = operation
        operation.asked.add((call_id, kind))

    def _stop_standing(self, operation: Operation) -> None:
        for call_id, kind in operation.asked:
            kinds = self._paired[call_id]
            del kinds[kind]
            if not kinds:
                del self._paired[call_id]
        operation.asked.clear()

    def give_back(self, kind: Kind, call_id: str) -> None:
        """The dispatch of a call ended without a result. Its operation may be asked for by another id now."""
        with self._lock:
            if call_id in self._arrived.get(kind, []):
                self._arrived[kind].remove(call_id)
            operation = self._pairing(kind, call_id)
            if operation is not None:
                self._without_result.add(operation.key)
                self._loaded = False

    def take(self, row: int, call_id: str) -> None:
        """The result of a logged call was taken from the resume point, by its id, instead of dispatching the call."""
        with self._lock:
            self._taken[row] = call_id
            for kind, left in list(self._unpaired.items()):
                for operation in [each for each in left if row in each.rows]:
                    self._stand_for(kind, call_id, operation)

    # the log

    def note(self, call_id: str, key: str, row: int, *, settled: bool) -> None:
        """A call stands for a row of the log: it was issued, or found there."""
        with self._lock:
            operation = self._by_key.setdefault(key, Operation(key))
            operation.rows.add(row)
            operation.call_ids.add(call_id)
            self._stood_for(call_id, operation)
            if not settled:
                self._unsettled.add(row)

    def _stood_for(self, call_id: str, operation: Operation) -> None:
        known = self._by_call_id.setdefault(call_id, [])
        if operation in known:
            known.remove(operation)
        known.append(operation)

    def settled(self, row: int) -> None:
        with self._lock:
            self._unsettled.discard(row)

    def _load(self, logged: Sequence[ToolCall]) -> None:
        attempts: dict[str, list[ToolCall]] = {}
        for call in logged:
            attempts.setdefault(call.idempotency_key, []).append(call)
        for operation in self._pairings():
            if operation.rows and operation.key not in attempts:  # answered, by a save whose answer was lost
                self._forget(operation)
        self._unpaired, self._logged_keys = {}, set(attempts)
        in_use = {operation.key for operation in self._pairings()} - self._without_result
        for key, calls in attempts.items():
            if calls[-1].status == CallStatus.SUPERSEDED:  # what came in its place is answered
                continue
            operation = self._loaded_operation(key, calls)
            if key not in in_use:
                self._unpaired.setdefault(kind_of(calls[0]), []).append(operation)
        self._loaded = True
        for kind, left in list(self._unpaired.items()):
            for operation in list(left):
                for row in operation.rows & self._taken.keys():
                    self._stand_for(kind, self._taken[row], operation)

    def _loaded_operation(self, key: str, calls: list[ToolCall]) -> Operation:
        operation = self._by_key.setdefault(key, Operation(key))
        operation.kind = kind_of(calls[0])
        for call in calls:
            operation.rows.add(call.pk)
            operation.call_ids.add(call.call_id)
            known = self._by_call_id.setdefault(call.call_id, [])
            if operation not in known:
                known.insert(0, operation)
            if call.status not in SETTLED_CALL:
                self._unsettled.add(call.pk)
        return operation

    # what a save answers

    def rows_answered_by(self, results: Counter[str], read: Read) -> list[int]:
        """The rows that so many new results of each call id answer, lowest first. Raises what `read` raises."""
        with self._lock:
            self._load_for(results, read)
            return sorted({row for each in self._answered_by(results) for row in each.rows})

    def named(self, call_ids: Iterable[str], read: Read) -> list[str]:
        """Those call ids that stand for an operation. Raises what `read` raises."""
        with self._lock:
            self._load_for(call_ids, read)
            return [call_id for call_id in call_ids if call_id in self._by_call_id]

    def _load_for(self, call_ids: Iterable[str], read: Read) -> None:
        if not self._loaded and any(call_id not in self._by_call_id for call_id in call_ids):
            self._load(read())

    def _answered_by(self, results: Counter[str]) -> list[Operation]:
        """Where a call id was used again, the results are of those that it stood for last."""
        return [
            operation
            for call_id, count in results.items()
            for operation in self._by_call_id.get(call_id, [])[-count:]
            if count > 0
        ]

    def answer(self, results: Counter[str]) -> None:
        """A version with these results is saved: what they answer is history."""
        with self._lock:
            for operation in self._answered_by(results):
                if operation.rows & self._unsettled:  # no result yet, whatever the model was told
                    self._loaded = False
                self._forget(operation)
            for operation in [each for call_id in results for each in self._paired.get(call_id, {}).values()]:
                self._stop_standing(operation)  # it was asked for, and ended without a result of its own
                self._loaded = False

    def _forget(self, operation: Operation) -> None:
        self._by_key.pop(operation.key, None)
        for call_id in operation.call_ids:
            known = self._by_call_id.get(call_id, [])
            if operation in known:
                known.remove(operation)
            if not known:
                self._by_call_id.pop(call_id, None)
        self._stop_standing(operation)
        if operation.kind is not None and operation in self._unpaired.get(operation.kind, []):
            self._unpaired[operation.kind].remove(operation)
