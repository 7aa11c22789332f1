"""Page of the cost and tokens of a session."""

from decimal import Decimal

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.formats.money_amount_codec import HEADLINE_PRECISION
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.search.copied_tokens_and_cost_of_forks import load_usage_copied_by_fork
from harness_site.sessions.costs import usage_by_turn_and_model
from harness_site.sessions.costs.usage_by_turn_and_model import OwnOrCopiedAmounts, UsagePage
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.session_environment import read_session_environment
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.timeline import running_totals_chart_layout
from harness_site.sessions.timeline.selectors import running_totals_by_version


@require_GET
@require_member_and_handle_page_not_found
def show_costs(request: MemberRequest, pk: int) -> HttpResponse:
    """Show cost and tokens by model and by turn, newest turn first, from version `before` down."""
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    before = parse_number_parameter_or_none(request, "before")
    environment = read_session_environment(head.stored)
    page = usage_by_turn_and_model.load_usage_page(
        pk,
        knows_cost=head.row.cost is not None,
        estimate=environment.estimate,
        before=before,
        is_fork=head.row.is_fork,
    )
    growth = running_totals_by_version.load_sampled_running_totals(pk) if before is None else None
    context = {
        "head": head,
        "tab": "costs",
        "page": page,
        "before": before,
        "environment": environment,
        "own_and_copied": _load_own_and_copied_amounts(head, page),
        "prices": usage_by_turn_and_model.list_prices_of_estimate(environment.prices)
        if head.row.is_cost_estimated
        else [],
        "price_table": (environment.prices or {}).get("table", ""),
        "growth": growth,
        "costs": usage_by_turn_and_model.find_most_expensive_turn_and_total(pk, is_fork=head.row.is_fork)
        if head.row.cost is not None
        else usage_by_turn_and_model.CostsOfVersions(),
        "chart": growth and running_totals_chart_layout.compute_version_chart_layout(growth, fields=("cost", "tokens")),
        "cost_of_version": _compute_mean_cost_per_version(head),
    }
    return render(request, "sessions/costs.html", context)


def _load_own_and_copied_amounts(head: SessionHead, page: UsagePage) -> list[OwnOrCopiedAmounts]:
    """Load what a fork used itself and what it has copied; empty for a session that has copied nothing."""
    if not head.row.copied_cost and not head.row.copied_tokens:
        return []
    return usage_by_turn_and_model.compute_own_and_copied_amounts(
        head, page.totals, load_usage_copied_by_fork(head.stored)
    )


def _compute_mean_cost_per_version(head: SessionHead) -> Decimal | None:
    """Return the mean cost of a version in US dollars, rounded to a millionth; None if the cost is unknown."""
    cost = head.row.cost
    return None if cost is None or not head.versions else (cost / head.versions).quantize(HEADLINE_PRECISION)
