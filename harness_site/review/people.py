"""Who is about a call: saying that one is on it, letting go of it, and the sign of life of an open card."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from checkpoints.enums import Role
from harness_site.accounts.guard import MemberRequest, member
from harness_site.review import claims, company
from harness_site.review.card import find


@require_POST
@member(Role.APPROVER)
def claim(request: MemberRequest, pk: int) -> HttpResponse:
    call = find(request, pk)
    if call.undecided:
        claims.claim(call, by=request.membership, request=request)
    return redirect("card", pk)


@require_POST
@member(Role.APPROVER)
def release(request: MemberRequest, pk: int) -> HttpResponse:
    claims.release(find(request, pk), by=request.membership, request=request)
    return redirect("card", pk)


@require_POST
@member(Role.AUDITOR)
def present(request: MemberRequest, pk: int) -> HttpResponse:
    """What an open card says every ten seconds; the answer is who else is there."""
    call, about = find(request, pk), company.of_call(pk, request.membership)
    if call.undecided:
        claims.see(call, by=request.membership, mine=about.mine is not None)
    return render(request, "review/parts/people.html", {"call": call, "company": about})
