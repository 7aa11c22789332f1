import re
from decimal import Decimal
from math import sqrt
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from checkpoints.db import clock
from checkpoints.enums import Role
from checkpoints.models import Session
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core.formatting import format_date_with_weekday_and_year, format_day, format_duration_rounded_up
from harness_site.overview import charts, current_session_counts, lost_run_counts, period_totals, periods
from harness_site.overview.calls_to_decide_first import CallsToDecideFirst, load_calls_to_decide_first
from harness_site.overview.period_totals import PeriodTotals, SessionTotals, WaitingTimes
from harness_site.overview.periods import Period
from harness_site.overview.templatetags.harness_overview import format_share
from harness_site.review.selectors import pending_calls
from harness_site.review.selectors.pending_call_counts_by_decider import count_calls_for_reader_and_for_others
from harness_site.review.selectors.pending_calls import CallFilters
from harness_site.search.index_status import find_time_up_to_which_sums_count
from harness_site.sessions.money_and_count_formatting import format_count, format_money
from harness_site.sessions.session_list_query_parameters import read_and_decrypt_text_parameter

#: Largest number of agents to choose from.
_MAX_AGENTS: Final = 200
#: Largest number of rows of calls that are listed as those to decide first.
_FIRST_ROWS: Final = 5
#: Largest number of agents that are named because their decided sessions are not resumed.
_MOST_AGENTS_NOT_RESUMED: Final = 4
#: Smallest change to a preceding number that is marked, as a part of that number.
_REAL_CHANGE: Final = 0.25
#: Smallest increase in percent that is described as a factor.
_TIMES_FROM: Final = 300
_SPACE_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=\D)")
#: Smallest number of decisions whose 95th percentile is compared.
_ENOUGH_DECISIONS: Final = 20


@require_GET
@require_member_with_role(Role.AUDITOR)
def show_overview(request: MemberRequest) -> HttpResponse:
    workspace = request.membership.workspace
    now = clock.now()
    oldest_start = period_totals.find_start_of_oldest_session_sums(workspace.pk, now)
    usual = periods.choose_default_period_key(oldest_start, now)
    period, problem = periods.parse_period_and_problem(request.GET, now, usual)
    agent = read_and_decrypt_text_parameter(request.GET, "agent")
    listed_in_full = request.GET.get("all", "")
    sums = period_totals.load_period_totals(
        workspace.pk,
        period,
        agent,
        max_agents=period_totals.MAX_LISTED_ON_REQUEST if listed_in_full == "agents" else period_totals.MAX_LISTED,
        max_models=period_totals.MAX_LISTED_ON_REQUEST if listed_in_full == "models" else period_totals.MAX_LISTED,
    )
    sums = period_totals.drop_incomplete_comparison(sums, period, oldest_start)
    waiting = count_calls_for_reader_and_for_others(request.membership)
    first_calls = load_calls_to_decide_first(request.membership, waiting, agent, limit=_FIRST_ROWS)
    sessions = {row.call.session_id for row in first_calls.rows if row.call is not None}
    if sessions:
        mark_excerpts_shown_in_response(request, "overview", sessions)
    undecided_of_agents = pending_calls.count_pending_calls_by_agent(
        workspace, [each.name for each in sums.agents], limit=current_session_counts.LIMIT
    )
    undecided = pending_calls.count_pending_calls(workspace, CallFilters(agent=agent)) if agent else waiting.total
    lost, lost_before = lost_run_counts.count_lost_run_sessions_in_period_and_before(workspace.pk, period, agent)
    present = current_session_counts.load_current_session_counts(workspace.pk, agent)
    interrupted_tools = sums.tools_interrupted_most
    context: dict[str, Any] = {
        "agent": agent,
        "agents": sorted(
            {*(sums.agent_names or period_totals.list_agent_names_of_all_periods(workspace.pk))[:_MAX_AGENTS], agent}
            - {""}
        ),
        "here": request.get_full_path(),
        "listed_in_full": listed_in_full,
        "present": present,
        "not_resumed_in_time": present.not_resumed_in_time_by_agent.total(),
        "agents_of_not_resumed": present.not_resumed_in_time_by_agent.most_common(_MOST_AGENTS_NOT_RESUMED),
        "are_agents_left_out": len(present.not_resumed_in_time_by_agent) > _MOST_AGENTS_NOT_RESUMED,
        "lost": lost,
        "lost_before": lost_before if sums.preceding.sessions else None,
        "undecided": undecided,
        "agents_with_undecided": [(each, undecided_of_agents[each.name]) for each in sums.agents],
        "waiting_calls": waiting.own,
        "own_share": waiting.own if waiting.has_calls_member_may_not_decide and not agent else None,
        "sums": sums,
        "first_time": not sums.total.sessions and not Session.objects.filter(workspace=workspace).exists(),
        "charts": _draw_charts_by_name(period, sums),
        "slowest_tools": sums.slowest_tools,
        "failing_tools": sums.most_failing_tools,
        "interrupted_tools_fit_below_models": len(sums.models) + len(interrupted_tools) < len(sums.agents),
        "interrupted_tools": interrupted_tools,
        "sums_at": find_time_up_to_which_sums_count(),
    }
    context |= _build_period_form_context(request, period, problem)
    context |= _build_first_calls_context(first_calls, undecided.number)
    return render(request, "overview/overview.html", context | _build_sums_and_changes_context(period, sums))


def _build_period_form_context(request: MemberRequest, period: Period, problem: str) -> dict[str, Any]:
    """Build the period and the form that changes it, with the days that were typed if there is a problem with them."""
    return {
        "period": period,
        "choices": [(key, label) for key, (label, _days) in periods.CHOICES.items()],
        "problem": problem,
        "swapped": periods.build_query_string_with_swapped_days(request.GET) if problem else "",
        "typed_first": request.GET.get("first", "") if problem else period.first_day.isoformat(),
        "typed_last": request.GET.get("last", "") if problem else period.last_day.isoformat(),
        "typed_zone": period.zone_name,
        "period_words": _describe_period(period),
        "period_label": periods.CHOICES[period.key][0] if period.key else _("this period"),
    }


def _build_first_calls_context(first_calls: CallsToDecideFirst, undecided: int) -> dict[str, Any]:
    """Build the calls to decide first, and what their heading says about them. `undecided` is the number of all."""
    rows = first_calls.rows
    return {
        "first_rows": rows,
        "oldest": min((row.since for row in rows), default=None),
        "is_one_urgent": any(row.is_urgent for row in rows),
        "has_handed_first": any(row.is_handed for row in rows),
        "has_due_first": any(row.deadline is not None for row in rows),
        "has_outages_first": any(row.call is None for row in rows),
        "more_undecided": undecided > sum(row.call_count for row in rows),
        "overdue": first_calls.overdue,
    }


def _draw_charts_by_name(period: Period, sums: PeriodTotals) -> dict[str, Any]:
    return {
        "sessions": charts.draw_session_outcome_chart(period, sums.steps),
        "waits": charts.draw_waiting_times_chart(period, sums.wait_steps),
        "failures": charts.draw_failed_sessions_chart(period, sums.steps),
        "interruptions": charts.draw_interrupted_calls_chart(period, sums.interruptions),
        "costs": charts.draw_cost_chart(period, sums.steps),
    }


def _build_sums_and_changes_context(period: Period, sums: PeriodTotals) -> dict[str, str]:
    """Put the totals of a period in words, and compare them with the period before."""
    preceding_cost = sums.preceding.cost.quantize(Decimal("0.01"))  # without a cent, there is nothing to compare with
    return {
        "failed_words": _describe_failed_share_and_change(sums.total, sums.preceding),
        "failed_trend": _get_trend_of_failures(sums.total, sums.preceding),
        "totals_words": _describe_period_of_totals(period, has_comparison=bool(sums.preceding.sessions)),
        "sessions_change": _describe_change_since_preceding_period(
            sums.total.sessions, sums.preceding.sessions, format_count(sums.preceding.sessions)
        ),
        "sessions_trend": _classify_trend_as_changed_or_empty(sums.total.sessions, sums.preceding.sessions),
        "cost_change": _describe_change_since_preceding_period(
            sums.total.cost, preceding_cost, format_money(preceding_cost)
        ),
        "cost_trend": _classify_trend_as_changed_or_empty(sums.total.cost, preceding_cost),
        # A line breaks before a number, not between it and its unit.
        "wait_words": _SPACE_BEFORE_UNIT.sub(
            "\N{NO-BREAK SPACE}", _describe_p95_wait_and_change(sums.waits, sums.preceding_waits)
        ),
        "wait_trend": _get_trend_of_waiting_times(sums.waits, sums.preceding_waits),
    }


def _has_changed_by_quarter_or_more(number: float, preceding: float) -> bool:
    return abs(number - preceding) >= _REAL_CHANGE * preceding


def _get_trend_of_failures(total: SessionTotals, preceding: SessionTotals) -> str:
    """Return `better` or `worse`; empty for a change that may be chance, which is two standard errors at most."""
    if not total.sessions or not preceding.sessions:
        return ""
    share = (total.failed + preceding.failed) / (total.sessions + preceding.sessions)
    error = sqrt(share * (1 - share) * (1 / total.sessions + 1 / preceding.sessions))
    change = total.failed_share - preceding.failed_share
    if abs(change) <= 2 * error or not _has_changed_by_quarter_or_more(total.failed_share, preceding.failed_share):
        return ""
    return "better" if change < 0 else "worse"


def _get_trend_of_waiting_times(waits: WaitingTimes, preceding: WaitingTimes) -> str:
    """Return `better` or `worse`; empty if there are few decisions, or if they took about as long."""
    if waits.p95 is None or preceding.p95 is None or min(waits.decisions, preceding.decisions) < _ENOUGH_DECISIONS:
        return ""
    if not _has_changed_by_quarter_or_more(waits.p95, preceding.p95):
        return ""
    return "better" if waits.p95 < preceding.p95 else "worse"


def _classify_trend_as_changed_or_empty(amount: Decimal | int, before: Decimal | int) -> str:
    """Return `changed` or an empty text: more sessions or cost may be more work, so it is neither better nor worse."""
    return "changed" if before and _has_changed_by_quarter_or_more(float(amount), float(before)) else ""


def _describe_period(period: Period) -> str:
    """Describe which time the page shows, and in which time zone its steps are."""
    if period.has_hourly_steps:
        return _("Last 24 hours in %(zone)s") % {"zone": period.zone_name}
    is_this_year = period.first_day.year == period.last_day.year == clock.now().year
    format_ = format_day if is_this_year else format_date_with_weekday_and_year
    values = {"first": format_(period.first_day), "last": format_(period.last_day), "zone": period.zone_name}
    if period.day_start_time_unless_midnight:
        values["time"] = period.day_start_time_unless_midnight
        return _("%(first)s to %(last)s, each day from %(time)s in %(zone)s") % values
    if period.first_day == period.last_day:
        return _("%(first)s in %(zone)s") % values
    return _("%(first)s to %(last)s in %(zone)s") % values


def _describe_period_of_totals(period: Period, *, has_comparison: bool) -> str:
    """Describe which time the totals are of, and whether they are compared."""
    if not period.key:
        return _("This period, compared with the one before") if has_comparison else _("This period")
    values = {"period": periods.CHOICES[period.key][0]}
    if not has_comparison:
        return _("Last %(period)s") % values
    return _("Last %(period)s, compared with the period before") % values


def _describe_change_since_preceding_period(amount: Decimal | int, before: Decimal | int, preceding: str) -> str:
    """Describe the change from the preceding period; empty if that had nothing to compare with.

    Args:
        amount: The total of the period.
        before: The total of the preceding period.
        preceding: The same as a text.
    """
    if not before:
        return ""
    percent = round((amount - before) / before * 100)
    if not percent:
        return _("as before")
    if percent >= _TIMES_FROM:
        values = {"factor": format_count(round(amount / before)), "preceding": preceding}
        return _("×%(factor)s, was %(preceding)s") % values
    sign = "+" if percent > 0 else "−"
    return _("%(change)s, was %(preceding)s") % {"change": f"{sign}{abs(percent)} %", "preceding": preceding}


def _describe_failed_share_and_change(total: SessionTotals, preceding: SessionTotals) -> str:
    """Describe the share of failed sessions, and that of the preceding period if it had sessions."""
    if not total.sessions:
        return _("no session started")
    values = {"share": _describe_failed_share(total)}
    if not preceding.sessions:
        return values["share"]
    values["preceding"] = _describe_failed_share(preceding)
    if values["share"] == values["preceding"]:
        return _("%(share)s, as before") % values
    if total.failed_share < preceding.failed_share:
        return _("%(share)s, down from %(preceding)s") % values
    return _("%(share)s, up from %(preceding)s") % values


def _describe_failed_share(totals: SessionTotals) -> str:
    """Describe it as the table of agents does: with few sessions, by numbers."""
    if totals.has_enough_sessions:
        return format_share(totals.failed_share)
    return _("%(number)s of %(calls)s") % {
        "number": format_count(totals.failed),
        "calls": format_count(totals.sessions),
    }


def _describe_p95_wait_and_change(waits: WaitingTimes, preceding: WaitingTimes) -> str:
    """Describe how long nearly all decisions took, and how long in the preceding period if it had decisions."""
    if waits.p95 is None:
        return _("no decision")
    if preceding.p95 is None:
        return _("95 %% within %(duration)s") % {"duration": format_duration_rounded_up(waits.p95)}
    values = {"duration": format_duration_rounded_up(waits.p95), "preceding": format_duration_rounded_up(preceding.p95)}
    if values["duration"] == values["preceding"]:
        return _("95 %% within %(duration)s, as before") % values
    if waits.p95 < preceding.p95:
        return _("95 %% within %(duration)s, down from %(preceding)s") % values
    return _("95 %% within %(duration)s, up from %(preceding)s") % values
