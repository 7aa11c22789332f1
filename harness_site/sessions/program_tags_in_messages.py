"""Tags that programs write into texts: slash commands, reminders, hooks and notices as chips instead of raw tags."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from checkpoints.formats.stored_result_sentence import parse_stored_result_or_none

#: Known tags, the style of their chip, and its word.
_CHIPS: Final[dict[str, tuple[str, Promise]]] = {
    "system-reminder": ("off", _("Reminder of the program")),
    "system_reminder": ("off", _("Reminder of the program")),
    "local-command-stdout": ("off", _("Output of the command")),
    "local-command-stderr": ("bad", _("Errors of the command")),
    "local-command-caveat": ("off", _("Note of the program")),
    "bash-input": ("run", _("Command of the user")),
    "bash-stdout": ("off", _("Output of the command")),
    "bash-stderr": ("bad", _("Errors of the command")),
    "command-message": ("off", _("Slash command")),
    "command-name": ("run", _("Slash command")),
    "command-args": ("off", _("Arguments")),
    "command-contents": ("off", _("Text of the command")),
    "user-prompt-submit-hook": ("wait", _("Hook")),
    "user-memory-input": ("off", _("Memory")),
    "session-start-hook": ("wait", _("Hook")),
    "post-tool-use-hook": ("wait", _("Hook")),
    "pre-tool-use-hook": ("wait", _("Hook")),
    "stop-hook": ("wait", _("Hook")),
    "task-notification": ("run", _("Notice of a task")),
    "tool_use_error": ("bad", _("Error")),
    "ide_opened_file": ("off", _("File open in the editor")),
    "ide_selection": ("off", _("Selection in the editor")),
    "environment_context": ("off", _("Environment")),
    "user_instructions": ("off", _("Instructions of the user")),
    "permissions": ("off", _("Permissions")),
    "turn_aborted": ("bad", _("Turn aborted")),
}
#: Tags that often have no content.
_OFTEN_EMPTY: Final = frozenset(
    {"command-args", "local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"}
)
#: What a program writes as a message of the person who interrupts the agent.
_INTERRUPTION: Final = re.compile(r"\s*\[(Request interrupted by user[^\[\]\n]{0,40})\]\s*")
_INTERRUPTION_CHIP: Final = ("bad", _("Interruption"))
_STORED_RESULT_CHIP: Final = ("off", _("Stored result given to the agent"))
_OPENING: Final = re.compile("<(" + "|".join(map(re.escape, _CHIPS)) + r")(?: [^<>\n]{0,200})?>")
#: Headings of the state of an editor, and of what the person wrote, in prompts from an editor.
_EDITOR_STATE: Final = "# Context from my IDE setup"
_EDITOR_REQUEST: Final = "## My request for Codex:"
#: Largest number of tags in one text that become chips.
_MAX_TAGS: Final = 50
#: Characters of a text of a chip that are displayed beside it instead of folded.
_SHORT: Final = 120


def begins_with_unclosed_tag(text: str) -> bool:
    """Return whether a text begins with a known tag that it does not close."""
    opening = _OPENING.match(text.lstrip())
    return opening is not None and f"</{opening[1]}>" not in text


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Part of a text, not masked. `chip` is the style and word of a tag, None for text of people and agents.

    `raw` is the text as it is stored, if the program wrote words around the text that are shown only on request.
    """

    text: str
    chip: tuple[str, Promise] | None = None
    raw: str = ""

    @property
    def is_short(self) -> bool:
        return len(self.text) <= _SHORT and "\n" not in self.text


def has_program_written_text(text: str) -> bool:
    return (
        ("<" in text and _OPENING.search(text) is not None)
        or _split_editor_state(text) is not None
        or _INTERRUPTION.fullmatch(text) is not None
        or is_stored_result_given_by_hook(text)
    )


def is_stored_result_given_by_hook(text: str) -> bool:
    """Return whether a text is the words of a hook that gave the agent a stored result in place of a call."""
    return parse_stored_result_or_none(text) is not None


def split_tagged_text(text: str) -> list[TextPiece]:
    """Split a text at its known tags. A tag that is not closed is text. Nothing is left out except the tags.

    Empty output of a command is left out beside other pieces.
    """
    if match := _INTERRUPTION.fullmatch(text):
        return [TextPiece(match[1], _INTERRUPTION_CHIP)]
    if (stored_result := parse_stored_result_or_none(text)) is not None:
        return [TextPiece(stored_result, _STORED_RESULT_CHIP, raw=text)]
    pieces: list[TextPiece] = []
    if (parts := _split_editor_state(text)) is not None:
        state, text = parts
        pieces.append(TextPiece(state, ("off", _("State of the editor"))))
    empty: list[TextPiece] = []
    at = count = 0
    while count < _MAX_TAGS and (match := _OPENING.search(text, at)) is not None:
        count += 1
        closing = text.find(f"</{match[1]}>", match.end())
        if closing < 0:
            break
        _append_prose_if_any(pieces, text[at : match.start()])
        content = text[match.end() : closing].strip()
        is_left_out = not content and match[1] in _OFTEN_EMPTY
        (empty if is_left_out else pieces).append(TextPiece(content, _CHIPS[match[1]]))
        at = closing + len(match[1]) + 3
    _append_prose_if_any(pieces, text[at:])
    return _join_slash_command_pieces(pieces) or empty[:1]


def _split_editor_state(text: str) -> tuple[str, str] | None:
    """Split a prompt from an editor into the state of the editor and what the person wrote; None for others."""
    start, heading, request = text.partition(_EDITOR_REQUEST)
    return (start.strip(), request) if heading and start.lstrip().startswith(_EDITOR_STATE) else None


def _append_prose_if_any(pieces: list[TextPiece], text: str) -> None:
    if text.strip():
        pieces.append(TextPiece(text.strip("\n")))


def _join_slash_command_pieces(pieces: list[TextPiece]) -> list[TextPiece]:
    """Join the name and the arguments of a slash command, and drop the message that repeats its name."""
    by_chip: Callable[[str], TextPiece | None] = lambda name: next(  # noqa: E731
        (piece for piece in pieces if piece.chip is _CHIPS[name]), None
    )
    name, arguments, message = by_chip("command-name"), by_chip("command-args"), by_chip("command-message")
    if name is None:
        return pieces
    if message is not None and message.text.lstrip("/").split(" ")[0].startswith(name.text.lstrip("/")):
        pieces = [piece for piece in pieces if piece is not message]
    if arguments is not None:
        joined = TextPiece(f"{name.text} {arguments.text}".strip(), name.chip)
        pieces = [joined if piece is name else piece for piece in pieces if piece is not arguments]
    return pieces
