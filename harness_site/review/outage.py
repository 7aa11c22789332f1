"""Calls that were lost in one outage, on one page: each with its own evidence, and each decided by itself."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from re import ASCII, fullmatch
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import BadRequest
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from checkpoints import clock
from checkpoints.client import SyncCheckpointer
from checkpoints.enums import CallStatus, Role
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Decision, LateResult, Run, ToolCall
from checkpoints.queries import occasions, outages
from checkpoints.queries.outages import PAGE, Outage, Witness
from harness_site import wording
from harness_site.accounts import call_secrets
from harness_site.accounts.guard import MemberRequest, member
from harness_site.accounts.shown import note_excerpts
from harness_site.rendering.references import reference, resolve
from harness_site.review import company, outcome, prospect
from harness_site.review.card import actor_of
from harness_site.review.company import Company
from harness_site.review.settling import Chosen, settle_all
from harness_site.time_parameters import parse_moment


@dataclass(frozen=True, slots=True)
class Window:
    """What the address of an outage says: a tool and whole seconds, the last one included; and on a later page, the
    last call of the one before."""

    tool: str
    first: datetime
    last: datetime
    after: int | None = None

    @property
    def beginning(self) -> str:
        """The address of the first page."""
        named = {"tool": reference(self.tool), "from": wording.iso(self.first), "to": wording.iso(self.last)}
        return f"{reverse('outage')}?{urlencode(named)}"

    @property
    def address(self) -> str:
        return self.beginning if self.after is None else self.behind(self.after)

    def behind(self, call: int) -> str:
        """The address of the page that begins behind this call."""
        return f"{self.beginning}&after={call}"


@dataclass(frozen=True, slots=True)
class Lost:
    """One of the calls, and what is known about it. `witness` is None where nothing, or too much, speaks for itself."""

    call: ToolCall
    decisions: tuple[Decision, ...]
    late: tuple[LateResult, ...]
    witness: Witness | None
    waiting_run: Run | None
    company: Company
    #: When somebody last asked for its probe.
    asked_at: datetime | None

    @property
    def undecided(self) -> bool:
        return self.call.status == CallStatus.INTERRUPTED

    @property
    def can_be_probed(self) -> bool:
        """Whether somebody could ask its probe now."""
        call = self.call
        return self.undecided and call.verifiable and self.waiting_run is not None and not call.verify_requested_by

    @property
    def overdue(self) -> bool:
        return self.call.deadline is not None and self.call.deadline < clock.now()

    @property
    def settles(self) -> bool:
        """Whether what is known says by itself what became of it."""
        return self.undecided and self.witness is not None

    @property
    def chosen(self) -> str:
        return "" if self.witness is None else str(Chosen(self.call.pk, self.call.revision, self.witness.kind))


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=4000,
        label="Why",
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": "Say why in a sentence: it is kept with your name on each of them."},
    )


def address_of(outage: Outage) -> str:
    first = outage.first.replace(microsecond=0)
    return Window(outage.tool, first, outage.last.replace(microsecond=0)).address


@require_GET
@member(Role.AUDITOR)
def outage(request: MemberRequest) -> HttpResponse:
    return _show(request, _window(request.GET), ReasonForm())


@require_POST
@member(Role.APPROVER)
def verify(request: MemberRequest) -> HttpResponse:
    """Ask the probe of each call that waits for one. What they answer shows up on the page, each by itself."""
    window = _window(request.POST)
    checkpointer, actor = SyncCheckpointer(workspace=request.membership.workspace.slug), actor_of(request)
    for lost in _lost(request, _page(request, window)):
        call = lost.call
        if not lost.can_be_probed:
            continue
        try:
            checkpointer.verify_call(
                call.session.session_id, call.call_id, actor=actor, step=call.step, attempt=call.attempt
            )
        except CheckpointsError:
            continue  # decided in the meantime: the page says so
    return redirect(window.address)


@require_POST
@member(Role.APPROVER)
def settle(request: MemberRequest) -> HttpResponse:
    """Decide about each of the chosen calls as its own evidence says. One that is refused keeps nobody back."""
    window = _window(request.POST)
    chosen = [one for one in map(Chosen.parse, request.POST.getlist("call")[:PAGE]) if one is not None]
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _show(request, window, form, status=422)
    settled = settle_all(chosen, by=request.membership, actor=actor_of(request), reason=form.cleaned_data["reason"])
    return redirect(f"{window.beginning}&settled={outcome.keep(request, settled)}")


def _show(request: MemberRequest, window: Window, form: ReasonForm, *, status: int = 200) -> HttpResponse:
    page = _page(request, window)
    rows = _lost(request, page)
    undecided = [row for row in rows if row.undecided]
    context: dict[str, Any] = {
        "window": window,
        "page": page,
        "rows": rows,
        "page_size": min(PAGE, page.following),
        "next_page": window.behind(page.calls[-1].pk) if page.following else "",
        "undecided": undecided,
        "probes": [row for row in undecided if row.can_be_probed],
        "asked": [row for row in undecided if row.call.verify_requested_by],
        "settling": [row for row in undecided if row.settles],
        "form": form,
        "outcome": outcome.kept(request, request.GET.get("settled", "")),
    }
    settled = context["outcome"].rows if context["outcome"] else ()
    shown = [*(row.call.session_id for row in rows), *(one.call.session_id for one in settled)]
    note_excerpts(request, "outage", shown)
    context["secrets"] = call_secrets.of_sessions(set(shown))
    return render(request, "review/outage.html", context, status=status)


def _window(asked: QueryDict) -> Window:
    first, last = (parse_moment(asked.get(name, "")) for name in ("from", "to"))
    tool, after = asked.get("tool", ""), asked.get("after", "")
    if first is None or last is None or first > last or "\0" in tool or not fullmatch(r"\d{0,18}", after, ASCII):
        raise BadRequest("The outage has to be named by a tool, and two times with their zone.")
    return Window(resolve(tool), first, last, int(after) if after else None)


def _page(request: MemberRequest, window: Window) -> outages.Lost:
    last = window.last + timedelta(seconds=1)
    return outages.calls_of(request.membership.workspace, window.tool, window.first, last, after=window.after)


def _lost(request: MemberRequest, page: outages.Lost) -> list[Lost]:
    """The calls of a page with what is known about each; five queries."""
    calls = page.calls
    people = company.of_calls([call.pk for call in calls], request.membership)
    asked = occasions.probe_times([call.session_id for call in calls if call.verify_requested_by])
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    late: defaultdict[int, list[LateResult]] = defaultdict(list)
    for made in Decision.objects.filter(tool_call__in=calls).order_by("pk"):
        decisions[made.tool_call_id].append(made)
    for one in LateResult.objects.filter(tool_call__in=calls).select_related("run").order_by("pk"):
        late[one.tool_call_id].append(one)
    return [
        Lost(
            call,
            tuple(decisions[call.pk]),
            tuple(late[call.pk]),
            outages.witness(late[call.pk]),
            prospect.waiting_run(call.session),
            people.get(call.pk, company.NOBODY),
            asked.get((call.session_id, (call.call_id, call.step))),
        )
        for call in calls
    ]
