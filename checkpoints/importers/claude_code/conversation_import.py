"""Import of one conversation of Claude Code into a session.

A message of the agent is spread over several lines, one for each block; here they are joined. A prompt that continues
from an earlier message is an edit, and a compaction starts over: in both cases the replaced messages remain in earlier
versions.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from decimal import Decimal
from typing import Any, Final

from checkpoints.formats.canonical import to_canonical_json
from checkpoints.importers.claude_code import line_types
from checkpoints.importers.claude_code.line_types import Line
from checkpoints.importers.claude_code.session_metadata import SessionFacts
from checkpoints.importers.imported_message import TRANSCRIPT_START, ImportedMessage, parse_time
from checkpoints.importers.transcript_recorder import TranscriptRecorder

FORMAT_NAME: Final = "claude-code"
#: Characters of notes that are stored with one message, and at the end of a transcript with its session.
_MAX_NOTES_PER_MESSAGE = 1_000_000
_MAX_NOTES_PER_SESSION = 16_000
#: Number of messages whose usage may still grow.
_MAX_COUNTED_IDS = 256


class ConversationImport:
    """Importer of the lines of one conversation, in order."""

    def __init__(self, recorder: TranscriptRecorder, facts: SessionFacts) -> None:
        self._recorder, self._facts = recorder, facts
        self._seen: dict[str, str] = {}
        self._group: list[tuple[str, Line]] = []
        self._notes: list[Line] = []
        self._notes_size = 0
        self._homes: dict[str, str] = {}
        self._counted: OrderedDict[str, tuple[Counter[str], Decimal]] = OrderedDict()
        self._compacted = False
        self._tail = _parse_last_message(recorder.load_last_body())

    def add_line(self, line: Line) -> None:
        """Add the next line of the file."""
        key = self._register_line_key(line)
        if key is None:
            self._recorder.report.repeated += 1
            return
        self._recorder.report.unknown.update(line_types.iterate_unknown_types(line))
        self._facts.add_line_facts(line)
        if line_types.is_note(line):
            self._add_note(key, line)
            return
        if not self._belongs_to_group(line):
            self._write_grouped_message()
        if line_types.get_type(line) == "assistant" and line_types.get_message(line) is not None:
            self._group.append((key, line))
        elif (message := line_types.get_message(line)) is not None:
            self._write_user_message(key, line, message)
        else:
            self._write_other_line(key, line)

    def _register_line_key(self, line: Line) -> str | None:
        """Return the key of a line; None if the same line has been read. The same uuid with other content is
        another line."""
        key, print_ = line_types.get_line_key(line), line_types.digest_line(line)[:16]
        if key in self._seen and self._seen[key] != print_:
            key = f"{key}#{print_}"
        if key in self._seen:
            return None
        self._seen[key] = print_
        return key

    def _add_note(self, key: str, line: Line) -> None:
        self._notes.append(line)
        self._notes_size += len(to_canonical_json(line))
        if self._notes_size > _MAX_NOTES_PER_MESSAGE:
            self._write_grouped_message()
            self._write_notes(f"notes:{key}"[:255])

    def _write_notes(self, key: str) -> None:
        """Write notes as a message of their own if they are too many to be part of another one."""
        text = f"{len(self._notes)} notes of the program to itself are kept with this message."
        self._record_message(ImportedMessage(key, "system", {"role": "system", "content": text}), [])

    # messages of the agent

    def _belongs_to_group(self, line: Line) -> bool:
        message = line_types.get_message(line)
        if not self._group or message is None or line_types.get_type(line) != "assistant":
            return False
        previous = self._group[-1][1]["message"]
        return isinstance(message.get("id"), str) and message["id"] == previous.get("id")

    def _write_grouped_message(self) -> None:
        """Write the message that the lines of the group make up.

        If an earlier import ended in the middle of it, what it wrote stays, and the rest becomes a message of its
        own: an import never rewrites a transcript.
        """
        group, self._group = self._group, []
        while group:
            size = self._count_message_lines(group)
            self._write_agent_message(group[:size])
            group = group[size:]

    def _count_message_lines(self, group: list[tuple[str, Line]]) -> int:
        """Count the lines that belong to the first message of the group."""
        first = group[0][0]
        if self._tail is not None and self._tail[0] == first:
            return min(self._tail[1], len(group))
        positions = (number for number, (key, _) in enumerate(group) if number and self._recorder.has_message(key))
        return next(positions, len(group))

    def _write_agent_message(self, group: list[tuple[str, Line]]) -> None:
        key, first = group[0]
        for other, _ in group[1:]:
            self._homes[other] = key
        messages = [line["message"] for _, line in group]
        for _, line in group:
            self._count_usage(line)
        content = messages[0].get("content")
        if len(messages) > 1:
            content = [block for message in messages for block in line_types.to_blocks(message.get("content"))]
        body = {"role": line_types.to_text(messages[0].get("role")) or "assistant", "content": content}
        # The message is complete, and its calls begin, with its last line.
        at = parse_time(group[-1][1].get("timestamp"))
        self._record_message(
            ImportedMessage(key, line_types.get_role(first, messages[0]), body, at), [line for _, line in group]
        )

    def _count_usage(self, line: Line) -> None:
        """Count the usage of a message once: each of its lines repeats it, the last one in full."""
        message = line["message"]
        name = line_types.to_text(message.get("id")) or line_types.get_line_key(line)
        counted_usage, cost_before = self._counted.pop(name, (Counter(), Decimal()))
        cost = max(cost_before, _parse_cost(line.get("costUSD")))
        now = Counter(
            {kind: max(counted_usage[kind], count) for kind, count in line_types.count_tokens(message).items()}
        )
        for kind in counted_usage.keys() - now.keys():
            now[kind] = counted_usage[kind]
        totals = self._recorder.totals
        totals.cost += cost - cost_before
        totals.tokens.update({kind: count - counted_usage[kind] for kind, count in now.items()})
        self._counted[name] = now, cost
        if len(self._counted) > _MAX_COUNTED_IDS:
            self._counted.popitem(last=False)

    # everything else

    def _write_user_message(self, key: str, line: Line, message: dict[str, Any]) -> None:
        role = line_types.get_role(line, message)
        predecessor = None
        if line.get("isCompactSummary"):
            predecessor = None if self._compacted else TRANSCRIPT_START
        elif role == "user":
            predecessor = self._find_edit_point(line)
        body = {"role": line_types.to_text(message.get("role")) or "user", "content": message.get("content")}
        is_prompt = role == "user" and bool(
            line_types.extract_prompt(message.get("content")) or line_types.extract_command(message.get("content"))
        )
        self._record_message(
            ImportedMessage(key, role, body, parse_time(line.get("timestamp")), predecessor, begins_turn=is_prompt),
            [line],
        )
        self._compacted = False

    def _write_other_line(self, key: str, line: Line) -> None:
        fields, envelope = line_types.split_line(line)
        kind = line_types.get_type(line)
        text = fields.get("content")
        content: Any = [fields]
        if kind == "system" and isinstance(text, str) and text:
            other_fields = {
                name: value for name, value in fields.items() if name not in {"content", "type", "subtype", "level"}
            }
            content = [{"type": "text", "text": text}, *([other_fields] if other_fields else [])]
            envelope = {**envelope, **{name: fields[name] for name in ("type", "subtype", "level") if name in fields}}
        self._compacted = line_types.is_compaction(line)
        role = kind if kind not in {"", "attachment", "user", "assistant"} else "system"
        predecessor = TRANSCRIPT_START if self._compacted else None
        self._record_message(
            ImportedMessage(
                key, role, {"role": role, "content": content}, parse_time(line.get("timestamp")), predecessor
            ),
            [envelope],
        )

    def _find_edit_point(self, line: Line) -> str | None:
        """Find the message from which a prompt continues if it is not the last one: the messages after it are replaced.

        Results directly after that message belong to it.
        """
        parent = line.get("parentUuid")
        position = self._recorder.find_position(self._homes.get(parent, parent)) if isinstance(parent, str) else None
        if position is None:
            return None
        path = self._recorder.path
        while position + 1 < len(path) and path[position + 1].role == "tool":
            position += 1
        later_messages = path[position + 1 :]
        return path[position].key if any(message.role in {"user", "assistant"} for message in later_messages) else None

    def _record_message(self, message: ImportedMessage, lines: list[Line]) -> None:
        source: dict[str, Any] = {"format": FORMAT_NAME, "lines": [line_types.build_envelope(line) for line in lines]}
        if self._notes:
            source["before"] = self._notes
            self._notes, self._notes_size = [], 0
        body = {"id": message.key, **message.body, "source": source}
        if message.at is not None:
            body["created_at"] = message.at.isoformat()
        self._recorder.record_message(
            ImportedMessage(message.key, message.role, body, message.at, message.after, message.begins_turn)
        )

    def flush(self) -> None:
        """Write the complete messages."""
        self._recorder.flush()

    def close(self) -> None:
        """End the conversation at the end of the file."""
        self._write_grouped_message()
        if self._notes_size > _MAX_NOTES_PER_SESSION:
            self._write_notes(f"notes:{line_types.get_line_key(self._notes[0])}"[:255])
        self._facts.fill_origin(self._recorder.origin, self._seen, trailing=self._notes)
        self._recorder.close()


def _parse_last_message(body: Any) -> tuple[str, int] | None:
    """Parse the last message of an earlier import, and the number of its lines."""
    source = body.get("source") if isinstance(body, dict) else None
    if not isinstance(source, dict) or not isinstance(source.get("lines"), list):
        return None
    return str(body.get("id", "")), max(1, len(source["lines"]))


def _parse_cost(value: Any) -> Decimal:
    """Parse an amount in US dollars."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 10**6:
        return Decimal()
    return Decimal(str(value))
