"""Views of searches in files and on the web, and of pages fetched."""

from __future__ import annotations

import re
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from harness_site.core.rendering.safe_display_text import mask_safe_link_or_return_empty
from harness_site.core.rendering.text_shortening import get_byte_size
from harness_site.sessions.json_and_text_excerpts import parse_json_container
from harness_site.sessions.tool_views.tool_view_types import LONGEST, ToolUse, ToolView

_QUERIES: Final = ("pattern", "query", "regex", "q", "search_term", "path", "dir_path", "directory")
_FILTERS: Final = ("path", "dir_path", "glob", "include", "type", "output_mode", "directory")
_URLS: Final = ("url", "uri", "link", "address")
#: Line of a search on the web that lists the pages it found as JSON.
_LINKS_LINE: Final = re.compile(r"^Links: (\[\{.*\}\])$", re.MULTILINE)


def build_search_view(use: ToolUse) -> ToolView | None:
    """Show what was searched for, and the lines that were found.

    A search that failed or returned data is only named: arguments and result are shown as they are.
    """
    query = use.get_first_text_argument_or_empty(*_QUERIES)
    result = use.result or ""
    if not query:
        return None
    if use.is_error or parse_json_container(result) is not None:
        return ToolView("", _("Search"), use.mask_line_for_display(query), has_result=False)
    filters = [
        use.mask_line_for_display(use.get_first_text_argument_or_empty(name))
        for name in _FILTERS
        if use.get_first_text_argument_or_empty(name) not in {"", query}
    ]
    shown = use.mask_and_cut_text_for_display(result)
    count = sum(1 for line in result.splitlines()[:10_000] if line.strip())
    counted = [] if use.result is None else [ngettext("%(count)d line", "%(count)d lines", count) % {"count": count}]
    return ToolView(
        "search",
        _("Search"),
        use.mask_line_for_display(query),
        note=" · ".join([*filters, *counted]),
        content={"output": shown.text, "is_empty": use.result is not None and not shown.text},
        is_complete=shown.whole,
        size=shown.size,
    )


def build_fetch_view(use: ToolUse) -> ToolView | None:
    """Show the address of a page and the text that came back."""
    address = use.get_first_text_argument_or_empty(*_URLS)
    if not address or "://" not in address[:20]:
        return None
    return _build_web_view(use, _("Web page"), address, use.get_first_text_argument_or_empty("prompt"))


def build_web_search_view(use: ToolUse) -> ToolView | None:
    query = use.get_first_text_argument_or_empty("query", "q", "search_term")
    return _build_web_view(use, _("Web search"), query, "") if query else None


def _build_web_view(use: ToolUse, label: str, target: str, prompt: str) -> ToolView:
    result = (use.result or "").strip()
    is_data = parse_json_container(result) is not None  # it is shown as data, below the view
    links, remainder = ([], "") if is_data else _split_links_from_result_text(result)
    shown = use.mask_and_cut_text_for_display(remainder)
    return ToolView(
        "web",
        label,
        use.mask_line_for_display(target),
        content={
            "link": mask_safe_link_or_return_empty(target),
            "prompt": use.mask_line_for_display(prompt),
            "pages": [
                (use.mask_line_for_display(link["title"]), mask_safe_link_or_return_empty(link["url"]))
                for link in links
            ],
            "returned": shown.text,
        },
        has_result=not use.is_error and not is_data,
        is_complete=shown.whole,
        size=get_byte_size(result),
    )


def _split_links_from_result_text(result: str) -> tuple[list[dict[str, str]], str]:
    """Split the pages that a search found, title and address, from the text of its result."""
    match = _LINKS_LINE.search(result[:LONGEST])
    links = parse_json_container(match[1]) if match else None
    if match is None or not isinstance(links, list) or not all(map(_is_dict_of_title_and_url, links)):
        return [], result
    return links, f"{result[: match.start()].strip()}\n\n{result[match.end() :].strip()}".strip()


def _is_dict_of_title_and_url(value: Any) -> bool:
    return (
        isinstance(value, dict) and value.keys() == {"title", "url"} and all(isinstance(x, str) for x in value.values())
    )
