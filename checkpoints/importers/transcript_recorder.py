"""Recorder of a foreign transcript from its start: finds new messages and their position, and groups them into
versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from checkpoints.db import clock
from checkpoints.db.hot_statements import NewMessage
from checkpoints.enums import Phase
from checkpoints.formats import digests, money_amount_codec, tool_calls_in_messages
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.formats.parse_message_parts import Part
from checkpoints.formats.storable_text import truncate_to_storable
from checkpoints.importers.import_errors import ImportRefused
from checkpoints.importers.import_report import ImportReport
from checkpoints.importers.imported_calls import ImportedCallLog
from checkpoints.importers.imported_message_and_usage import TRANSCRIPT_START, ImportedMessage, UsageTotals
from checkpoints.importers.imported_session_and_run import SessionEnd, TranscriptOrigin
from checkpoints.importers.price_table import Cost, PriceTable, choose_stated_or_estimated_cost
from checkpoints.importers.session_writer import ImportedTurn, ImportWriter, MessagePlace
from checkpoints.models import ToolCall
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import VersionState

#: Limits of a turn in one version and transaction; a longer turn becomes several versions.
MAX_BUFFERED_MESSAGES = 250
MAX_BUFFERED_CHARACTERS = 4_000_000
#: Longest time since the newest message of a transcript that may go on.
_LONGEST_PAUSE: Final = timedelta(hours=1)


class TranscriptRecorder:
    """Recorder of one imported session. Existing messages are recognised by their keys and not written again.

    `has_positional_keys`: keys stand for a position in the transcript, so that only those in its current form count as
    known.
    `requires_same_first_message`: another file of the session has to begin with the same message, or it is refused.
    `otherwise` is the time of a transcript that has no times. Raises `ImportRefused` if the session is not one that an
    import may extend, and `ImportOvertaken` if another process writes to it meanwhile.
    """

    def __init__(
        self,
        store: Store,
        origin: TranscriptOrigin,
        report: ImportReport,
        *,
        otherwise: datetime,
        live: bool = False,
        has_positional_keys: bool = False,
        requires_same_first_message: bool = False,
        prices: PriceTable | None = None,
        open_writer: Callable[[Store, TranscriptOrigin], ImportWriter] = ImportWriter,
    ) -> None:
        self.origin, self.report = origin, report
        self.totals = UsageTotals()
        self._prices = prices
        self._calls = ImportedCallLog(store, report, live=live)
        self._writer = open_writer(store, origin)
        self._writer.load_existing_transcript(self._calls)
        self.path = self._writer.path
        self._index = {place.key: number for number, place in enumerate(self.path)}
        self._elsewhere = set[str]() if has_positional_keys else self._writer.known
        self._turn, self._turns = ImportedTurn(), list[ImportedTurn]()
        self._has_positional_keys, self._requires_same_first_message, self._live = (
            has_positional_keys,
            requires_same_first_message,
            live,
        )
        self._otherwise = otherwise
        self._first: datetime | None = None
        self._newest: datetime | None = None
        self._at: datetime | None = None
        self._started = self._counted = False
        #: Characters of messages that may still be repeated, so that a session is not many times as large as its file.
        self._repeatable_characters = MAX_BUFFERED_CHARACTERS

    def has_message(self, key: str) -> bool:
        """Return whether the session has this message already, in any of its versions."""
        return self._writer.repeats or key in self._index or key in self._elsewhere

    @property
    def replaces_last_message_if_it_grows(self) -> bool:
        """Whether the last message is replaced if it comes again with more content."""
        return self._writer.replaces_last_message_if_it_grows

    @property
    def stores_lines(self) -> bool:
        """Whether the lines of the transcript are stored as they are, so that no message needs to repeat their
        fields."""
        return self._writer.stores_lines

    def find_message_position(self, key: str) -> int | None:
        """Find the position of a message in the current transcript."""
        return self._index.get(key)

    def load_last_message_body(self) -> Any:
        """Load the last message that an earlier import wrote; None if there is none."""
        return self._writer.load_last_message_body()

    def record_message(self, message: ImportedMessage, parts: Sequence[Part]) -> None:
        """Record the next message of the transcript, whose body has `parts`.

        Raises `InvalidInput` if it cannot be stored exactly.
        """
        body = to_canonical_json(message.body, "message")
        self._repeatable_characters += len(body)
        if not self._started:
            self._require_same_source_file(message)
        self._note_time_and_backfill_earlier(message.at)
        self._started = True
        self.report.messages += 1
        if self._is_last_message_with_more_content(message.key, body):
            self._begin_branch_before_last_message()
        elif self.has_message(message.key):
            self._calls.add_message_calls_and_results(message, parts, self._at or self._otherwise, new=False)
            return
        if message.after is not None:
            self._begin_branch_after_message(message.after)
        if message.begins_turn or self._is_batch_full(self._turn):
            self._end_turn_and_write_batch_if_full()
        calls = self._calls.add_message_calls_and_results(message, parts, self._at or self._otherwise, new=True)
        self._append_message_to_turn(message, body, calls)
        self.report.new_messages += 1

    def repeat_messages(
        self,
        keys: Mapping[str, str],
        after: str,
        build_body: Callable[[str, dict[str, Any]], dict[str, Any]],
    ) -> None:
        """Append messages that an earlier form of the transcript has once more, in the same version as the last one.

        Their calls and results are not new. If the messages are larger than a version may be, or all repeated messages
        of the transcript are by much larger than its others, only the last ones that fit are appended.

        Args:
            keys: Keys of the new messages, by the keys of those that they repeat.
            after: Key of the message that they follow. If it is not the last one, nothing is appended: an earlier
                import has read it.
            build_body: Function that gets the key and the body of a message, and returns the body of the new one.
        """
        if not keys or self._writer.repeats or not self.path or self.path[-1].key != after:
            return
        self._write_pending_turns()
        size = min(MAX_BUFFERED_CHARACTERS, self._repeatable_characters)
        for key, role, stored in self._writer.load_messages_by_key_within_size([*keys], size):
            if keys[key] in self._index or keys[key] in self._elsewhere:
                continue
            body = build_body(key, parse_json(stored))
            text = to_canonical_json(body, "message")
            self._repeatable_characters -= len(text)
            self._turn.repeated_results.update(tool_calls_in_messages.list_call_ids_of_results(body))
            self._append_message_to_turn(ImportedMessage(keys[key], role, body), text, [])

    def _is_last_message_with_more_content(self, key: str, body: str) -> bool:
        """Return whether a message is the last one of the transcript, with more content than that had."""
        if (
            self._writer.repeats
            or not self.replaces_last_message_if_it_grows
            or not self.path
            or self.path[-1].key != key
        ):
            return False
        before = self.path[-2].chain if len(self.path) > 1 else digests.EMPTY_CHAIN
        return digests.extend_hash_chain(before, body) != self.path[-1].chain

    def _begin_branch_before_last_message(self) -> None:
        self._end_turn_and_write_batch_if_full()
        del self._index[self.path.pop().key]
        self._turn.keep = len(self.path)

    def _require_same_source_file(self, message: ImportedMessage) -> None:
        """Refuse another file of the same name: its transcript begins differently."""
        origin, path = self.origin, self._writer.source_path
        if not self._requires_same_first_message or not self.path or self.has_message(message.key):
            return
        if path and origin.source_path and path != origin.source_path:
            raise ImportRefused(origin.session_id, f"it was imported from {path}, which begins differently")

    def _note_time_and_backfill_earlier(self, at: datetime | None) -> None:
        """Set the time of the next message. Messages before the first time get it too."""
        if at is None:
            return
        if self._at is None:
            for turn in [*self._turns, self._turn]:
                turn.set_all_times(at)
        self._at = at
        self._first = at if self._first is None else min(self._first, at)
        self._newest = at if self._newest is None else max(self._newest, at)

    def _begin_branch_after_message(self, key: str) -> None:
        """Remove the messages after the one of that key; all of them if the key is not in the transcript."""
        keep = 0 if key == TRANSCRIPT_START else self._index.get(key, len(self.path) - 1) + 1
        if keep < len(self.path):
            self._end_turn_and_write_batch_if_full()
            for place in self.path[keep:]:
                del self._index[place.key]
                if not self._has_positional_keys:
                    self._elsewhere.add(place.key)
            del self.path[keep:]
            self._turn.keep = keep

    def _append_message_to_turn(self, message: ImportedMessage, body: str, calls: list[ToolCall]) -> None:
        if {call.call_id for call in calls} & {call.call_id for call in self._turn.calls}:
            self._end_turn_and_write_batch_if_full()  # within one version a call is identified by its id
        chain = digests.extend_hash_chain(self.path[-1].chain if self.path else digests.EMPTY_CHAIN, body)
        place = MessagePlace(message.key, truncate_to_storable(message.role, 32), chain)
        at = self._at or self._otherwise
        self._turn.messages.append(NewMessage(len(self.path), message.key, place.role, at, body, chain))
        self._turn.calls += calls
        self._turn.characters += len(body)
        self._index[message.key] = len(self.path)
        self.path.append(place)

    def _end_turn_and_write_batch_if_full(self) -> None:
        if not self._turn.messages:
            return
        usage = self.totals.build_stored_usage_or_none()
        usage_json = None if usage is None else to_canonical_json(usage, "usage")
        cost = self._get_stated_or_estimated_cost().amount
        self._turn.state = VersionState(
            Phase.TURN, None, "0" if cost is None else money_amount_codec.encode_amount_as_json(cost), usage_json, None
        )
        self._turns.append(self._turn)
        self._turn = ImportedTurn()
        if self._is_batch_full(*self._turns):
            self._write_pending_turns()

    def _has_transcript_ended_by_message_age(self) -> bool:
        """Return whether the newest message is so old that the transcript ended, whatever the time of its file is.

        The time of a file that was copied or unpacked is often that of the copy.
        """
        return self._newest is not None and clock.now() - self._newest > _LONGEST_PAUSE

    def _get_stated_or_estimated_cost(self) -> Cost:
        return choose_stated_or_estimated_cost(self.totals.cost, self.totals.by_model, self._prices)

    def _is_batch_full(self, *turns: ImportedTurn) -> bool:
        has_many_messages = sum(len(turn.messages) for turn in turns) >= MAX_BUFFERED_MESSAGES
        return has_many_messages or sum(turn.characters for turn in turns) >= MAX_BUFFERED_CHARACTERS

    def _write_pending_turns(self) -> None:
        if self._turns:
            is_new = self._writer.write_turns(self._turns, self._calls, first=self._first or self._otherwise)
            self.report.new_sessions += is_new
            self.report.new_versions += len(self._turns)
            self._turns = []

    def end_turn_and_write_pending_turns(self) -> None:
        """Write the pending turns."""
        self._end_turn_and_write_batch_if_full()
        self._write_pending_turns()

    def flush(self, *, interrupted: bool = False) -> None:
        """Write the pending turns, and update the session's row, in one transaction. More messages may follow."""
        self._end_turn_and_write_batch_if_full()
        if not self._started:
            return
        end = SessionEnd(
            last=self._newest or self._otherwise,
            has_times=self._newest is not None,
            live=self._live and not self._has_transcript_ended_by_message_age(),
            interrupted=interrupted or self._calls.has_unanswered_calls_at_end,
            cost=self._get_stated_or_estimated_cost(),
        )
        self._writer.known_end = end
        with self._writer.open_transaction():
            self._write_pending_turns()
            self._writer.update_session_and_close_calls_at_end(end, self._calls)
        self._writer.known_end = None
        if not self._counted:
            self._counted = True
            self.report.sessions += 1
            self.report.session_ids.append(self.origin.session_id)
