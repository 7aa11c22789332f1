"""Chats of Gemini CLI: one JSON object with all messages, or a log of records.

In a log, a message comes again under its id when its tokens are known or its calls have run. `$set` changes facts of
the chat, or replaces its messages when the program compresses them, and `$rewindTo` takes back a message and all after
it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from checkpoints.exceptions import InvalidInput
from checkpoints.importers.gemini_cli_messages import (
    ROLES,
    build_call_block_or_none,
    build_message_body,
    build_result_message_or_none,
    convert_token_counts,
    get_list_or_empty,
    get_valid_message_id_or_empty,
    has_only_call_results,
    make_message_key,
    omit_args_and_result_of_call,
    score_as_gemini_chat_or_record,
)
from checkpoints.importers.imported_message_and_usage import TRANSCRIPT_START, parse_iso_or_unix_time_or_none
from checkpoints.importers.transcript_reader_interface_and_builder import (
    Body,
    ImportContext,
    TranscriptBuilder,
    TranscriptFormat,
    get_text_field_or_empty,
)


class GeminiReader:
    """Reader of one chat."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._builder: TranscriptBuilder | None = None
        #: Last message, which may come again with more in it, and the number of its line.
        self._pending: tuple[int, Body] | None = None
        #: Ids of the messages in the present form of the chat, in order, each with the key before it.
        self._keys_before: dict[str, str] = {}
        #: Those of them that the program wrote to the person only; a model never gets them.
        self._notices: set[str] = set()
        self._counted: dict[str, Counter[str]] = {}
        #: Key of the last message, and of the one that the next message follows if that is not the last one.
        self._last = TRANSCRIPT_START
        self._after: str | None = None

    def add_value(self, number: int, value: Any) -> None:
        """Read the whole chat, or the next record of one."""
        if not isinstance(value, dict):
            return
        builder = self._get_or_open_builder(value)
        changes = value.get("$set")
        facts = changes if isinstance(changes, dict) else value
        builder.note_title_candidate(facts.get("summary"), "given")
        messages = facts.get("messages")
        if "$rewindTo" in value:
            self._rewind_before_message(builder, value["$rewindTo"])
            builder.add_note(value)
        elif facts is changes and isinstance(messages, list):
            self._update_transcript_to_full_message_list(builder, number, messages)
        elif get_text_field_or_empty(value, "type") in ROLES:
            self._buffer_message_and_write_previous(builder, number, value)
        elif isinstance(messages, list):
            for message in messages:
                if isinstance(message, dict):
                    self._buffer_message_and_write_previous(builder, number, message)
                else:
                    builder.report.unknown["entry without a type"] += 1
                    builder.add_note(message)
        else:
            builder.add_note(value)

    def _get_or_open_builder(self, value: Body) -> TranscriptBuilder:
        if self._builder is None:
            header = value if isinstance(value.get("messages"), list) or "sessionId" in value else {}
            session_id = self._context.choose_session_id(header.get("sessionId"))
            is_subagent = header.get("kind") == "subagent"
            agent, labels = ("gemini-cli/subagent", ("gemini-cli", "subagent")) if is_subagent else ("", ())
            builder = self._context.open_builder(session_id, agent=agent, labels=labels, has_positional_keys=False)
            folder = self._context.path.parent if self._context.path is not None else None
            if is_subagent and folder is not None and folder.parent.name == "chats":  # chats/<parent>/<subagent>.jsonl
                builder.origin.parent_session_id = self._context.choose_session_id(folder.name)
            builder.facts["project_hash"] = header.get("projectHash", "")
            self._builder = builder
        return self._builder

    # records of the log

    def _buffer_message_and_write_previous(self, builder: TranscriptBuilder, number: int, message: Body) -> None:
        """Keep a message until another one comes, because the same one may come again."""
        message_id = get_valid_message_id_or_empty(message)
        if self._pending is not None and (
            not message_id or get_valid_message_id_or_empty(self._pending[1]) != message_id
        ):
            self._write_pending_message(builder)
        self._pending = number, message

    def _write_pending_message(self, builder: TranscriptBuilder) -> None:
        if self._pending is None:
            return
        (number, message), self._pending = self._pending, None
        try:
            self._add_message_with_calls_and_results(builder, message)
        except InvalidInput as error:
            text = json.dumps(message, ensure_ascii=False, default=str)
            builder.report.add_damaged_place(self._context.path or Path("messages"), number, error.detail, text)

    def _rewind_before_message(self, builder: TranscriptBuilder, message_id: object) -> None:
        """Take back a message and all after it; all messages if it is unknown, as the program does."""
        self._write_pending_message(builder)
        known = list(self._keys_before)
        position = known.index(message_id) if message_id in known else 0
        self._after = self._keys_before[known[position]] if position else TRANSCRIPT_START
        for each in known[position:]:
            del self._keys_before[each]

    def _update_transcript_to_full_message_list(
        self, builder: TranscriptBuilder, number: int, messages: list[Any]
    ) -> None:
        """Read all messages of the chat as they are from here on.

        Those that are there already stay as they are. If some of them are gone, the program has compressed the chat: it
        starts over with what is new, and the earlier messages remain in earlier versions.
        """
        self._write_pending_message(builder)
        known = [message_id for message_id in self._keys_before if message_id not in self._notices]
        listed = [message for message in messages if isinstance(message, dict) and not has_only_call_results(message)]
        ids = {get_valid_message_id_or_empty(message) for message in listed}
        added = [message for message in listed if get_valid_message_id_or_empty(message) not in self._keys_before]
        gone = [message_id for message_id in known if message_id not in ids]
        if gone and not added and known[-len(gone) :] == gone:
            self._rewind_before_message(builder, gone[0])
        elif gone:
            at = next(
                (at for message in listed if (at := parse_iso_or_unix_time_or_none(message.get("timestamp")))), None
            )
            key, block = make_message_key("compaction", *sorted(ids)), builder.build_compaction_block()
            builder.add_message({"role": "system", "blocks": [block]}, key=key, at=at, after=TRANSCRIPT_START)
            self._keys_before = {message_id: key for message_id in known if message_id in ids}
            self._last = key
        for message in added:
            self._buffer_message_and_write_previous(builder, number, message)

    # messages

    def _add_message_with_calls_and_results(self, builder: TranscriptBuilder, message: Body) -> None:
        """Add a message with its calls and their results. What was written of it before stays; the rest follows."""
        message_id, kind = get_valid_message_id_or_empty(message), get_text_field_or_empty(message, "type")
        if kind not in ROLES:
            builder.report.unknown[f"message {kind}"] += 1
        builder.set_context(model=message.get("model"))
        calls = [call for call in get_list_or_empty(message.get("toolCalls")) if isinstance(call, dict)]
        usage = self._add_new_usage(builder, message, message_id)
        key, count = _choose_message_key_and_call_count(builder, message_id, len(calls))
        keys = [key]
        if not message_id or message_id not in self._keys_before:
            after, self._after = self._choose_predecessor_key(builder, message_id), None
            if message_id:
                self._keys_before[message_id] = after
                (self._notices.add if ROLES.get(kind) == "system" else self._notices.discard)(message_id)
            body, at = (
                build_message_body(message, calls[:count]),
                parse_iso_or_unix_time_or_none(message.get("timestamp")),
            )
            keys = [builder.add_message(body, key=key, at=at, after=after, usage=usage)]
        for number, call in enumerate(calls):
            self._note_call_that_started_subagent(builder, call)
            block = build_call_block_or_none(call) if number >= count else None
            if block is not None:
                body = {"role": "assistant", "blocks": [block]}
                keys.append(_append_call_or_result_at_end_of_chat(builder, body, message, call, "call"))
        results = [(call, result) for call in calls if (result := build_result_message_or_none(call)) is not None]
        keys += [
            _append_call_or_result_at_end_of_chat(builder, result, message, call, "result") for call, result in results
        ]
        self._last = max(keys, key=lambda each: builder.recorder.find_message_position(each) or 0)

    def _choose_predecessor_key(self, builder: TranscriptBuilder, message_id: str) -> str:
        """Choose the message that a new one follows: after a rewind an earlier one, else the last one.

        The first message of a further file of a chat follows what the other files have.
        """
        if self._after is not None:
            return self._after
        is_first_with_id = self._last == TRANSCRIPT_START and bool(message_id)
        return _get_key_of_last_message_or_start(builder) if is_first_with_id else self._last

    def _add_new_usage(self, builder: TranscriptBuilder, message: Body, message_id: str) -> Body | None:
        """Count the tokens of a message once, however often it comes."""
        tokens = message.get("tokens")
        if not isinstance(tokens, dict):
            return None
        counts, counted = Counter(convert_token_counts(tokens)), self._counted.get(message_id, Counter[str]())
        if message_id:
            self._counted[message_id] = counted | counts
        return builder.add_usage(message.get("model"), counts - counted)

    def _note_call_that_started_subagent(self, builder: TranscriptBuilder, call: Body) -> None:
        """Note which call started which subagent."""
        agent, call_id = get_text_field_or_empty(call, "agentId"), get_text_field_or_empty(call, "id")
        if agent and call_id:
            builder.facts.setdefault("subagents", {}).setdefault(self._context.choose_session_id(agent), call_id)

    def flush(self) -> None:
        """Write everything read so far."""
        if self._builder is not None:
            self._write_pending_message(self._builder)
            self._builder.flush()


def _choose_message_key_and_call_count(builder: TranscriptBuilder, message_id: str, calls: int) -> tuple[str, int]:
    """Choose the key of a message, which tells how many of its calls are in it. Returns both.

    If it was written before, with fewer calls than it has now, that is its key. Empty: the builder makes one.
    """
    if not message_id:
        return "", calls
    keys = [message_id, *(make_message_key(message_id, count) for count in range(1, calls + 1))]
    return next(
        ((keys[count], count) for count in range(calls, -1, -1) if builder.recorder.has_message(keys[count])),
        (keys[calls], calls),
    )


def _get_key_of_last_message_or_start(builder: TranscriptBuilder) -> str:
    path = builder.recorder.path
    return path[-1].key if path else TRANSCRIPT_START


def _append_call_or_result_at_end_of_chat(
    builder: TranscriptBuilder, body: Body, message: Body, call: Body, part: str
) -> str:
    """Add a call that came after its message, or a result, at the end of the chat. Returns its key."""
    message_id = get_valid_message_id_or_empty(message)
    at = parse_iso_or_unix_time_or_none(call.get("timestamp")) or parse_iso_or_unix_time_or_none(
        message.get("timestamp")
    )
    if not message_id:
        return builder.add_message(body, at=at)
    if part == "call":
        body = {**body, "source": {"tool_calls": [omit_args_and_result_of_call(call)]}}
    key = make_message_key(message_id, part, call.get("id"))
    return builder.add_message(body, key=key, at=at, after=_get_key_of_last_message_or_start(builder))


GEMINI_CLI: Final = TranscriptFormat("gemini-cli", "gemini-cli", score_as_gemini_chat_or_record, GeminiReader)
