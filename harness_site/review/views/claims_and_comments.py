"""Views to claim, release and hand over a call, to comment on it, and the heartbeat of an open card."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from checkpoints.enums import Role
from harness_site.accounts.permissions import MemberRequest, require_member
from harness_site.review import add_comment, claim_services, claims_and_presence
from harness_site.review.decision_card_context import has_reader_answered, may_member_decide_call
from harness_site.review.forms import CommentForm
from harness_site.review.views.decision_card import (
    load_call_masked_and_interrupted_if_lost_or_404,
    map_names_to_colleagues_who_may_decide,
    render_decision_card,
)


@require_POST
@require_member(Role.APPROVER)
def claim_call(request: MemberRequest, pk: int) -> HttpResponse:
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    if call.undecided and may_member_decide_call(call, request.membership):
        claim_services.claim_or_take_over_call(call, by=request.membership, request=request)
    return redirect("harness_review:card", pk)


@require_POST
@require_member(Role.APPROVER)
def release_claim_on_call(request: MemberRequest, pk: int) -> HttpResponse:
    """Release the reader's claim on a call, or undo that the reader handed it over."""
    claim_services.release_claim_made_by_member(
        load_call_masked_and_interrupted_if_lost_or_404(request, pk), by=request.membership, request=request
    )
    return redirect("harness_review:card", pk)


@require_POST
@require_member(Role.APPROVER)
def add_comment_and_hand_over(request: MemberRequest, pk: int) -> HttpResponse:
    """Add a comment, and hand the call over to a colleague if one was chosen."""
    call, member = load_call_masked_and_interrupted_if_lost_or_404(request, pk), request.membership
    colleagues = map_names_to_colleagues_who_may_decide(call, member)
    form = CommentForm(request.POST, colleagues=sorted(colleagues))
    if not form.is_valid():
        return render_decision_card(request, call, comment_form=form, status=422)
    text, receiver = form.cleaned_data["text"], colleagues.get(form.cleaned_data["to"])
    if text:
        add_comment.add_comment(call, text, by=member, request=request)
    if receiver is not None and call.undecided:
        claim_services.hand_over_call(call, by=member, to=receiver, note=text, request=request)
    return redirect("harness_review:card", pk)


@require_POST
@require_member(Role.AUDITOR)
def record_presence_and_show_people(request: MemberRequest, pk: int) -> HttpResponse:
    """Record the heartbeat that an open card sends every ten seconds, and render the people at the call."""
    call, people = (
        load_call_masked_and_interrupted_if_lost_or_404(request, pk),
        claims_and_presence.load_claims_and_presence_of_call(pk, request.membership),
    )
    if call.undecided:
        claims_and_presence.record_presence_and_extend_claim(call, by=request.membership, mine=people.mine is not None)
    return render(
        request,
        "review/parts/people.html",
        {
            "call": call,
            "company": people,
            "may_decide": may_member_decide_call(call, request.membership),
            "has_answered": has_reader_answered(call, request.membership),
            "reader": request.membership.user.get_username(),
        },
    )
