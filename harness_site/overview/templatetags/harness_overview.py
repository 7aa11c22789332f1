"""Template tags and filters of the overview."""

from datetime import datetime
from decimal import Decimal

from django import template
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from harness_site.core.formatting import format_exact_time, format_iso_time, format_number
from harness_site.core.masking.reversible_tokens_for_masked_names import build_masked_reference
from harness_site.core.rendering.fast_format_html import build_html, join_html
from harness_site.overview.charts import Bar, Chart, format_step_of_period
from harness_site.overview.utc_periods import Period
from harness_site.sessions.session_formatting import render_rounded_money

register = template.Library()


@register.filter
def render_cost_sum(amount: Decimal) -> SafeString | str:
    """Format a sum of costs with cents; a sum to which no session has stated a cost is unknown."""
    return render_rounded_money(amount or None)


@register.filter
def format_share(part: float) -> str:
    """Format a share as 0 %, 0.4 % or 12 %; a non-zero share is at least 0.1 %."""
    percent = part * 100
    if percent == 0:
        return "0 %"
    return f"{format_number(percent)} %" if percent >= 9.5 else f"{format_number(max(percent, 0.1), 1)} %"


@register.simple_tag(name="period_query")
def build_period_query(period: Period, agent: str) -> str:
    """Return the query parameters that select a period, and an agent if one is chosen, in a list."""
    return f"{period.build_query()}{_build_agent_parameter(agent)}"


@register.simple_tag
def build_step_and_agent_query(period: Period, step: datetime, agent: str) -> str:
    """Return the query parameters that select one step of a period, and an agent if one is chosen, in a list."""
    return f"{period.build_step_query(step)}{_build_agent_parameter(agent)}"


@register.filter
def build_agent_parameter(agent: str) -> str:
    """Return the query parameter that selects an agent, with the ampersand before it; empty without an agent."""
    return _build_agent_parameter(agent)


def _build_agent_parameter(agent: str) -> str:
    return f"&{urlencode({'agent': build_masked_reference(agent)})}" if agent else ""


@register.filter
def exact_time(moment: datetime) -> str:
    return format_exact_time(moment)


@register.filter("utc_iso")
def format_utc_iso_time(moment: datetime) -> str:
    return format_iso_time(moment)


@register.simple_tag
def render_bars(chart: Chart, name: str, agent: str) -> SafeString:
    """Render the bars of a chart, whose links keep the agent that is chosen.

    There may be hundreds, for which a template would take several times as long.
    """
    address, chosen = reverse(chart.list_name), _build_agent_parameter(agent)
    return join_html("\n", "{}", ((_render_bar(bar, name, f"{address}?{bar.query}{chosen}"),) for bar in chart.bars))


def _render_bar(bar: Bar, name: str, address: str) -> SafeString:
    pieces = join_html(
        "",
        '<rect class="{}"{} x="{}" y="{}" width="{}" height="{}"/>',
        (
            (
                piece.kind,
                build_html(' fill="url(#hatch-{})"', name) if piece.kind == "hatched" else "",
                bar.x,
                piece.y,
                bar.width,
                piece.height,
            )
            for piece in bar.pieces
        ),
    )
    ground = build_html(
        '<title>{}</title><rect class="hit-area" x="{}" y="0" width="{}" height="160"/>',
        bar.title,
        bar.step_x,
        bar.step_width,
    )
    return build_html('<a href="{}">{}{}</a>', address, ground, pieces)


@register.simple_tag(name="step_label")
def format_step_label(period: Period, step: datetime) -> str:
    return format_step_of_period(period, step)
