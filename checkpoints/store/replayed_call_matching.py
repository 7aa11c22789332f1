"""Operations of a session that no saved version has answered yet, and their pairing with the calls of this run.

An operation is every attempt under one idempotency key. A saved transcript that has the result of a call answers its
operation, which is closed from then on. Until then a call of the same kind (tool and arguments) may be that operation
requested again, after a crash and with another call id. Operations of one kind are interchangeable, so the calls of a
run are paired with the logged operations of their kind in order; a call id that is in the log is matched first.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checkpoints.enums import SETTLED_CALL_STATUSES, CallStatus

if TYPE_CHECKING:
    from checkpoints.models import ToolCall

#: Name of a tool, and the digest of the arguments it was requested with.
CallFingerprint = tuple[str, str]
#: Function that reads the calls of the session that no saved version has answered, oldest first.
ReadCalls = Callable[[], "Sequence[ToolCall]"]


@dataclass(eq=False)
class Operation:
    """Attempts under one key: their rows in the log, and the ids of the calls that requested it."""

    key: str
    kind: CallFingerprint | None = None
    #: Kind of the arguments to which a person has changed those of `kind`.
    edited_kind: CallFingerprint | None = None
    call_ids: set[str] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    #: Calls of this run, by id and kind, that are paired with it.
    asked: set[tuple[str, CallFingerprint]] = field(default_factory=set)


def get_call_fingerprint(call: ToolCall) -> CallFingerprint:
    """Return the kind of a logged call, by the arguments it was requested with."""
    return call.tool, call.asked_args_digest or call.args_digest


class OpenOperations:
    """Open operations as one owner of a session knows them. Safe to use from many threads.

    If `loaded` is False, operations of earlier runs may be in the log, and are read when they are first needed.
    """

    def __init__(self, *, loaded: bool = False) -> None:
        self._lock = threading.Lock()
        self._loaded = loaded
        self._by_key: dict[str, Operation] = {}
        #: Operations that were paired with each call id, in order.
        self._by_call_id: dict[str, list[Operation]] = {}
        #: Rows whose outcome this process does not know.
        self._unsettled: set[int] = set()
        #: Operation of each call that this run has requested, by call id.
        self._paired: dict[str, dict[CallFingerprint, Operation]] = {}
        #: Logged operations that no call of this run is paired with yet, in the order of the log.
        self._unpaired: dict[CallFingerprint, list[Operation]] = {}
        #: Requested calls without an operation yet, in the order of the requests.
        self._arrived: dict[CallFingerprint, list[str]] = {}
        #: Calls that the resumed transcript, or its journaled answer, requests by these ids.
        self._expected: frozenset[tuple[str, CallFingerprint]] = frozenset()
        #: Rows whose result was taken from the resume point, with the id it was taken for.
        self._taken: dict[int, str] = {}
        #: Keys of paired operations whose dispatch ended without a result.
        self._without_result: set[str] = set()
        self._logged_keys: set[str] = set()
        self._numbers: dict[CallFingerprint, int] = {}
        self._numbers_step = -1

    def reset_pairings(self, expected: Iterable[tuple[str, CallFingerprint]] = ()) -> None:
        """Drop all pairings of logged operations with calls of this run, because a model is about to be asked again."""
        with self._lock:
            for operation in self._list_paired_operations():
                operation.asked.clear()
            for pairing in (self._paired, self._arrived, self._taken, self._without_result):
                pairing.clear()
            self._expected = frozenset(expected)
            self._loaded = False

    def inherit_call_ids(self, earlier: OpenOperations) -> None:
        """Take over by which call ids the operations of an earlier owner were requested, whose results are not saved.

        Args:
            earlier: Operations as that owner knew them.
        """
        with earlier._lock:
            known = [(call_id, list(operations)) for call_id, operations in earlier._by_call_id.items()]
        with self._lock:
            for call_id, operations in known:
                for before in operations:
                    operation = self._by_key.setdefault(before.key, Operation(before.key, before.kind))
                    operation.rows |= before.rows
                    operation.call_ids |= before.call_ids
                    self._index_operation_by_call_id(call_id, operation)

    def mark_for_reload(self) -> None:
        """Read the log again before the next use, because it has changed without this object."""
        with self._lock:
            self._loaded = False

    # pairing of calls with operations

    def remember_requested_call(self, kind: CallFingerprint, call_id: str) -> None:
        """Record the order in which calls were requested, before any of them waits for the database."""
        with self._lock:
            self._add_requested_call(kind, call_id)

    def _add_requested_call(self, kind: CallFingerprint, call_id: str) -> None:
        call_ids = self._arrived.setdefault(kind, [])
        if call_id not in call_ids:
            call_ids.append(call_id)

    def assign_operation_key(
        self, kind: CallFingerprint, call_id: str, step: int, make_key: Callable[[int], str], read: ReadCalls
    ) -> str:
        """Return the key of the operation that a call is paired with: one of the log, or a new one.

        `make_key` makes the key of the n-th new operation of this kind in `step`. Raises what `read` raises.
        """
        with self._lock:
            if not self._loaded:
                self._add_logged_calls_and_drop_answered(read())
            self._add_requested_call(kind, call_id)
            self._pair_requested_calls(kind, step, make_key)
            return self._paired[call_id][kind].key

    def assign_operation_key_by_call_id(
        self, kind: CallFingerprint, call_id: str, new_key: str, read: ReadCalls
    ) -> str:
        """Return the key of the open operation that was requested by the same call id, or `new_key` if there is none.

        Raises what `read` raises.
        """
        with self._lock:
            if not self._loaded:
                self._add_logged_calls_and_drop_answered(read())
            operation = self._find_operation_of_call_id(kind, call_id) or Operation(new_key, kind)
            self._pair_operation(kind, call_id, operation)
            return operation.key

    def _pair_requested_calls(self, kind: CallFingerprint, step: int, make_key: Callable[[int], str]) -> None:
        """Pair every arrived call of `kind` with its operation: by call id first, the others in order."""
        other_ids = []
        for call_id in self._arrived.pop(kind, []):
            operation = self._find_operation_of_call_id(kind, call_id)
            if operation is None:
                other_ids.append(call_id)
            else:
                self._pair_operation(kind, call_id, operation)
        for call_id in other_ids:
            self._pair_operation(
                kind,
                call_id,
                self._find_next_unpaired(kind, call_id)
                or self._create_operation_with_next_free_key(kind, step, make_key),
            )

    def _find_operation_of_call_id(self, kind: CallFingerprint, call_id: str) -> Operation | None:
        return (
            self._find_paired_operation(kind, call_id)
            or self._find_unpaired_by_call_id(kind, call_id)
            or self._find_edited_by_call_id(kind, call_id)
        )

    def _find_paired_operation(self, kind: CallFingerprint, call_id: str) -> Operation | None:
        return self._paired.get(call_id, {}).get(kind)

    def _list_paired_operations(self) -> list[Operation]:
        return [operation for kinds in self._paired.values() for operation in kinds.values()]

    def _find_unpaired_by_call_id(self, kind: CallFingerprint, call_id: str) -> Operation | None:
        return next((operation for operation in self._unpaired.get(kind, []) if call_id in operation.call_ids), None)

    def _find_edited_by_call_id(self, kind: CallFingerprint, call_id: str) -> Operation | None:
        """Return the operation of a call that a framework makes with the arguments to which a person changed it."""
        candidates = [candidate for candidate in self._by_call_id.get(call_id, []) if candidate.edited_kind == kind]
        return next(
            (operation for operation in candidates if operation in self._unpaired.get(operation.kind or kind, [])), None
        )

    def _find_next_unpaired(self, kind: CallFingerprint, call_id: str) -> Operation | None:
        """Return the first unpaired operation. If the transcript requests calls by their ids, each of those keeps
        its own."""
        operations = self._unpaired.get(kind, [])
        if (call_id, kind) in self._expected:
            operations = [
                operation
                for operation in operations
                if not any((known_id, kind) in self._expected for known_id in operation.call_ids)
            ]
        return operations[0] if operations else None

    def _create_operation_with_next_free_key(
        self, kind: CallFingerprint, step: int, make_key: Callable[[int], str]
    ) -> Operation:
        if step != self._numbers_step:
            self._numbers, self._numbers_step = {}, step
        number = self._numbers.get(kind, 0)
        while make_key(number) in self._logged_keys:
            number += 1
        self._numbers[kind] = number + 1
        return Operation(make_key(number), kind)

    def _pair_operation(self, kind: CallFingerprint, call_id: str, operation: Operation) -> None:
        self._unpair_operation(operation)
        for unpaired in (self._unpaired.get(kind, []), self._unpaired.get(operation.kind or kind, [])):
            if operation in unpaired:
                unpaired.remove(operation)
        self._without_result.discard(operation.key)
        self._by_key[operation.key] = operation
        self._paired.setdefault(call_id, {})[kind] = operation
        operation.asked.add((call_id, kind))

    def _unpair_operation(self, operation: Operation) -> None:
        for call_id, kind in operation.asked:
            kinds = self._paired[call_id]
            del kinds[kind]
            if not kinds:
                del self._paired[call_id]
        operation.asked.clear()

    def restore_pairing(self, call: ToolCall) -> None:
        """Pair a logged call of this run with its operation again, after the process that held the pairing ended."""
        kind = get_call_fingerprint(call)
        with self._lock:
            operation = self._by_key.setdefault(call.idempotency_key, Operation(call.idempotency_key, kind))
            self._pair_operation(kind, call.call_id, operation)

    def restore_unknown_pairings(self, calls: Iterable[ToolCall]) -> None:
        """Pair logged calls of this run that another process has issued, if this one does not know them yet."""
        with self._lock:
            known_keys = set(self._by_key)
        for call in calls:
            if call.idempotency_key not in known_keys:
                self.restore_pairing(call)
                self.mark_for_reload()

    def release_pairing(self, kind: CallFingerprint, call_id: str) -> None:
        """Release the operation of a call whose dispatch ended without a result, so that another call id may
        request it."""
        with self._lock:
            if call_id in self._arrived.get(kind, []):
                self._arrived[kind].remove(call_id)
            operation = self._find_paired_operation(kind, call_id)
            if operation is not None:
                self._without_result.add(operation.key)
                self._loaded = False

    def remember_result_as_replayed(self, row: int, call_id: str) -> None:
        """Record that the result of a logged call was taken from the resume point, by its id, instead of
        dispatching the call."""
        with self._lock:
            self._taken[row] = call_id
            for kind, operations in list(self._unpaired.items()):
                for operation in [candidate for candidate in operations if row in candidate.rows]:
                    self._pair_operation(kind, call_id, operation)

    # the log

    def remember_logged_call(self, call_id: str, key: str, row: int, *, settled: bool) -> None:
        """Record that a call is paired with a row of the log: it was issued, or found there."""
        with self._lock:
            operation = self._by_key.setdefault(key, Operation(key))
            operation.rows.add(row)
            operation.call_ids.add(call_id)
            self._index_operation_by_call_id(call_id, operation)
            if not settled:
                self._unsettled.add(row)

    def _index_operation_by_call_id(self, call_id: str, operation: Operation) -> None:
        operations = self._by_call_id.setdefault(call_id, [])
        if operation in operations:
            operations.remove(operation)
        operations.append(operation)

    def remember_settled_call(self, row: int) -> None:
        with self._lock:
            self._unsettled.discard(row)

    def _add_logged_calls_and_drop_answered(self, logged_calls: Sequence[ToolCall]) -> None:
        attempts: dict[str, list[ToolCall]] = {}
        for call in logged_calls:
            attempts.setdefault(call.idempotency_key, []).append(call)
        for operation in self._list_paired_operations():
            if operation.rows and operation.key not in attempts:  # answered, by a save whose answer was lost
                self._drop_operation(operation)
        self._unpaired, self._logged_keys = {}, set(attempts)
        in_use = {operation.key for operation in self._list_paired_operations()} - self._without_result
        for key, calls in attempts.items():
            if calls[-1].status == CallStatus.SUPERSEDED:  # the attempt that replaced it is answered
                continue
            operation = self._add_logged_operation(key, calls)
            if key not in in_use:
                self._unpaired.setdefault(get_call_fingerprint(calls[0]), []).append(operation)
        self._loaded = True
        for kind, operations in list(self._unpaired.items()):
            for operation in list(operations):
                for row in operation.rows & self._taken.keys():
                    self._pair_operation(kind, self._taken[row], operation)

    def _add_logged_operation(self, key: str, calls: list[ToolCall]) -> Operation:
        operation = self._by_key.setdefault(key, Operation(key))
        operation.kind = get_call_fingerprint(calls[0])
        last = calls[-1]
        operation.edited_kind = (last.tool, last.args_digest) if last.asked_args_digest else None
        for call in calls:
            operation.rows.add(call.pk)
            operation.call_ids.add(call.call_id)
            operations = self._by_call_id.setdefault(call.call_id, [])
            if operation not in operations:
                operations.insert(0, operation)
            if call.status not in SETTLED_CALL_STATUSES:
                self._unsettled.add(call.pk)
        return operation

    # operations answered by a save

    def list_row_keys_answered_by_results(self, results: Counter[str], read: ReadCalls) -> list[int]:
        """List the rows that the given numbers of new results by call id answer, lowest first. Raises what `read`
        raises."""
        with self._lock:
            self._load_log_if_call_id_unknown(results, read)
            return sorted(
                {row for operation in self._list_operations_answered_by_results(results) for row in operation.rows}
            )

    def filter_paired_call_ids(self, call_ids: Iterable[str], read: ReadCalls) -> list[str]:
        """Return the call ids that are paired with an operation. Raises what `read` raises."""
        with self._lock:
            self._load_log_if_call_id_unknown(call_ids, read)
            return [call_id for call_id in call_ids if call_id in self._by_call_id]

    def _load_log_if_call_id_unknown(self, call_ids: Iterable[str], read: ReadCalls) -> None:
        if not self._loaded and any(call_id not in self._by_call_id for call_id in call_ids):
            self._add_logged_calls_and_drop_answered(read())

    def _list_operations_answered_by_results(self, results: Counter[str]) -> list[Operation]:
        """List the operations that new results answer. For a reused call id, the last operations paired with it are
        answered."""
        return [
            operation
            for call_id, count in results.items()
            for operation in self._by_call_id.get(call_id, [])[-count:]
            if count > 0
        ]

    def drop_answered_operations(self, results: Counter[str]) -> None:
        """Drop the operations that the results of a saved version answer."""
        with self._lock:
            for operation in self._list_operations_answered_by_results(results):
                if operation.rows & self._unsettled:  # no outcome is known, although the model got a result
                    self._loaded = False
                self._drop_operation(operation)
            for operation in [candidate for call_id in results for candidate in self._paired.get(call_id, {}).values()]:
                self._unpair_operation(operation)  # it was requested, and ended without a result of its own
                self._loaded = False

    def _drop_operation(self, operation: Operation) -> None:
        self._by_key.pop(operation.key, None)
        for call_id in operation.call_ids:
            operations = self._by_call_id.get(call_id, [])
            if operation in operations:
                operations.remove(operation)
            if not operations:
                self._by_call_id.pop(call_id, None)
        self._unpair_operation(operation)
        if operation.kind is not None and operation in self._unpaired.get(operation.kind, []):
            self._unpaired[operation.kind].remove(operation)
