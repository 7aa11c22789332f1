"""Texts and JSON values of a transcript, of which a page shows the beginning, everything, or the first page."""

from __future__ import annotations

from typing import Any, Literal

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from harness_site.core.call_arguments_html import mask_and_render_call_arguments
from harness_site.core.masking.masker import mask_text
from harness_site.core.rendering import ansi_colors, json_tree, markdown, text_shortening
from harness_site.core.rendering.fast_format_html import build_html
from harness_site.sessions import json_and_text_excerpts, long_text_pagination

#: Characters of a message and of a result, and lines, shown before the text is folded.
_MESSAGE_PREVIEW_CHARS = 3_000
_RESULT = 1_600
_LINES = 60
#: Characters and lines of the first prompt, where the last answer has to be in sight as well.
_BRIEF = 700
_BRIEF_LINES = 10
#: Characters and lines of instructions to the model, which are much the same in all sessions of an agent.
_INSTRUCTIONS = 300
_INSTRUCTION_LINES = 4
#: How much of a text or value is displayed: its beginning (False), everything (True), or its first page ("page").
Extent = bool | Literal["page"]


def render_foldable_message_text(
    content: str, more_url: str, whole: Extent = False, brief: object = False
) -> SafeString:
    """Render a text as Markdown, with a link to the rest; of a `brief` one, only the first lines are displayed, and of
    `"instructions"` fewer."""
    if page := _build_first_page_if_several(content, whole):
        further = render_to_string("sessions/parts/next_page.html", {"page": page, "more_url": more_url})
        return _render_masked_markdown_as_prose(page.text) + further
    length, lines = (_BRIEF, _BRIEF_LINES) if brief else (_MESSAGE_PREVIEW_CHARS, _LINES)
    if brief == "instructions":
        length, lines = _INSTRUCTIONS, _INSTRUCTION_LINES
    beginning = (
        _build_whole_masked_text(content)
        if whole
        else text_shortening.cut_and_mask_text_to_preview(content, length, lines)
    )
    prose = _render_masked_markdown_as_prose(beginning.text)
    if beginning.whole:
        return prose
    folded = {"size": beginning.size, "target": ".msg", "more_url": more_url}
    return prose + render_to_string("sessions/parts/more.html", folded)


def _render_masked_markdown_as_prose(masked: str) -> SafeString:
    return build_html('<div class="prose" dir="auto">{}</div>', markdown.mask_and_render_markdown(masked))


def build_json_tree_context(value: Any, more_url: str, whole: Extent = False) -> dict[str, Any]:
    """Build the variables of a JSON value as a labelled list, with a link to the complete value if it is truncated."""
    return _build_tree_context(value, json_tree.PREVIEW, more_url, whole)


def build_call_arguments_context(args: Any, more_url: str, whole: Extent = False) -> dict[str, Any]:
    """Build the variables of the arguments of a call, with a link to all of them if they are truncated."""
    return _build_tree_context(args, json_tree.PREVIEW, more_url, whole, are_arguments=True)


def build_tool_result_context(content: str, more_url: str, whole: Extent = False) -> dict[str, Any]:
    """Build the variables of the text result of a tool: a JSON object or list as a labelled list, or else as text."""
    value = json_and_text_excerpts.parse_json_container(content)
    if value is not None:
        return _build_tree_context(value, _RESULT, more_url, whole, text=content)
    if page := _build_first_page_if_several(content, whole):
        return {"tree": None, "shown": ansi_colors.render_ansi_as_html(page.text), "page": page, "more_url": more_url}
    beginning = (
        _build_whole_masked_text(content)
        if whole
        else text_shortening.cut_and_mask_text_to_preview(content, _RESULT, _LINES // 3)
    )
    shown = ansi_colors.render_ansi_as_html(beginning.text)
    return {"tree": None, "shown": shown, "folded": beginning, "page": None, "more_url": more_url}


def _build_tree_context(
    value: Any, preview: int, more_url: str, whole: Extent, *, text: str | None = None, are_arguments: bool = False
) -> dict[str, Any]:
    """Build the context of a tree; `text` is the text that contains the value, if it is not the value itself."""
    limit = long_text_pagination.MAX_UNPAGED_LENGTH if whole == "page" else None if whole else preview
    tree = (
        mask_and_render_call_arguments(value, limit=limit, fold=not whole)
        if are_arguments
        else json_tree.mask_and_render_json_tree(value, limit=limit)
    )
    page = None
    if whole == "page" and not tree.whole:
        page = long_text_pagination.build_masked_text_page(
            long_text_pagination.mask_secret_fields_and_format_json(value) if text is None else text, 1
        )
    return {"tree": tree, "page": page, "more_url": more_url}


def _build_first_page_if_several(content: str, whole: Extent) -> long_text_pagination.TextPage | None:
    """Return the first page of a text that has several, if it is displayed in pages."""
    return (
        long_text_pagination.build_masked_text_page(content, 1)
        if whole == "page" and len(content) > long_text_pagination.PAGE
        else None
    )


def _build_whole_masked_text(content: str) -> text_shortening.FoldedText:
    return text_shortening.FoldedText(mask_text(content), True, text_shortening.get_byte_size(content))
