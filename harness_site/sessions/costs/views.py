"""Page of the cost and tokens of a session."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from harness_site.accounts.permissions import MemberRequest
from harness_site.sessions.costs import usage_by_turn
from harness_site.sessions.session_environment import read_session_environment
from harness_site.sessions.session_lookup import (
    get_session_head_and_mask_secrets_or_404,
    parse_number_parameter_or_none,
    serve_session_page,
)


@require_GET
@serve_session_page
def show_costs(request: MemberRequest, pk: int) -> HttpResponse:
    """Show cost and tokens by model and by turn, newest turn first, from version `before` down."""
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    before = parse_number_parameter_or_none(request, "before")
    environment = read_session_environment(head.stored)
    page = usage_by_turn.load_usage_page(
        pk,
        knows_cost=head.row.cost is not None,
        estimate=environment.estimate,
        before=before,
    )
    context = {"head": head, "tab": "costs", "page": page, "before": before, "environment": environment}
    return render(request, "sessions/costs.html", context)
