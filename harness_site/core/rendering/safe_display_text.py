"""Text and links for display: masked, without invisible or reordering characters, and encodable."""

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from harness_site.core.hidden_characters import has_hidden_characters, replace_hidden_characters_by_names
from harness_site.core.masking.masker import mask_text
from harness_site.core.rendering.terminal_sequence_removal import remove_terminal_sequences

#: Marks of Markdown, and what stands for them in plain text.
_MARKDOWN_MARKS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"\*\*(?=\S)([^*\n]+)(?<=\S)\*\*"), r"\1"),
    (re.compile(r"`([^`\n]+)`"), r"\1"),
    (re.compile(r"^#{1,6} +", re.MULTILINE), ""),
    (re.compile(r"^(?=[ |:]*-)[ |:-]{3,}$\n?", re.MULTILINE), ""),
    (
        re.compile(r"^[ \t]*\|([^\n]*)\|[ \t]*$", re.MULTILINE),
        lambda row: ", ".join(cell for text in row[1].split("|") if (cell := text.strip())),
    ),
)


def mask_and_reveal_hidden(text: str) -> str:
    """Mask secrets and name every hidden, reordering or unencodable character."""
    return replace_hidden_characters_by_names(mask_text(text))


def mask_output_and_reveal_hidden(text: str) -> str:
    """Mask secrets in the output or the error of a tool, without its terminal sequences, and name hidden characters."""
    return mask_and_reveal_hidden(remove_terminal_sequences(text))


def reveal_hidden_characters(text: str) -> str:
    """Name hidden characters in a text whose secrets are masked already."""
    return replace_hidden_characters_by_names(text)


def mask_safe_link_or_return_empty(address: Any) -> str:
    """Return the masked address if it is safe to link to, else an empty string.

    Addresses with hidden characters or spaces are refused.
    """
    if not isinstance(address, str) or has_hidden_characters(address) or len(address.split()) != 1:
        return ""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return mask_text(address) if parts.scheme in {"http", "https"} and parts.netloc else ""


def strip_markdown_marks(text: str) -> str:
    """Return a text without the marks of Markdown for bold text, code, headings and tables.

    It is for excerpts, which are shown as plain text.
    """
    for pattern, replacement in _MARKDOWN_MARKS:
        text = pattern.sub(replacement, text)
    return text
