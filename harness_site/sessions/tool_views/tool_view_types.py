"""A tool call as a view gets it, and the view that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness_site.core.masking.masker import MASK, get_masked_text_beginning, mask_field_names_and_list_all_fields
from harness_site.core.rendering.safe_display_text import reveal_hidden_characters
from harness_site.core.rendering.text_shortening import cut_text_to_preview, get_byte_size

#: Characters and lines of one text in a conversation.
PREVIEW: Final = 2_400
PREVIEW_LINES: Final = 24
#: Characters of one text on the page of its message or call. A call with a longer one is shown as it is, in pages.
LONGEST: Final = 50_000
_UNLIMITED_LINES: Final = 1_000_000
#: Tag that programs write around errors of their tools.
_ERROR_TAG: Final = "tool_use_error"
#: Characters of a name, path, query or URL in the header of a call.
_TARGET: Final = 300


@dataclass(frozen=True, slots=True)
class ShownText:
    """A masked text for display. `size` is that of the whole text in bytes; `whole`: nothing is missing."""

    text: str
    whole: bool
    size: int


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call. Values of secret fields are masked in `args`; its texts and `result` are not masked yet.

    `result` is the text of the result, None without one. With `is_whole`, nothing may be left out.
    """

    name: str
    args: Mapping[str, Any]
    result: str | None
    is_error: bool = False
    is_whole: bool = False

    def get_first_text_argument_or_empty(self, *names: str) -> str:
        """Return the first of these arguments that is a text with content; empty if there is none."""
        values = (self.args.get(name) for name in names)
        return next((value for value in values if isinstance(value, str) and value), "")

    def get_first_number_argument_or_none(self, *names: str) -> int | None:
        values = (self.args.get(name) for name in names)
        return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)

    def mask_and_cut_text_for_display(self, text: str, *, is_terminal: bool = False) -> ShownText:
        """Mask a text for display; in a conversation, only its beginning.

        With `is_terminal`, terminal codes stay for `ansi_colors`, which names other hidden characters itself.
        """
        limit, lines = (LONGEST, _UNLIMITED_LINES) if self.is_whole else (PREVIEW, PREVIEW_LINES)
        beginning = cut_text_to_preview(text, limit, lines)
        masked = get_masked_text_beginning(text, len(beginning.text))
        shown = masked if is_terminal else reveal_hidden_characters(masked)
        return ShownText(shown, beginning.whole, beginning.size)

    def mask_line_for_display(self, text: str) -> str:
        """Mask a short text for display on one line."""
        line = " ".join(text[: _TARGET * 4].split())
        shown = reveal_hidden_characters(get_masked_text_beginning(line, min(len(line), _TARGET)))
        return f"{shown}…" if len(line) > _TARGET or len(text) > _TARGET * 4 else shown


@dataclass(frozen=True, slots=True)
class ToolView:
    """A call for display: `kind` names its template, empty for arguments and result as they are.

    `label` says what was done and `target` to what, both masked. `chip` is a style and a word. `has_result` tells
    whether the template displays the text of the result too. `is_launch`: the work goes on after the result, and takes
    longer than the call. `is_complete` is False if something is left out; then `size` is that of everything, in bytes.
    """

    kind: str
    label: str
    target: str = ""
    chip: tuple[str, str] | None = None
    note: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)
    has_result: bool = True
    is_launch: bool = False
    is_complete: bool = True
    size: int = 0

    @property
    def has_template(self) -> bool:
        """Whether the view displays the call itself; if not, it only names it."""
        return bool(self.kind)

    @property
    def template_name(self) -> str:
        return f"sessions/tools/{self.kind}.html"


def mask_fields_and_make_tool_use_or_none(
    name: str, args: Any, result: str | None, *, is_error: bool, is_whole: bool
) -> ToolUse | None:
    """Make a tool use; None if the arguments are no object, or a text in it is too long for a view."""
    if isinstance(args, str):  # some tools take one text, such as a patch
        args = {"input": args}
    if not isinstance(args, dict):
        return None
    if is_whole and max(map(get_byte_size, _list_argument_and_result_texts(args, result)), default=0) > LONGEST:
        return None
    if is_error and result is not None:
        result = remove_error_tag(result)
    values = {field.key: MASK if field.hidden else field.value for field in mask_field_names_and_list_all_fields(args)}
    return ToolUse(name, values, result, is_error, is_whole)


def remove_error_tag(text: str) -> str:
    """Return the text of an error without the tag that programs write around it; the end may be cut off."""
    stripped = text.strip()
    if not stripped.startswith(f"<{_ERROR_TAG}>"):
        return text
    return stripped.removeprefix(f"<{_ERROR_TAG}>").removesuffix(f"</{_ERROR_TAG}>")


def _list_argument_and_result_texts(args: dict[str, Any], result: str | None) -> list[str]:
    texts = [value for value in args.values() if isinstance(value, str)]
    return [*texts, result] if result is not None else texts
