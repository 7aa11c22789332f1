"""Metadata of a conversation from its lines: title, program, model, place."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from checkpoints.importers.claude_code import line_types
from checkpoints.importers.claude_code.line_types import Line
from checkpoints.importers.imported_session import IMPORT_MARK, TranscriptOrigin, to_storable

AGENT_NAME: Final = "claude-code"
#: Largest number of stored names of models, branches and folders.
_MAX_VALUES = 20
_MAX_TEXT_LENGTH = 4000


class SessionFacts:
    """Collector of metadata from every line, which describes the session at the end."""

    def __init__(self, metadata: dict[str, Any], title: str = "") -> None:
        self._known = metadata
        self._given = title
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []
        self._version = ""
        self._seen: dict[str, list[str]] = {"cwd": [], "gitBranch": [], "model": []}

    def add_line_facts(self, line: Line) -> None:
        kind, message = line_types.get_type(line), line_types.get_message(line)
        if kind == "summary":
            self._summaries.append((_to_short_text(line.get("leafUuid")), _to_short_text(line.get("summary"))))
        elif kind in {"custom-title", "ai-title"}:
            titles = (_to_short_text(line.get(name)) for name in ("customTitle", "aiTitle", "title"))
            self._titles[kind] = next((name for name in titles if name), "")
        elif kind == "user" and message is not None:
            self._add_message_facts(line, message)
        self._version = _to_short_text(line.get("version")) or self._version
        for name in ("cwd", "gitBranch"):
            self._add_value(name, line.get(name))
        if kind == "assistant" and message is not None and message.get("model") != "<synthetic>":
            self._add_value("model", message.get("model"))

    def _add_message_facts(self, line: Line, message: dict[str, Any]) -> None:
        if line.get("isCompactSummary") or line.get("isMeta"):
            return
        if prompt := line_types.extract_prompt(message.get("content")):
            self._titles.setdefault("prompt", prompt[:_MAX_TEXT_LENGTH])
        if command := line_types.extract_command(message.get("content")):
            self._titles.setdefault("command", command[:_MAX_TEXT_LENGTH])

    def _add_value(self, name: str, value: Any) -> None:
        values = self._seen[name]
        if (text := _to_short_text(value)) and text not in values and len(values) < _MAX_VALUES:
            values.append(text)

    def _choose_title(self, keys: Container[str]) -> str:
        """Choose the title. A summary names the last message of its conversation, which may be another one."""
        summaries = [text for key, text in self._summaries if key in keys]
        titles = [self._titles.get("custom-title"), self._titles.get("ai-title"), *summaries[-1:], self._given]
        return next((name for name in [*titles, self._titles.get("prompt"), self._titles.get("command")] if name), "")

    def fill_origin(self, origin: TranscriptOrigin, keys: Container[str], *, trailing: list[Line]) -> None:
        """Fill the metadata of a session. `keys` are those of its lines, `trailing` its notes after the last
        message."""
        origin.title = self._choose_title(keys)
        origin.program = f"{AGENT_NAME} {self._version}".strip()
        metadata = {
            "working_directories": self._seen["cwd"],
            "git_branches": self._seen["gitBranch"],
            "models": self._seen["model"],
            "claude_code_version": self._version,
            "summaries": [text for _, text in self._summaries][:_MAX_VALUES],
        }
        notes = {"trailing_notes": trailing} if trailing else {}
        origin.metadata = to_storable(
            {**self._known, **metadata, IMPORT_MARK: {**self._known.get(IMPORT_MARK, {}), **notes}}
        )


def _to_short_text(value: Any) -> str:
    return line_types.to_text(value)[:_MAX_TEXT_LENGTH]
