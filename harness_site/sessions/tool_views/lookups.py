"""Views of searches in files and on the web, and of pages fetched."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from harness_site.sessions.session_formatting import mask_safe_link, parse_json_container
from harness_site.sessions.tool_views.base import ToolUse, ToolView

_QUERIES: Final = ("pattern", "query", "regex", "q", "search_term", "path", "dir_path", "directory")
_FILTERS: Final = ("path", "dir_path", "glob", "include", "type", "output_mode", "directory")
_URLS: Final = ("url", "uri", "link", "address")


def view_search(use: ToolUse) -> ToolView | None:
    """Show what was searched for, and the lines that were found."""
    asked = use.get_text(*_QUERIES)
    result = use.result or ""
    if not asked or use.is_error or parse_json_container(result) is not None:
        return None
    filters = [use.show_line(use.get_text(name)) for name in _FILTERS if use.get_text(name) not in {"", asked}]
    shown = use.show(result)
    count = sum(1 for line in result.splitlines()[:10_000] if line.strip())
    return ToolView(
        "search",
        _("Search"),
        use.show_line(asked),
        note=" · ".join([*filters, ngettext("%(count)d line", "%(count)d lines", count) % {"count": count}]),
        content={"output": shown.text},
        is_complete=shown.whole,
        size=shown.size,
    )


def view_fetch(use: ToolUse) -> ToolView | None:
    """Show the address of a page and the text that came back."""
    address = use.get_text(*_URLS)
    if not address or "://" not in address[:20]:
        return None
    return _view_web(use, _("Web page"), address, use.get_text("prompt"))


def view_web_search(use: ToolUse) -> ToolView | None:
    asked = use.get_text("query", "q", "search_term")
    return _view_web(use, _("Web search"), asked, "") if asked else None


def _view_web(use: ToolUse, label: str, asked: str, prompt: str) -> ToolView:
    shown = use.show((use.result or "").strip())
    return ToolView(
        "web",
        label,
        use.show_line(asked),
        content={"link": mask_safe_link(asked), "prompt": use.show_line(prompt), "returned": shown.text},
        has_result=not use.is_error,
        is_complete=shown.whole,
        size=shown.size,
    )
