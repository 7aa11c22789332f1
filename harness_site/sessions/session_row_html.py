"""HTML of a row of the session list. A template takes several times as long, and a page has dozens of rows."""

from __future__ import annotations

from typing import Final

from django.utils.safestring import SafeString

from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.sessions.session_row_display import SessionLine

_ROW: Final = """\
<tr id="session-{pk}"{css_class}>
  {pick}
  <th scope="row"><a data-row href="{address}" dir="auto">{name}</a> <small>{session_id}{agent}{labels}</small></th>
  <td class="state"><span class="chip {status_shape}">{status}</span> <small><span>{activity}</span></small></td>
  <td class="number" data-label="{version_label}">{version}</td>
  <td class="number" data-label="{messages_label}">{messages}</td>
  <td class="number" data-label="{cost_label}">{estimate}{cost}</td>
  <td class="time-cell">{time}</td>
</tr>"""
_PICK: Final = (
    '<td class="pick"><input type="checkbox" name="session" value="{pk}" id="pick-{pk}" aria-label="{box_name}"></td>'
)


def render_session_row(
    line: SessionLine,
    version_label: str,
    messages_label: str,
    cost_label: str,
    estimate_label: str,
    *,
    selectable: bool,
) -> SafeString:
    """Render a line as a row of the table; the labels are the same in all rows. A `selectable` row has a checkbox."""
    return build_html(
        _ROW,
        pk=line.pk,
        css_class=build_html(' class="{}"', line.css_class) if line.css_class else "",
        pick=build_html(_PICK, pk=line.pk, box_name=line.box_name) if selectable else "",
        address=line.address,
        name=line.name,
        session_id=line.session_id,
        agent=build_html(" <span><bdi>{}</bdi></span>", line.agent) if line.agent else "",
        labels=join_html(
            "", ' <a class="label" href="{}">{}</a>', ((label.address, label.name) for label in line.labels)
        ),
        status_shape=line.status_shape,
        status=line.status,
        activity=line.activity,
        version_label=version_label,
        version=line.version,
        messages_label=messages_label,
        messages=line.messages,
        cost_label=cost_label,
        estimate=build_html('<abbr title="{}">≈</abbr> ', estimate_label) if line.is_cost_estimated else "",
        cost=line.cost,
        time=line.time,
    )
