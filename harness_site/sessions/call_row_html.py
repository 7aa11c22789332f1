"""HTML of cells in the lists of calls. A template takes several times as long, and a page has dozens of rows."""

from __future__ import annotations

from django.utils.safestring import SafeString

from harness_site.core.rendering.fast_format_html import build_html
from harness_site.sessions.call_row_display import CallLine, WorkspaceCallLine


def render_call_link_and_tool(call: CallLine) -> SafeString:
    """Render what a call does, with its tool below."""
    sentence = '<a data-row href="{}" dir="auto">{}</a> <small>{}</small>'
    return build_html(sentence, call.address, call.sentence, call.tool)


def render_call_id(call: CallLine) -> SafeString:
    return build_html('<small class="call-id"><code title="{}">{}</code></small>', call.call_id, call.call_id)


def render_session_cell(line: WorkspaceCallLine) -> SafeString:
    return build_html(
        '<td class="of-session"><a href="{}" dir="auto">{}</a>{}</td>',
        line.session_address,
        line.session_name,
        build_html(" <small>{}</small>", line.agent) if line.agent else "",
    )


def render_call_status_cell(call: CallLine, run: str = "") -> SafeString:
    """Render status and time of a call and why it failed, with the name of its `run` in a list of one session."""
    return build_html(
        '<td class="state"><span class="chip {}">{}</span> <small>{}<span>{}{}</span>{}{}</small>{}</td>',
        call.status_shape,
        call.status,
        build_html("<span>{}</span> ", call.status_reason) if call.status_reason else "",
        call.logged,
        f" · {run}" if run else "",
        build_html(' <span class="due">{}</span>', call.due) if call.due else "",
        build_html(" <span>{}</span>", call.repeats) if call.repeats else "",
        build_html(' <small class="error" dir="auto" title="{}">{}</small>', call.error, call.error)
        if call.error
        else "",
    )


def render_call_duration_cell(call: CallLine, label: str) -> SafeString:
    """Render the duration of a call; `label` names it where the list has no head."""
    return build_html(
        '<td class="number time-cell{}" data-label="{}">{}</td>',
        " nothing" if call.record.duration is None else "",
        label,
        call.duration,
    )
