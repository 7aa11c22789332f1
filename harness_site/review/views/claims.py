"""Views to claim and release a call, and the heartbeat of an open card."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, require_member
from harness_site.review import claim_services, presence
from harness_site.review.views.decision_card import get_call_or_404


@require_POST
@require_member(Role.APPROVER)
def claim_call(request: MemberRequest, pk: int) -> HttpResponse:
    call = get_call_or_404(request, pk)
    if call.undecided:
        claim_services.claim_call(call, by=request.membership, request=request)
    return redirect("harness_review:card", pk)


@require_POST
@require_member(Role.APPROVER)
def release_call(request: MemberRequest, pk: int) -> HttpResponse:
    claim_services.release_claim(get_call_or_404(request, pk), by=request.membership, request=request)
    return redirect("harness_review:card", pk)


@require_POST
@require_member(Role.AUDITOR)
def report_presence(request: MemberRequest, pk: int) -> HttpResponse:
    """Record the heartbeat that an open card sends every ten seconds, and render the people at the call."""
    call, people = get_call_or_404(request, pk), presence.load_presence_of_call(pk, request.membership)
    if call.undecided:
        claim_services.record_card_presence(call, by=request.membership, mine=people.mine is not None)
    return render(request, "review/parts/people.html", {"call": call, "company": people})
