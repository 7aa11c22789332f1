from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints import clock
from checkpoints.enums import Role
from checkpoints.queries import inbox
from harness_site.accounts.guard import MemberRequest, member
from harness_site.accounts.shown import note_excerpts
from harness_site.overview import drawing, present, recent
from harness_site.search.standing import complete_at


@require_GET
@member(Role.AUDITOR)
def overview(request: MemberRequest) -> HttpResponse:
    workspace = request.membership.workspace
    days = recent.days(workspace.pk, clock.now().date())
    tools = recent.tools(workspace.pk, clock.now().date())
    oldest = inbox.longest_waiting(workspace.pk)
    if oldest is not None:
        note_excerpts(request, "overview", {oldest.session_id})
    context = {
        "present": present.read(workspace.pk),
        "oldest": oldest,
        "days": days,
        "began": drawing.sessions(days.by_day),
        "spent": drawing.costs(days.by_day),
        "slowest": recent.slowest(tools),
        "interrupted": recent.most_interrupted(tools),
        "complete_at": complete_at(),
    }
    return render(request, "overview/overview.html", context)
