"""Views to claim, release and hand over a call, to comment on it, and the heartbeat of an open card."""

from http import HTTPStatus

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from checkpoints.enums import Role
from harness_site.accounts.permissions import (
    MemberRequest,
    list_active_usernames_with_role_or_higher,
    require_member_with_role,
)
from harness_site.review import add_comment, claim_services, load_claims_and_record_presence
from harness_site.review.forms import CommentForm, HandOverForm
from harness_site.review.selectors.mentions_in_comments import load_other_active_members
from harness_site.review.views.decision_card import (
    build_people_context,
    load_call_masked_and_interrupted_if_lost_or_404,
    map_names_to_colleagues_who_may_decide,
    render_decision_card,
)
from harness_site.review.what_reader_may_decide_and_has_decided import (
    has_reader_answered_and_waits_for_others,
    may_member_decide_call,
)


@require_POST
@require_member_with_role(Role.APPROVER)
def claim_call(request: MemberRequest, pk: int) -> HttpResponse:
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    if call.undecided and may_member_decide_call(call, request.membership):
        claim_services.claim_or_take_over_call(call, by=request.membership, request=request)
    return redirect("harness_review:card", pk)


@require_POST
@require_member_with_role(Role.APPROVER)
def release_claim_on_call(request: MemberRequest, pk: int) -> HttpResponse:
    """Release the reader's claim on a call, or undo that the reader handed it over."""
    claim_services.release_claim_held_or_handed_over_by_member(
        load_call_masked_and_interrupted_if_lost_or_404(request, pk), by=request.membership, request=request
    )
    return redirect("harness_review:card", pk)


@require_POST
@require_member_with_role(Role.APPROVER)
def comment_on_call(request: MemberRequest, pk: int) -> HttpResponse:
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    names = list_active_usernames_with_role_or_higher(request.membership.workspace, Role.AUDITOR)
    form = CommentForm(request.POST, member_names=set(names))
    if not form.is_valid():
        form.fields["text"].widget.attrs["autofocus"] = True
        return render_decision_card(request, call, comment_form=form, status=422)
    add_comment.add_comment_and_notify_mentioned(
        call, form.cleaned_data["text"], by=request.membership, request=request
    )
    return redirect("harness_review:card", pk)


@require_POST
@require_member_with_role(Role.APPROVER)
def hand_over_call(request: MemberRequest, pk: int) -> HttpResponse:
    """Hand the call over to a colleague; a note for them is also a comment on the call."""
    call, member = load_call_masked_and_interrupted_if_lost_or_404(request, pk), request.membership
    colleagues = map_names_to_colleagues_who_may_decide(call, load_other_active_members(member))
    names = list_active_usernames_with_role_or_higher(member.workspace, Role.AUDITOR)
    form = HandOverForm(request.POST, colleagues=sorted(colleagues), member_names=set(names))
    if not form.is_valid():
        return render_decision_card(request, call, hand_over_form=form, status=422)
    note, receiver = form.cleaned_data["note"], colleagues[form.cleaned_data["to"]]
    if call.undecided:
        comment = None
        if note:
            comment = add_comment.add_comment_and_notify_mentioned(
                call, note, by=member, request=request, receiver=receiver
            )
        claim_services.hand_over_call(call, by=member, to=receiver, note=comment, request=request)
    return redirect("harness_review:card", pk)


@require_POST
@require_member_with_role(Role.AUDITOR)
def record_presence_and_show_people(request: MemberRequest, pk: int) -> HttpResponse:
    """Record the heartbeat that an open card sends every ten seconds, and render the people at the call.

    A card that is closed sends `left` instead.
    """
    if "left" in request.POST:
        load_claims_and_record_presence.delete_presence(pk, request.membership)
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    call, people = (
        load_call_masked_and_interrupted_if_lost_or_404(request, pk),
        load_claims_and_record_presence.load_claims_and_presence_of_call(pk, request.membership),
    )
    if call.undecided:
        load_claims_and_record_presence.record_presence_and_extend_claim(
            call, by=request.membership, mine=people.mine is not None
        )
    context = {
        **build_people_context(call, people, request.membership),
        "may_decide": may_member_decide_call(call, request.membership),
        "has_answered": has_reader_answered_and_waits_for_others(call, request.membership),
    }
    return render(request, "review/parts/people.html", context)
