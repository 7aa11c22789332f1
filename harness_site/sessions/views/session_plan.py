"""Page of the plan of a session."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.sessions.plan_step_versions import add_state_versions_to_plan_steps
from harness_site.sessions.selectors import conversation_window, version_lookup
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.tool_views import load_newest_todo_list


@require_GET
@require_member_and_handle_page_not_found
def show_plan(request: MemberRequest, pk: int) -> HttpResponse:
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    version = version_lookup.load_newest_version(pk)
    kept = None
    if version is None or version.plan is None:
        kept = load_newest_todo_list.load_newest_todo_list(pk, load_newest_todo_list.list_tools_with_todo_lists(pk))
        if kept is None:
            newest = conversation_window.get_newest_transcript_version(head.stored)
            kept = load_newest_todo_list.find_newest_todo_list_in_transcript(newest)
    plan = version and version.plan
    context = {
        "head": head,
        "tab": "plan",
        "version": version,
        "plan": add_state_versions_to_plan_steps(pk, version.version, plan) if version and plan else None,
        "kept": kept,
        "searched": load_newest_todo_list.MAX_MESSAGES_SEARCHED,
        "longest": load_newest_todo_list.MAX_MESSAGE_LENGTH,
    }
    return render(request, "sessions/plan.html", context)
