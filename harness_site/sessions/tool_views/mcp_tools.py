"""View of the tools of MCP servers."""

from __future__ import annotations

from django.utils.translation import gettext as _

from harness_site.sessions.tool_views.tool_view_types import ToolUse, ToolView


def build_mcp_tool_view(use: ToolUse) -> ToolView | None:
    """Name the server and the tool of a call to an MCP server; arguments and result are shown as they are."""
    server, _separator, tool = use.name.removeprefix("mcp__").partition("__")
    if not tool:
        return None
    label = use.mask_line_for_display(tool)
    return ToolView(
        "", label, note=_("MCP server %(server)s") % {"server": use.mask_line_for_display(server)}, has_result=False
    )
