"""Title of a conversation of Claude Code from its lines."""

from __future__ import annotations

from collections.abc import Container

from checkpoints.importers.claude_code import line_fields
from checkpoints.importers.claude_code.line_fields import Line
from checkpoints.importers.prompt_title import build_title_and_detect_instructions
from checkpoints.importers.transcript_reader_interface_and_builder import TranscriptBuilder

_MAX_TEXT_LENGTH = 4000
_MAX_SUMMARIES = 20


class SessionTitles:
    """Collector of everything that may be the title. `given` is the one of a subagent's launch."""

    def __init__(self, given: str = "") -> None:
        self._given = given
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []

    def note_titles_of_line(self, line: Line) -> None:
        kind, message = (
            line_fields.get_type_or_empty(line),
            line_fields.get_user_or_assistant_message_or_none(line),
        )
        if kind == "summary":
            self._summaries.append(
                (_truncate_text_or_empty(line.get("leafUuid")), _truncate_text_or_empty(line.get("summary")))
            )
        elif kind in {"custom-title", "ai-title"}:
            titles = (_truncate_text_or_empty(line.get(name)) for name in ("customTitle", "aiTitle", "title"))
            self._titles[kind] = next((name for name in titles if name), "")
        elif kind == "user" and message is not None and not (line.get("isCompactSummary") or line.get("isMeta")):
            content = message.get("content")
            for name, text in (
                ("prompt", line_fields.extract_typed_prompt_or_empty(content)),
                ("command", line_fields.extract_slash_command_or_empty(content)),
            ):
                if name not in self._titles and (
                    title := line_fields.remove_elements_inserted_by_program(text[:_MAX_TEXT_LENGTH])
                ):
                    self._titles[name] = (
                        build_title_and_detect_instructions(title)[0] or title if name == "prompt" else title
                    )

    def choose_and_set_title(self, builder: TranscriptBuilder, keys: Container[str]) -> None:
        """Set the title of the session; `keys` are those of its lines.

        A summary names the last message of its conversation, which may be another one.
        """
        summaries = [text for key, text in self._summaries if key in keys]
        titles = [self._titles.get("custom-title"), self._titles.get("ai-title"), *summaries[-1:], self._given]
        titles += [self._titles.get("prompt"), self._titles.get("command")]
        builder.origin.title = next((name for name in titles if name), "")
        if self._summaries:
            builder.facts["summaries"] = [text for _, text in self._summaries][:_MAX_SUMMARIES]


def _truncate_text_or_empty(value: object) -> str:
    return line_fields.get_text_or_empty(value)[:_MAX_TEXT_LENGTH]
