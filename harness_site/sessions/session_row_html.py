"""HTML of the rows of the session list. A template takes several times as long, and a page has dozens of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord
from harness_site.sessions.session_row_display import SessionLine
from harness_site.templatetags.harness_tags import render_unreadable_row

_ROW: Final = """\
<tr id="session-{pk}"{css_class}>
  {pick}
  <th scope="row"><a data-row href="{address}" dir="auto"{title}>{name}</a> <small>{facts}</small></th>
  <td class="state"><span class="chip {status_shape}">{status}</span>{activity}</td>
  <td class="number of-size" data-label="{version_label}">{version}</td>
  <td class="number of-size" data-label="{messages_label}">{messages}</td>
  <td class="number{no_cost}" data-label="{cost_label}">{estimate}{cost}{copied_cost}</td>
  <td class="time-cell">{time}</td>
</tr>"""
#: Names of at most this length have room in the line of a laptop, so they are not repeated as its title.
_LONGEST_SHORT_NAME: Final = 40
_PICK: Final = (
    '<td class="pick"><input type="checkbox" name="session" value="{pk}" id="pick-{pk}" aria-label="{box_name}"></td>'
)


def render_session_rows(lines: Iterable[SessionLine | UnreadableRecord]) -> SafeString:
    """Render lines as rows of the table, with checkboxes."""
    labels = {
        "version_label": _("version"),
        "messages_label": _("messages"),
        "cost_label": _("cost"),
        "estimate_mark": build_html('<abbr title="{}">≈</abbr> ', _("An estimate from the price table")),
    }
    rows = (
        render_unreadable_row(line, "session", "tr")
        if isinstance(line, UnreadableRecord)
        else _render_session_row(line, labels)
        for line in lines
    )
    return SafeString("\n".join(rows))


def _render_session_row(line: SessionLine, labels: Mapping[str, str]) -> SafeString:
    return build_html(
        _ROW,
        pk=line.pk,
        css_class=build_html(' class="{}"', line.css_class) if line.css_class else "",
        pick=build_html(_PICK, pk=line.pk, box_name=line.box_name),
        address=line.address,
        name=line.name,
        title=build_html(' title="{}"', line.name) if len(line.name) > _LONGEST_SHORT_NAME else "",
        facts=_render_id_agent_forks_and_labels(line),
        status_shape=line.status_shape,
        status=line.status,
        activity=build_html(" <small><span>{}</span></small>", line.activity) if line.activity else "",
        version_label=labels["version_label"],
        version=line.version,
        messages_label=labels["messages_label"],
        messages=line.messages,
        cost_label="" if line.is_cost_in_tokens else labels["cost_label"],
        estimate=labels["estimate_mark"] if line.is_cost_estimated else "",
        cost=line.cost,
        copied_cost=build_html(" <small>{}</small>", line.copied_cost) if line.copied_cost else "",
        no_cost=" nothing" if line.cost == "–" else "",
        time=line.time,
    )


def _render_id_agent_forks_and_labels(line: SessionLine) -> SafeString:
    """Render the id, the agent, what is a fork or has forks, and the labels."""
    agent = build_html(" <span><bdi>{}</bdi></span>", line.agent) if line.agent else SafeString("")
    if line.labels and not line.agent:  # a label beside the id would be read as the agent
        agent = build_html(" <span>{}</span>", _("no agent"))
    marks = join_html("", ' <span class="fork-mark">{}</span>', ((mark,) for mark in line.fork_marks))
    labels = ((label.address, label.name) for label in line.labels)
    return line.session_id + agent + marks + join_html("", ' <a class="label" href="{}">{}</a>', labels)
