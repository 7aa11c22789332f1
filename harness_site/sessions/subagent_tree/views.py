"""Page of the tree of a session and its subagents."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masking.mask_argument_secrets_throughout_session import load_known_secrets_of_sessions
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.subagent_tree import subagent_tree


@require_GET
@require_member_and_handle_page_not_found
def show_tree(request: MemberRequest, pk: int) -> HttpResponse:
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    tree = subagent_tree.load_session_tree(head.stored)
    secrets = load_known_secrets_of_sessions([node.row.pk for node in tree.nodes])
    context = {"head": head, "tab": "subagents", "tree": tree, "secrets": secrets}
    return render(request, "sessions/tree.html", context)
