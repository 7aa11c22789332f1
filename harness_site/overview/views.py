from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.db import clock
from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, require_member
from harness_site.accounts.read_records import note_excerpts_shown
from harness_site.overview import current_counts, day_charts, day_totals
from harness_site.review.selectors import pending_calls
from harness_site.search.index_status import get_index_completion_time


@require_GET
@require_member(Role.AUDITOR)
def show_overview(request: MemberRequest) -> HttpResponse:
    workspace = request.membership.workspace
    days = day_totals.load_day_totals(workspace.pk, clock.now().date())
    tools = day_totals.load_tool_totals(workspace.pk, clock.now().date())
    oldest = pending_calls.find_longest_waiting_call(workspace.pk)
    if oldest is not None:
        note_excerpts_shown(request, "overview", {oldest.session_id})
    context = {
        "present": current_counts.load_current_counts(workspace.pk),
        "oldest": oldest,
        "days": days,
        "began": day_charts.draw_sessions_chart(days.by_day),
        "spent": day_charts.draw_costs_chart(days.by_day),
        "slowest": day_totals.sort_slowest_tools(tools),
        "interrupted": day_totals.sort_most_interrupted_tools(tools),
        "complete_at": get_index_completion_time(),
    }
    return render(request, "overview/overview.html", context)
