"""Template tags and filters of the overview."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from html import escape
from math import floor
from typing import Final
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from harness_site.core.formatting import format_iso_time, format_number, format_utc_time
from harness_site.core.masking.encrypted_names_in_urls import encrypt_name_if_masked
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.overview.charts import AxisLabel, Bar, Chart, format_step_of_period
from harness_site.overview.period_totals import SessionTotals
from harness_site.overview.periods import Period
from harness_site.sessions.money_and_count_formatting import format_count, render_cost_or_tokens, render_rounded_money

register = template.Library()

_THOUSAND: Final = 1_000
_MILLION: Final = 1_000_000


@register.filter
def render_cost_marked_if_estimated(totals: SessionTotals) -> SafeString | str:
    """Format the cost of sessions with cents, and mark it if estimates are a part of it."""
    amount = render_rounded_money(totals.known_cost)
    if not totals.cost or not totals.estimated:
        return amount
    title = _("A part of this is an estimate from the price table")
    if totals.estimated + totals.unpriced == totals.sessions:
        title = _("An estimate from the price table")
    return build_html('<abbr title="{}">≈</abbr> {}', title, amount)


@register.filter
def render_cost_or_number_of_tokens(totals: SessionTotals) -> SafeString | str:
    """Format the cost of sessions, or the number of their tokens if no session has a known cost, as lists do."""
    if totals.known_cost is None:
        return render_cost_or_tokens(None, totals.tokens)
    return render_cost_marked_if_estimated(totals)


@register.filter
def render_token_sum(tokens: int) -> SafeString | str:
    """Format a number of tokens in thousands or millions, with the exact number on hover; 0 means unknown."""
    if not tokens:
        return "–"
    if tokens < _THOUSAND:
        return format_count(tokens)
    if tokens < _MILLION - _THOUSAND // 2:
        # Translators: a rounded number of thousands: 28 k
        shown = _("%(number)s k") % {"number": format_number(Decimal(tokens) / _THOUSAND)}
    else:
        # Translators: a rounded number of millions: 18.6 M
        shown = _("%(number)s M") % {"number": format_number(Decimal(tokens) / _MILLION, 1)}
    return build_html('<span title="{}">{}</span>', format_count(tokens), shown)


@register.filter
def describe_sessions_without_cost(totals: SessionTotals) -> str:
    """Describe how many sessions a sum leaves out because their cost is unknown; empty if it leaves out none."""
    if not totals.unpriced:
        return ""
    values = {"number": format_count(totals.unpriced)}
    return ngettext("%(number)s has no known cost", "%(number)s have no known cost", totals.unpriced) % values


@register.filter
def format_share(part: float) -> str:
    """Format a share as 0 %, 0.4 % or 12 %; a non-zero share is at least 0.1 %."""
    percent = part * 100
    if percent == 0:
        return "0 %"
    return f"{format_number(floor(percent + 0.5))} %" if percent >= 9.5 else f"{format_number(max(percent, 0.1), 1)} %"


@register.simple_tag(name="period_query")
def build_period_query_string(period: Period, agent: str) -> str:
    """Return the query parameters that select a period, and an agent if one is chosen, in a list."""
    return f"{period.build_query_string()}{build_agent_parameter(agent)}"


@register.filter
def build_agent_parameter(agent: str) -> str:
    """Return the query parameter that selects an agent, with the ampersand before it; empty without an agent."""
    return f"&{urlencode({'agent': encrypt_name_if_masked(agent)})}" if agent else ""


@register.simple_tag
def render_bars_as_links(chart: Chart, name: str, agent: str) -> SafeString:
    """Render the bars of a chart, whose links keep the agent that is chosen.

    There may be hundreds, for which a template would take several times as long.
    """
    address, chosen = reverse(chart.list_name), build_agent_parameter(agent)
    hatching = f' fill="url(#hatch-{escape(name)})"'
    bars = [_render_bar_as_link(bar, hatching, f"{address}?{bar.query}{chosen}") for bar in chart.bars]
    return mark_safe("\n".join(bars))  # noqa: S308 - each bar is escaped


def _render_bar_as_link(bar: Bar, hatching: str, address: str) -> str:
    # Kinds are words of this program, and shapes are numbers.
    pieces = "".join(
        f'<rect class="{piece.kind}"{hatching if piece.kind == "hatched" else ""}'
        f' x="{bar.x}" y="{piece.y}" width="{bar.width}" height="{piece.height}"/>'
        for piece in bar.pieces
    )
    ground = f'<rect class="hit-area" x="{bar.step_x}" y="0" width="{bar.step_width}" height="160"/>'
    gap = f'<polygon class="gap" points="{bar.cut_mark_polygon_points}"/>' if bar.is_cut else ""
    part = ' class="incomplete"' if bar.incomplete_until else ""
    return f'<a{part} href="{escape(address)}" aria-label="{escape(bar.title)}">{ground}{pieces}{gap}</a>'


@register.simple_tag
def render_axis_labels(labels: Sequence[AxisLabel]) -> SafeString:
    return join_html(
        "",
        '<text x="{}" y="12" text-anchor="{}">{}</text>',
        ((label.x, label.text_anchor, label.text) for label in labels),
    )


@register.simple_tag
def render_session_count_rows_by_time_step(
    period: Period, steps: Sequence[tuple[datetime, SessionTotals]], agent: str
) -> SafeString:
    """Render the rows of the table with the numbers of each step, the newest first; there may be hundreds."""
    address, chosen = reverse("harness_sessions:sessions"), build_agent_parameter(agent)
    cell = '<td class="number">{}</td>'
    row = '<tr><th scope="row"><a href="{}"><time datetime="{}" title="{}">{}</time></a></th>' + cell * 8 + "</tr>"
    return join_html(
        "",
        row,
        (
            (
                f"{address}?sort=started&{period.build_query_string_of_chart_step(step)}{chosen}",
                format_iso_time(step),
                format_utc_time(step),
                format_step_of_period(period, step),
                format_count(totals.sessions),
                format_count(totals.completed),
                format_count(totals.failed),
                format_count(totals.undecided),
                format_count(totals.ready),
                format_count(totals.cancelled),
                format_count(totals.other_sessions),
                render_rounded_money(totals.known_cost),
            )
            for step, totals in reversed(steps)
        ),
    )
