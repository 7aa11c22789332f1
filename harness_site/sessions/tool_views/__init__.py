"""Views of tool calls: what a tool did, shown the way people know it, instead of as arguments and a text.

A view is one function that turns a call into a `ToolView`, one template in `templates/sessions/tools/`, and one row in
`tool_view_registry.TOOL_VIEWS`, which names the tools by pattern. A call without a view, or one whose arguments are not
of the expected form, is shown as its arguments and its result.
"""
