"""Import of one conversation of Claude Code into a session.

A message of the agent is spread over several lines, one for each block; here they are joined. A prompt that continues
from an earlier message is an edit, and a compaction starts over: in both cases the replaced messages remain in earlier
versions. The messages that a compaction keeps follow its summary once more.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from checkpoints.formats.digests import digest_text
from checkpoints.importers.claude_code import line_fields
from checkpoints.importers.claude_code.line_fields import Line
from checkpoints.importers.claude_code.non_message_line_detection import is_record_line
from checkpoints.importers.claude_code.session_titles import SessionTitles
from checkpoints.importers.imported_message_and_usage import (
    TRANSCRIPT_START,
    ImportedMessage,
    parse_iso_or_unix_time_or_none,
    parse_usd_cost_or_none,
)
from checkpoints.importers.transcript_reader_interface_and_builder import TranscriptBuilder

#: Number of messages whose usage may still grow.
_MAX_COUNTED_IDS: Final = 256
#: Number of records between a prompt and the message that it continues from.
_MAX_RECORDS_IN_A_ROW: Final = 100


@dataclass
class _AgentLine:
    """Line of a message of the agent, with the notes between it and the line before it."""

    key: str
    line: Line
    notes: list[Line] = field(default_factory=list)


@dataclass
class _KeptMessages:
    """Messages that a compaction keeps, until they are repeated behind the line `anchor`.

    `blocks` has the ranges of the blocks that it keeps of each message, by its key; all blocks if there are no ranges.
    """

    compaction: str
    anchor: str
    blocks: dict[str, list[tuple[int, int]]]


class ConversationImport:
    """Importer of the lines of one conversation, in order."""

    def __init__(self, builder: TranscriptBuilder, titles: SessionTitles) -> None:
        self.builder = builder
        self._recorder, self._titles = builder.recorder, titles
        self._seen: dict[str, bytes] = {}
        self._group: list[_AgentLine] = []
        #: Number of lines of the group that are written, of a message that may be extended.
        self._written_size = 0
        #: Notes after the last line of the group: of its next line, or else of the next message.
        self._notes_after_group: list[Line] = []
        #: Key of the message of each further line of it, and for each record the line that it follows.
        self._homes: dict[str, str] = {}
        self._records = set[str]()
        self._counted: OrderedDict[str, Counter[str]] = OrderedDict()
        self._costs: dict[str, Decimal] = {}
        self._compacted = False
        #: Ranges of the blocks of each line of a message that has several lines.
        self._blocks: dict[str, tuple[int, int]] = {}
        #: Keys of the lines of a fork, by the uuids of the lines that they were copied from.
        self._lines_of_fork: dict[str, str] = {}
        self._kept: _KeptMessages | None = None
        #: Keys of repeated messages, by those of the messages that they repeat.
        self._repeated: dict[str, str] = {}
        #: Key of the last message that a compaction keeps, by that of the message that these follow.
        self._last_kept: dict[str, str] = {}
        self._last_key = TRANSCRIPT_START
        self._tail = _parse_message_key_and_line_count_or_none(self._recorder.load_last_message_body())

    def add_line(self, line: Line) -> None:
        """Add the next line of the file."""
        is_record = is_record_line(line)
        # A record without a uuid is not looked for again, so it needs no key.
        key = (
            ""
            if is_record and line_fields.get_line_uuid_if_valid_key(line) is None
            else self._make_line_key_or_none_if_repeated(line)
        )
        if key is None:
            self.builder.report.repeated += 1
            return
        if source_uuid := line_fields.get_fork_source_uuid_or_empty(line):
            self._lines_of_fork.setdefault(source_uuid, key)
        self.builder.report.unknown.update(line_fields.iterate_descriptions_of_unknown_types(line))
        if is_record:
            if key and isinstance(line.get("parentUuid"), str):
                self._homes.setdefault(key, line["parentUuid"])  # a prompt may continue from what the record follows
                self._records.add(key)
            if self._group:
                self._notes_after_group.append(line)
            else:
                self._set_context_and_add_note(line)
            return
        if self._is_line_of_grouped_message(line):
            self._group.append(_AgentLine(key, line, self._notes_after_group))
            self._notes_after_group = []
            return
        self._write_and_clear_grouped_message()
        message = line_fields.get_user_or_assistant_message_or_none(line)
        if message is not None and line_fields.get_type_or_empty(line) == "assistant":
            self._group.append(_AgentLine(key, line))
            return
        self._note_title_context_and_cost_of_line(line)
        if message is not None:
            self._write_user_message(key, line, message)
        else:
            self._record_non_message_line_as_message(key, line)

    def _set_context_and_add_note(self, line: Line) -> None:
        self._note_title_context_and_cost_of_line(line)
        if not self._recorder.stores_lines:
            self.builder.add_note(line)

    def _make_line_key_or_none_if_repeated(self, line: Line) -> str | None:
        """Give a line its key; None if the same line has been read.

        The same uuid with other content is another line, and so is a line without a uuid that has the same content.
        """
        uuid = line_fields.get_line_uuid_if_valid_key(line)
        if uuid is None:
            return self._make_and_remember_unique_key(f"line:{line_fields.compute_stable_content_digest(line)[:32]}")
        fingerprint = line_fields.compute_fast_content_fingerprint(line)
        if uuid not in self._seen:
            self._seen[uuid] = fingerprint
            return uuid
        if self._seen[uuid] == fingerprint:
            return None
        key = f"{uuid}#{line_fields.compute_stable_content_digest(line)[:16]}"
        if key in self._seen:
            return None
        self._seen[key] = fingerprint
        return key

    def _make_and_remember_unique_key(self, key: str) -> str:
        number, numbered = 1, key
        while numbered in self._seen:
            number += 1
            numbered = f"{key}.{number}"
        self._seen[numbered] = b""
        return numbered

    def _note_title_context_and_cost_of_line(self, line: Line) -> None:
        self._titles.note_titles_of_line(line)
        message = (
            line_fields.get_user_or_assistant_message_or_none(line)
            if line_fields.get_type_or_empty(line) == "assistant"
            else None
        )
        model = message.get("model") if message is not None else line.get("model")
        self.builder.set_context(
            cwd=line.get("cwd"),
            git_branch=line.get("gitBranch"),
            program_version=line.get("version", line.get("claude_code_version")),
            permission_mode=line.get("permissionMode"),
            model=None if model == "<synthetic>" else model,
        )
        if origin := line_fields.get_fork_source_session_id_or_empty(line):
            self.builder.facts["forked_from"] = origin  # older lines of a fork of a fork name the first session
        if line_fields.get_type_or_empty(line) == "result":  # the end of a stream states what the whole session cost
            cost = parse_usd_cost_or_none(line.get("total_cost_usd", line.get("cost_usd")))
            if cost is not None:
                self._recorder.totals.cost = max(cost, self._recorder.totals.cost or Decimal())

    # messages of the agent

    def _is_line_of_grouped_message(self, line: Line) -> bool:
        message = line_fields.get_user_or_assistant_message_or_none(line)
        if not self._group or message is None or line_fields.get_type_or_empty(line) != "assistant":
            return False
        previous = self._group[-1].line["message"]
        return isinstance(message.get("id"), str) and message["id"] == previous.get("id")

    def _write_and_clear_grouped_message(self) -> None:
        """Write the message that the lines of the group make up; the notes after it belong to the next message."""
        self._write_grouped_message_and_later_notes()
        self._group, self._written_size = [], 0

    def _write_grouped_message_and_later_notes(self) -> None:
        """Write the message that the lines of the group make up, and add the notes after it.

        If an earlier import ended in the middle of it, what it wrote stays, and the rest becomes a message of its
        own, unless the session is one whose last message may be extended.
        """
        group = self._group
        if self._recorder.replaces_last_message_if_it_grows:
            if len(group) > self._written_size:
                self._write_agent_message(group, self._written_size)
        else:
            while group:
                size = self._count_lines_of_first_message(group)
                self._write_agent_message(group[:size])
                group = group[size:]
        notes, self._notes_after_group = self._notes_after_group, []
        for note in notes:
            self._set_context_and_add_note(note)

    def _count_lines_of_first_message(self, group: list[_AgentLine]) -> int:
        """Count the lines that belong to the first message of the group."""
        first = group[0].key
        if self._tail is not None and self._tail[0] == first:
            return min(self._tail[1], len(group))
        positions = (number for number, one in enumerate(group) if number and self._recorder.has_message(one.key))
        return next(positions, len(group))

    def _write_agent_message(self, group: list[_AgentLine], written_size: int = 0) -> None:
        """Write a message that consists of the lines of the group; the notes of the first ones are added already."""
        for one in group[written_size:]:
            for note in one.notes:
                self._set_context_and_add_note(note)
            self._note_title_context_and_cost_of_line(one.line)
        key = group[0].key
        self.builder.interrupted = False
        for one in group[1:]:
            self._homes[one.key] = key
        lines = [one.line for one in group]
        messages = [line["message"] for line in lines]
        usage: dict[str, Any] = {}
        for line in lines:
            usage = self._add_new_usage_to_totals(line) or usage
        content = messages[0].get("content")
        if len(messages) > 1:
            content = []
            for one in group:
                start = len(content)
                content += line_fields.convert_content_to_blocks(one.line["message"].get("content"))
                self._blocks[one.key] = (start, len(content))
        body = {
            "role": line_fields.get_text_or_empty(messages[0].get("role")) or "assistant",
            "content": content,
        }
        at = parse_iso_or_unix_time_or_none(lines[-1].get("timestamp"))  # the message is complete with its last line
        message = ImportedMessage(
            key,
            line_fields.determine_message_role(lines[0], messages[0]),
            body,
            at,
            times=_read_call_start_times_of_lines(lines) if at else {},
        )
        self._record_message(message, lines, usage)

    def _add_new_usage_to_totals(self, line: Line) -> dict[str, Any]:
        """Count the usage of a message once: each of its lines repeats it, the last one in full."""
        message = line["message"]
        name = line_fields.get_text_or_empty(message.get("id")) or str(
            line_fields.get_line_uuid_if_valid_key(line) or id(line)
        )
        counted = self._counted.pop(name, Counter())
        now = counted | line_fields.read_stated_token_counts(message)
        cost = parse_usd_cost_or_none(line.get("costUSD"))
        cost_before = self._costs.get(name, Decimal())
        if cost is not None:
            self._costs[name] = max(cost, cost_before)
        model = message.get("model")
        model = model if isinstance(model, str) else ""
        if not line_fields.get_fork_source_session_id_or_empty(
            line
        ):  # a fork copies messages, whose usage its parent has
            new_cost = None if cost is None else self._costs[name] - cost_before
            self._recorder.totals.add_usage(model, now - counted, new_cost)
            self._note_whether_usage_is_final(name, message)
        self._counted[name] = now
        if len(self._counted) > _MAX_COUNTED_IDS:
            self._costs.pop(self._counted.popitem(last=False)[0], None)
        return {"model": model, **now, **({} if cost is None else {"cost_usd": str(cost)})} if now else {}

    def _note_whether_usage_is_final(self, name: str, message: dict[str, Any]) -> None:
        """Note an answer whose usage is that of its beginning: the program wrote its lines before it was complete, and
        never wrote why it stopped."""
        unfinished = self._recorder.totals.unfinished
        if message.get("stop_reason"):
            unfinished.discard(name)
        elif "stop_reason" in message and line_fields.read_stated_token_counts(message):
            unfinished.add(name)

    # everything else

    def _write_user_message(self, key: str, line: Line, message: dict[str, Any]) -> None:
        role = line_fields.determine_message_role(line, message)
        predecessor = None
        if line.get("isCompactSummary"):
            predecessor = None if self._compacted else TRANSCRIPT_START
        elif role == "user":
            predecessor = self._find_key_before_edited_prompt(line)
        content = message.get("content")
        self.builder.interrupted = line_fields.is_interruption_notice(content)
        body = {"role": line_fields.get_text_or_empty(message.get("role")) or "user", "content": content}
        is_prompt = role == "user" and bool(
            line_fields.extract_typed_prompt_or_empty(content) or line_fields.extract_slash_command_or_empty(content)
        )
        at = parse_iso_or_unix_time_or_none(line.get("timestamp"))
        self._record_message(ImportedMessage(key, role, body, at, predecessor, begins_turn=is_prompt), [line])
        self._compacted = False

    def _record_non_message_line_as_message(self, key: str, line: Line) -> None:
        fields, envelope = line_fields.split_shown_and_position_fields(line)
        kind = line_fields.get_type_or_empty(line)
        text = fields.get("content")
        content: Any = [fields]
        self._compacted = line_fields.is_compaction(line)
        if kind == "system" and isinstance(text, str) and text:
            hidden = {"content", "type", "subtype", "level"} | ({"compactMetadata"} if self._compacted else set())
            other_fields = {name: value for name, value in fields.items() if name not in hidden}
            content = [{"type": "text", "text": text}, *([other_fields] if other_fields else [])]
            envelope = {**envelope, **{name: fields[name] for name in hidden - {"content"} if name in fields}}
        if self._compacted:
            facts = line.get("compactMetadata")
            facts = facts if isinstance(facts, dict) else {}
            block = self.builder.build_compaction_block(
                tokens_before=facts.get("preTokens"), trigger=facts.get("trigger")
            )
            content = [*content, block]
        role = kind if kind not in {"", "attachment", "user", "assistant"} else "system"
        predecessor = TRANSCRIPT_START if self._compacted else None
        body = {"role": role, "content": content}
        kept = self._find_messages_kept_by_compaction(key, line) if self._compacted else None
        self._record_message(
            ImportedMessage(key, role, body, parse_iso_or_unix_time_or_none(line.get("timestamp")), predecessor),
            [envelope],
        )
        self._kept = kept
        self._repeat_kept_messages_if_key_is_anchor(key)

    def _find_messages_kept_by_compaction(self, key: str, line: Line) -> _KeptMessages:
        """Find the messages that a compaction keeps. Those that the conversation does not have are left out."""
        preserved, blocks = line_fields.parse_preserved_messages(line), dict[str, list[tuple[int, int]]]()
        for line_key in map(self._get_line_key_of_uuid, preserved.uuids):
            if line_key == key or line_key not in self._seen:
                continue
            if line_key in self._blocks:
                blocks.setdefault(self._homes.get(line_key, line_key), []).append(self._blocks[line_key])
            else:
                blocks[line_key] = []
        if not preserved.uuids:
            first, last = map(self._find_message_position_of_line, (preserved.first, preserved.last))
            if first is not None and last is not None:
                is_after_message = self._get_line_key_of_uuid(preserved.first) in self._records
                blocks = {place.key: [] for place in self._recorder.path[first + is_after_message : last + 1]}
        return _KeptMessages(key, self._get_line_key_of_uuid(preserved.anchor), blocks)

    def _find_message_position_of_line(self, uuid: str) -> int | None:
        """Find the position of the message with a line, or of the message before it if the line is a record."""
        key = self._get_line_key_of_uuid(uuid)
        for _ in range(_MAX_RECORDS_IN_A_ROW):
            if key not in self._records:
                break
            key = self._homes[key]
        return self._recorder.find_message_position(self._find_key_of_message_or_its_repetition(key))

    def _get_line_key_of_uuid(self, uuid: str) -> str:
        """Find the key of a line by its uuid, or by that of the line of another session that it was copied from."""
        return uuid if uuid in self._seen else self._lines_of_fork.get(uuid, uuid)

    def _find_key_of_message_or_its_repetition(self, uuid: str) -> str:
        """Find the key of the message with a line, or of the message that repeats it after a compaction."""
        line_key = self._get_line_key_of_uuid(uuid)
        key = self._homes.get(line_key, line_key) if line_key in self._blocks else line_key
        return self._repeated.get(key, key)

    def _repeat_kept_messages_if_key_is_anchor(self, key: str) -> None:
        """Repeat the messages that a compaction keeps, if they follow the message of this key."""
        if self._kept is not None and key == self._get_line_key_of_uuid(self._kept.anchor):
            self._repeat_kept_messages(self._kept)

    def _repeat_kept_messages(self, kept: _KeptMessages) -> None:
        self._kept = None
        keys = {key: f"kept:{digest_text(f'{kept.compaction}:{key}')[:40]}" for key in kept.blocks}
        self._repeated |= keys

        def build_body_of_kept_blocks(key: str, body: dict[str, Any]) -> dict[str, Any]:
            ranges, content = kept.blocks[key], body.get("content")
            if ranges and isinstance(content, list):
                body = {**body, "content": [block for start, end in ranges for block in content[start:end]]}
            return {name: value for name, value in body.items() if name != "source"}

        self.builder.repeat_messages(keys, self._last_key, build_body_of_kept_blocks)
        if keys:
            self._last_kept[self._last_key] = [*keys.values()][-1]

    def _find_key_before_edited_prompt(self, line: Line) -> str | None:
        """Find the message from which a prompt continues if it is not the last one: the messages after it are replaced.

        Results directly after that message belong to it.
        """
        parent = line.get("parentUuid")
        for _ in range(_MAX_RECORDS_IN_A_ROW):
            if not isinstance(parent, str) or parent not in self._homes:
                break
            parent = self._homes[parent]
        if isinstance(parent, str):
            parent = self._last_kept.get(parent) or self._repeated.get(parent, parent)
        position = self._recorder.find_message_position(parent) if isinstance(parent, str) else None
        if position is None:
            return None
        path = self._recorder.path
        while position + 1 < len(path) and path[position + 1].role == "tool":
            position += 1
        later_messages = path[position + 1 :]
        return path[position].key if any(message.role in {"user", "assistant"} for message in later_messages) else None

    def _record_message(self, message: ImportedMessage, lines: list[Line], usage: dict[str, Any] | None = None) -> None:
        if self._kept is not None and not lines[0].get("isCompactSummary"):
            self._repeat_kept_messages(self._kept)  # no summary was the line that they follow
        source: dict[str, Any] = {"usage": usage} if usage else {}
        if not self._recorder.stores_lines:
            envelopes = [line_fields.copy_line_without_message_content(line) for line in lines]
            source = {"format": "claude-code", "lines": envelopes, **source}
        body = {"id": message.key, **message.body}
        self.builder.record_message(
            ImportedMessage(
                message.key, message.role, body, message.at, message.after, message.begins_turn, message.times
            ),
            source,
        )
        self._last_key = message.key
        self._repeat_kept_messages_if_key_is_anchor(message.key)

    def write_complete_messages(self) -> None:
        """Write the complete messages."""
        self.builder.end_turn_and_write_pending_turns()

    def flush(self) -> None:
        """Write everything read so far, and describe the session."""
        if self._recorder.replaces_last_message_if_it_grows:
            self._write_grouped_message_and_later_notes()
            self._written_size = len(self._group)
        else:
            self._write_and_clear_grouped_message()
        self._titles.choose_and_set_title(self.builder, self._seen)
        self.builder.flush()


def _read_call_start_times_of_lines(lines: list[Line]) -> dict[str, datetime]:
    """Read when each call of a message was made: the time of its line."""
    times: dict[str, datetime] = {}
    for line in lines:
        for block in line_fields.convert_content_to_blocks(line["message"].get("content")):
            call_id = block.get("id") if isinstance(block, dict) and block.get("type") == "tool_use" else None
            if isinstance(call_id, str) and (at := parse_iso_or_unix_time_or_none(line.get("timestamp"))) is not None:
                times[call_id] = at
    return times


def _parse_message_key_and_line_count_or_none(body: Any) -> tuple[str, int] | None:
    """Parse the last message of an earlier import, and the number of its lines."""
    source = body.get("source") if isinstance(body, dict) else None
    if not isinstance(source, dict) or not isinstance(source.get("lines"), list):
        return None
    return str(body.get("id", "")), max(1, len(source["lines"]))
