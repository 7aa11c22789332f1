"""The card of one call: what was about to happen, did it or may it happen, and the decision."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints.client import SyncCheckpointer
from checkpoints.enums import ActorKind, CallStatus, DecisionKind, Role
from checkpoints.exceptions import CheckpointsError, NotFound
from checkpoints.models import ToolCall
from checkpoints.queries import inbox
from checkpoints.resuming.actors import Actor
from harness_site import wording
from harness_site.accounts import call_secrets
from harness_site.accounts.electorate import electorate_of
from harness_site.accounts.guard import MemberRequest, able, member
from harness_site.accounts.shown import note_excerpts, note_shown
from harness_site.rendering.masking import hide_values, secret_values
from harness_site.review import claims, company, evidence, standing
from harness_site.review.company import Company
from harness_site.review.forms import ApprovalForm, OutcomeForm, bound
from harness_site.review.lost_runs import interrupt_if_lost
from harness_site.review.problems import Problem, over, problem
from harness_site.review.recording import record_decision
from harness_site.review.uploading import too_large


@require_http_methods(["GET", "POST"])
@member(Role.AUDITOR)
def card(request: MemberRequest, pk: int) -> HttpResponse:
    call = find(request, pk)
    if request.method == "GET":
        about = company.of_call(pk, request.membership)
        if call.undecided and not request.htmx:
            claims.see(call, by=request.membership, mine=about.mine is not None)
        return _show(request, call, about=about)
    form = bound(request.POST, call, request.FILES)
    form.too_large = too_large(request)
    if not request.membership.may(Role.APPROVER):
        refused = Problem(403, "Your role does not cover deciding.", "Nothing was recorded.")
        return _show(request, call, form=form, refused=refused)
    if not form.is_valid():
        return _show(request, call, form=form, status=422)
    if isinstance(form, ApprovalForm) and form.unseen and call.status == CallStatus.AWAITING_APPROVAL:
        return _show(request, call, form=form)
    return _decide(request, call, form)


def _decide(request: MemberRequest, call: ToolCall, form: OutcomeForm | ApprovalForm) -> HttpResponse:
    refused = over(call, form.cleaned_data["kind"])
    if refused is not None:
        return _show(request, call, form=form, refused=refused)
    try:
        record_decision(_checkpointer(request).store, call, actor_of(request), form)
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        call = find(request, call.pk)
        return _show(request, call, form=form, refused=problem(error, call))
    claims.settle(call, by=request.membership)
    return redirect("card", call.pk)


@require_POST
@member(Role.APPROVER)
def change(request: MemberRequest, pk: int) -> HttpResponse:
    """What the arguments that somebody is writing would change; nothing is recorded."""
    call = find(request, pk)
    data = request.POST.copy()
    data["kind"] = DecisionKind.EDIT
    form = ApprovalForm(data, call=call) if call.status == CallStatus.AWAITING_APPROVAL else None
    note_shown(request, call.session_id)
    return render(request, "review/parts/change.html", {"form": form})


@require_POST
@member(Role.APPROVER)
def verify(request: MemberRequest, pk: int) -> HttpResponse:
    """Ask the waiting process to run the tool's probe again. Its answer shows up on the card."""
    call = find(request, pk)
    checkpointer = _checkpointer(request)
    try:
        checkpointer.verify_call(
            call.session.session_id, call.call_id, actor=actor_of(request), step=call.step, attempt=call.attempt
        )
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        call = find(request, pk)
        return _show(request, call, refused=problem(error, call, nothing="The probe was not asked for."))
    return redirect(f"{reverse('card', args=[pk])}{_seen_query(request)}")


def find(request: MemberRequest, pk: int) -> ToolCall:
    """A call of the reader's workspace, else 404. The secret values of its session are masked from now on."""
    call = inbox.find(request.membership.workspace, pk)
    if call is None:
        raise Http404("There is no such call in this workspace.")
    if interrupt_if_lost(call):
        call = inbox.find(request.membership.workspace, pk) or call
    call_secrets.hide(call.session_id)
    hide_values(secret_values(wording.parsed(call.args)))
    return call


def _checkpointer(request: MemberRequest) -> SyncCheckpointer:
    return SyncCheckpointer(workspace=request.membership.workspace.slug)


def actor_of(request: MemberRequest) -> Actor:
    """The reader, as decisions name them."""
    membership = request.membership
    voices = electorate_of(membership.workspace)
    return Actor(ActorKind.PERSON, membership.user.get_username(), Role(membership.role), electorate=voices)


def _show(
    request: MemberRequest,
    call: ToolCall,
    *,
    about: Company | None = None,
    form: OutcomeForm | ApprovalForm | None = None,
    refused: Problem | None = None,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        **standing.context(call, request.membership),
        "evidence_limit": settings.EVIDENCE_BYTES,
        "files": evidence.of_call(call),
        "company": about or company.of_call(call.pk, request.membership),
        "refused": refused,
        "seen": _seen(request) or str(call.revision),
    }
    if context["undecided"]:
        context |= _deciding(request, context, form, refused)
    if refused and type(context.get("form")) is not type(form):
        context["typed"] = form
    note_shown(request, call.session_id)
    # The same operation may have been called in other sessions; the card shows what it returned there.
    note_excerpts(request, "card", {other.session_id for other in context["known"].same_key})
    return render(request, "review/card.html", context, status=refused.status if refused else status)


def _deciding(
    request: MemberRequest, shown: dict[str, Any], form: OutcomeForm | ApprovalForm | None, refused: Problem | None
) -> dict[str, Any]:
    """The form about a call that waits, for who may decide; else who may."""
    membership, call = request.membership, shown["call"]
    needed = Role.ADMIN if shown["overdue"] else Role.APPROVER
    if not membership.may(needed):
        return {"able": able(membership.workspace, needed)}
    answers = standing.answers(call, shown["agreements"], shown["known"].decisions, membership.user.get_username())
    wanted = standing.form_for(shown)
    if type(form) is not type(wanted):
        form = wanted  # what was typed answers another question
        form.initial["kind"] = _chosen(request, answers)
    elif refused:
        form = _current(request, call)
    return {"answers": answers, "form": form}


def _chosen(request: MemberRequest, answers: list[dict[str, Any]]) -> str:
    """The answer that the address chooses, by its number; nothing is recorded by that."""
    chosen = {str(number): answer for number, answer in enumerate(answers, 1)}.get(request.GET.get("answer", ""))
    return "" if chosen is None or chosen["mine"] else chosen["kind"]


def _seen(request: MemberRequest) -> str:
    """The revision that an open page was made with; its parts ask again and name it."""
    return (request.POST.get("seen") or request.GET.get("seen", "")) if request.htmx else ""


def _seen_query(request: MemberRequest) -> str:
    return f"?{urlencode({'seen': seen})}" if (seen := _seen(request)) else ""


def _current(request: MemberRequest, call: ToolCall) -> OutcomeForm | ApprovalForm:
    """What was typed, bound to what is known now."""
    data = request.POST.copy()
    data["revision"] = str(call.revision)
    return bound(data, call)
