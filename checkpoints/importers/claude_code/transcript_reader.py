"""Reader of transcripts of Claude Code: of its own files, of its stream of JSON, and of the web."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from checkpoints.importers.claude_code import line_fields, non_message_line_detection
from checkpoints.importers.claude_code.conversation_import import ConversationImport
from checkpoints.importers.claude_code.line_fields import Line
from checkpoints.importers.claude_code.session_titles import SessionTitles
from checkpoints.importers.transcript_reader_interface_and_builder import ImportContext, TranscriptFormat

AGENT_NAME: Final = "claude-code"
_UUID_PATTERN: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT_PREFIX: Final = "agent-"
#: Beginnings of the names of helpers that repeat a conversation to summarise it, or to suggest a prompt.
INTERNAL_SUBAGENT_FILE_PREFIXES: Final = ("agent-acompact", "agent-aprompt_suggestion", "agent-aside_question")
#: Number of lines after which conversations that are read at the same time are written.
_FLUSH_LINES: Final = 2000


class ClaudeCodeReader:
    """Reader of one file: the conversation it is named after, and those of subagents that are in it."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._path = context.path or Path(context.name)
        self._agent_id = (
            self._path.stem.removeprefix(_AGENT_PREFIX) if self._path.stem.startswith(_AGENT_PREFIX) else ""
        )
        self._about = self._read_subagent_description() if self._agent_id else {}
        self._conversations: dict[str, ConversationImport] = {}
        self._sides: dict[str, str] = {}
        self._waiting: list[Line] = []
        self._session_id = context.session_id
        self._lines = 0

    def add_value(self, number: int, value: Any) -> None:
        """Read a line, or a session of the web with all its lines."""
        if isinstance(value, dict) and isinstance(value.get("loglines"), list):
            self._session_id = self._session_id or str(value.get("id", value.get("session_id", "")))
            for line in value["loglines"]:
                self.add_value(number, line)
        elif isinstance(value, dict):
            self._read_or_buffer_line_until_session_id(_convert_stream_line(value))
        else:
            text = json.dumps(value, ensure_ascii=False)
            self._context.report.add_damaged_place(self._path, number, "it is no line of Claude Code", text)

    def _read_subagent_description(self) -> dict[str, Any]:
        """Read what is known about the subagent, if need be from the file beside its transcript."""
        if self._context.subagent is not None:
            return dict(self._context.subagent)
        try:
            description = json.loads(self._path.with_suffix(".meta.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return description if isinstance(description, dict) else {}

    def _read_or_buffer_line_until_session_id(self, line: Line) -> None:
        """Read a line; the first ones wait until one of them names the session."""
        if not self._session_id and not isinstance(line.get("sessionId"), str) and len(self._waiting) < _FLUSH_LINES:
            self._waiting.append(line)
            return
        self._session_id = self._session_id or line_fields.get_text_or_empty(line.get("sessionId")) or self._path.stem
        waiting, self._waiting = self._waiting, []
        for each in (*waiting, line):
            self._lines += 1
            self._get_or_start_conversation(self._note_and_get_subagent_name_or_empty(each)).add_line(each)
            self._note_call_that_started_subagent(each)
        if self._lines % _FLUSH_LINES == 0 and len(self._conversations) > 1:
            for conversation in self._conversations.values():
                conversation.write_complete_messages()

    def _note_and_get_subagent_name_or_empty(self, line: Line) -> str:
        """Return the name of the side conversation (subagent) of a line; empty for the main one.

        The name is noted for the lines that have this one as their parent.
        """
        if self._agent_id or line.get("isSidechain") is not True:
            return ""
        agent, uuid, parent = line.get("agentId"), line.get("uuid"), line.get("parentUuid")
        if isinstance(agent, str) and agent:
            return f"{_AGENT_PREFIX}{agent}"
        name = self._sides.get(parent, "") if isinstance(parent, str) else ""
        name = name or f"sidechain-{uuid}"
        if isinstance(uuid, str):
            self._sides[uuid] = name
        return name

    def _get_or_start_conversation(self, name: str) -> ConversationImport:
        if name not in self._conversations:
            subagent_name = f"{_AGENT_PREFIX}{self._agent_id}" if self._agent_id else name
            self._conversations[name] = self._start_conversation_import(subagent_name)
        return self._conversations[name]

    def _get_main_session_id_of_file(self) -> str:
        """Return the id of the session that the file belongs to."""
        if self._agent_id:
            folders = [folder for folder in self._path.parents if folder.name == "subagents"]
            return folders[0].parent.name if folders else self._session_id
        return self._path.stem if _UUID_PATTERN.fullmatch(self._path.stem) else self._session_id

    def _start_conversation_import(self, subagent_name: str) -> ConversationImport:
        context, parent_id = self._context, self._get_main_session_id_of_file()
        if not subagent_name:
            builder = context.open_builder(
                context.choose_session_id(parent_id), labels=(AGENT_NAME,), has_positional_keys=False
            )
            builder.facts["project"] = self._path.parent.name
            return ConversationImport(builder, SessionTitles())
        kind = line_fields.get_text_or_empty(self._about.get("agentType")) or "subagent"
        builder = context.open_builder(
            context.choose_session_id(parent_id, subagent_name),
            agent=f"{AGENT_NAME}/{kind}",
            labels=(AGENT_NAME, "subagent"),
            has_positional_keys=False,
        )
        builder.origin.parent_session_id = context.choose_session_id(parent_id)
        builder.facts |= {"project": self._path.parent.name, "subagent": self._about or {"id": subagent_name}}
        return ConversationImport(builder, SessionTitles(line_fields.get_text_or_empty(self._about.get("description"))))

    def _note_call_that_started_subagent(self, line: Line) -> None:
        """Note which call started which subagent, in the metadata of the parent."""
        result, call_id = line.get("toolUseResult"), line_fields.get_first_result_call_id_or_empty(line)
        agent = result.get("agentId") if isinstance(result, dict) else None
        subagent_name = f"{_AGENT_PREFIX}{agent}" if isinstance(agent, str) and agent else ""
        if not subagent_name and isinstance(line.get("parentToolUseId"), str):
            subagent_name, call_id = f"{_AGENT_PREFIX}{line['agentId']}", line["parentToolUseId"]
        if not subagent_name or not call_id or self._agent_id:
            return
        links = self._get_or_start_conversation("").builder.facts.setdefault("subagents", {})
        links.setdefault(self._context.choose_session_id(self._get_main_session_id_of_file(), subagent_name), call_id)

    @property
    def conversations(self) -> Collection[ConversationImport]:
        """Conversations of the file, as far as it has been read."""
        return self._conversations.values()

    def flush(self) -> None:
        """Write everything read so far."""
        if self._waiting:
            self._session_id = self._session_id or self._context.name
            line = self._waiting.pop()
            self._read_or_buffer_line_until_session_id(line)
        for conversation in self._conversations.values():
            conversation.flush()


def is_internal_subagent_file(path: Path) -> bool:
    """Return whether a file is of a helper of the program, which repeats a conversation that has its own file."""
    return path.name.startswith(INTERNAL_SUBAGENT_FILE_PREFIXES)


def _convert_stream_line(line: Line) -> Line:
    """Convert a line of the stream to one of a file; a line inside a call of a subagent is a sidechain."""
    if "session_id" not in line and "parent_tool_use_id" not in line:
        return line
    names = {"session_id": "sessionId", "parent_tool_use_id": "parentToolUseId"}
    converted = {names.get(name, name): value for name, value in line.items()}
    if isinstance(converted.get("parentToolUseId"), str):
        converted |= {"isSidechain": True, "agentId": converted["parentToolUseId"]}
    return converted


def _score_format_match(value: Any) -> int:
    """Return how surely a value is a line of Claude Code, or a session of the web."""
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("loglines"), list):
        return 3
    kind = line_fields.get_type_or_empty(value)
    if kind in {"user", "assistant"} and isinstance(value.get("message"), str):  # a list of prompts of Gemini CLI
        return 0
    is_message = kind in {"user", "assistant"} and isinstance(value.get("message"), dict)
    if is_message and ("parentId" not in value or "parentUuid" in value):
        return 3
    if kind in non_message_line_detection.RECORD_TYPES:
        return 2
    if kind in {"system", "attachment", "result"} and {"subtype", "uuid", "sessionId", "session_id"} & value.keys():
        return 2
    return 1 if line_fields.MARKER_FIELDS & value.keys() and kind and "payload" not in value else 0


CLAUDE_CODE: Final = TranscriptFormat("claude-code", AGENT_NAME, _score_format_match, ClaudeCodeReader)
