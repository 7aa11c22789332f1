"""The card of one call: what was about to happen, did it happen, and the decision."""

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.enums import ActorKind, CallStatus, Role
from checkpoints.exceptions import CheckpointsError, NotFound
from checkpoints.models import ToolCall
from checkpoints.queries import inbox
from checkpoints.resuming.actors import Actor
from harness_site.accounts.guard import MemberRequest, able, member
from harness_site.review import standing
from harness_site.review.forms import DecisionForm
from harness_site.review.problems import Problem, problem
from harness_site.review.recording import record


@require_http_methods(["GET", "POST"])
@member(Role.AUDITOR)
def card(request: MemberRequest, pk: int) -> HttpResponse:
    call = _find(request, pk)
    if request.method == "GET":
        return _show(request, call)
    form = DecisionForm(request.POST)
    if not request.membership.may(Role.APPROVER):
        refused = Problem(403, "Your role does not cover deciding.", "Nothing was recorded.")
        return _show(request, call, form=form, refused=refused)
    if not form.is_valid():
        return _show(request, call, form=form, status=422)
    try:
        record(_checkpointer(request), call, _actor(request), form)
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        return _show(request, _find(request, pk), form=form, refused=problem(error))
    return redirect("card", pk)


@require_POST
@member(Role.APPROVER)
def verify(request: MemberRequest, pk: int) -> HttpResponse:
    """Ask the waiting process to run the tool's probe again. Its answer shows up on the card."""
    call = _find(request, pk)
    checkpointer = _checkpointer(request)
    try:
        checkpointer.verify_call(
            call.session.session_id, call.call_id, actor=_actor(request), step=call.step, attempt=call.attempt
        )
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        refused = problem(error, nothing="The probe was not asked for.")
        return _show(request, _find(request, pk), refused=refused)
    return redirect(f"{reverse('card', args=[pk])}{_seen_query(request)}")


def _find(request: MemberRequest, pk: int) -> ToolCall:
    call = inbox.find(request.membership.workspace, pk)
    if call is None:
        raise Http404("There is no such call in this workspace.")
    return call


def _checkpointer(request: MemberRequest) -> SyncCheckpointer:
    return SyncCheckpointer(workspace=request.membership.workspace.slug)


def _actor(request: MemberRequest) -> Actor:
    membership = request.membership
    return Actor(ActorKind.PERSON, membership.user.get_username(), Role(membership.role))


def _show(
    request: MemberRequest,
    call: ToolCall,
    *,
    form: DecisionForm | None = None,
    refused: Problem | None = None,
    status: int = 200,
) -> HttpResponse:
    undecided = call.status == CallStatus.INTERRUPTED
    decider = request.membership.may(Role.APPROVER)
    context: dict[str, Any] = {
        **standing.context(call),
        "refused": refused,
        "typed": form if refused and not (undecided and decider) else None,
        "seen": _seen(request) or str(call.revision),
    }
    if undecided and decider:
        shown = _current(request, call) if form and refused else form
        context["answers"] = standing.answers(call)
        context["form"] = shown or DecisionForm(initial=standing.suggested(context))
    elif undecided:
        context["able"] = able(request.membership.workspace, Role.APPROVER)
    return render(request, "review/card.html", context, status=refused.status if refused else status)


def _seen(request: MemberRequest) -> str:
    """The revision that an open page was made with; its parts ask again and name it."""
    return (request.POST.get("seen") or request.GET.get("seen", "")) if request.htmx else ""


def _seen_query(request: MemberRequest) -> str:
    return f"?{urlencode({'seen': seen})}" if (seen := _seen(request)) else ""


def _current(request: MemberRequest, call: ToolCall) -> DecisionForm:
    """What was typed, bound to what is known now."""
    data = request.POST.copy()
    data["revision"] = str(call.revision)
    return DecisionForm(data)
