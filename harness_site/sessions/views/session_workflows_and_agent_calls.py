"""Workflow steps and peer calls of one session."""

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.sessions.selectors import waits_for_other_agents, workflow_steps
from harness_site.sessions.selectors.workflow_steps import WorkflowCursor
from harness_site.sessions.session_lookup import (
    PageNotFound,
    get_session_head_and_mask_secrets_or_404,
    parse_number_parameter_or_none,
    require_member_and_handle_page_not_found,
)


@require_GET
@require_member_and_handle_page_not_found
def list_workflows(request: MemberRequest, pk: int) -> HttpResponse:
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    after = WorkflowCursor.parse(request.GET.get("after", ""))
    page = workflow_steps.load_workflow_page(pk, after=after)
    return render(request, "sessions/workflows.html", {"head": head, "tab": "workflows", "page": page, "after": after})


@require_GET
@require_member_and_handle_page_not_found
def list_calls_to_other_agents(request: MemberRequest, pk: int) -> HttpResponse:
    """List the peer calls of a session.

    With `join` (a primary key), only the calls of that join whose keys are greater than `after`.
    """
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    join_pk, before = parse_number_parameter_or_none(request, "join"), parse_number_parameter_or_none(request, "before")
    context = {"head": head, "tab": "peers", "before": before}
    if join_pk is None:
        return render(
            request,
            "sessions/peers.html",
            context | {"page": waits_for_other_agents.load_pause_page(pk, before=before)},
        )
    join = waits_for_other_agents.load_join_with_call_page(
        pk, join_pk, after=parse_number_parameter_or_none(request, "after") or 0
    )
    if join is None:
        raise PageNotFound(
            _("This session has no such group of calls to other agents."),
            _("Its tab “Peers” lists those it has."),
            head,
        )
    return render(
        request,
        "sessions/join.html",
        context | {"join": join, "after": parse_number_parameter_or_none(request, "after")},
    )
