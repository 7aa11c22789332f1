"""Page of the calls interrupted by one outage: each gets its own decision."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from checkpoints.db import clock
from checkpoints.enums import ActorKind, CallStatus, DecisionKind, Role
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Decision, LateResult, Run, ToolCall
from checkpoints.sync_client import SyncCheckpointer
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core import masked_formatting, status_and_decision_labels
from harness_site.core.call_sentences import format_call_sentence
from harness_site.core.folded_verify_hook_answers import fold_repeated_hook_answers
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.money_amounts_in_call_arguments import Amount, find_visible_amount, sum_amounts_in_one_currency
from harness_site.review import bulk_results_in_user_session, decision_effect_texts, load_claims_and_record_presence
from harness_site.review.bulk_decision_forms import (
    ANSWER_MISSING,
    CallAnswerForm,
    SharedAnswerForm,
    focus_first_invalid_field,
)
from harness_site.review.decided_rows_and_batches import is_decision_withdrawn
from harness_site.review.decision_options import OUTCOME_KINDS
from harness_site.review.differing_arguments import find_names_of_visibly_differing_arguments
from harness_site.review.load_claims_and_record_presence import CallClaimsAndPresence
from harness_site.review.outage_calls_added_or_removed import find_outage_form_changes, parse_call_keys
from harness_site.review.outage_page_url import OutageWindow, parse_outage_window
from harness_site.review.outage_verification_summary import summarize_last_verification
from harness_site.review.record_each_of_several_decisions import (
    CallAnswer,
    ChosenCall,
    record_decisions_from_answers,
    record_decisions_from_late_results,
)
from harness_site.review.selectors import next_call_to_decide, outage_groups
from harness_site.review.selectors.next_attempts_of_rerun_calls import load_statuses_of_next_attempts
from harness_site.review.selectors.outage_groups import PAGE, LateResultSummary
from harness_site.review.views.decision_card import build_decision_actor
from harness_site.review.why_reader_cannot_decide import explain_why_reader_cannot_decide
from harness_site.sessions.selectors import multi_person_decisions
from harness_site.sessions.timeline.selectors import takeover_approval_verification_and_handover_events
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import ProbeRequest

#: Decisions after which the status of a call says nothing more about its outcome.
_OUTCOME_DECISIONS: Final = OUTCOME_KINDS | {
    DecisionKind.APPROVE_RERUN,
    DecisionKind.PROBE_LANDED,
    DecisionKind.PROBE_NOT_LANDED,
}


@dataclass(frozen=True, slots=True)
class OutageCallRow:
    """One call and its known facts. `witness` is None if late results are missing or contradict each other."""

    call: ToolCall
    decisions: tuple[Decision, ...]
    late: tuple[LateResult, ...]
    witness: LateResultSummary | None
    waiting_run: Run | None
    company: CallClaimsAndPresence
    #: Requests for its probe, oldest first.
    probe_requests: tuple[ProbeRequest, ...]
    #: Why the reader cannot decide about the call now, if others can; else empty.
    waits_for_others: str
    #: Status of the next attempt of the call if it ran once more, else empty.
    next_status: str

    @property
    def args(self) -> Any:
        """Arguments of the call, in the order of its caller."""
        return masked_formatting.parse_json_or_text(self.call.args_json_in_caller_order)

    @property
    def shown_decisions(self) -> list[tuple[Decision, bool, int]]:
        """Each decision, whether it is withdrawn, and how often it was made: equal ones of a hook are the last one."""
        return [
            (made, is_decision_withdrawn(made, [each for each in self.decisions if each.pk > made.pk]), times)
            for made, times in fold_repeated_hook_answers(self.decisions, are_reasons_shown=True)
        ]

    @property
    def amount(self) -> Amount | None:
        """Amount of the call; None if it has none, or if it is secret to the reader."""
        return find_visible_amount(self.args)

    @property
    def asked_at(self) -> datetime | None:
        """Time of the last request for its probe."""
        return self.probe_requests[-1].at if self.probe_requests else None

    @property
    def is_undecided(self) -> bool:
        return self.call.status == CallStatus.INTERRUPTED

    @property
    def is_verified(self) -> bool:
        """True if its verify hook has found what happened."""
        return not self.is_undecided and bool(self.decisions) and self.decisions[-1].actor_kind == ActorKind.HOOK

    @property
    def kind_of_outcome_decision(self) -> str:
        """Kind of the last decision if it says what happened or what follows; empty if the status says more."""
        last = None if self.is_undecided or not self.decisions else self.decisions[-1].kind
        return last if last in _OUTCOME_DECISIONS else ""

    @property
    def chip_of_run_since_decision(self) -> tuple[str, str] | None:
        """Chip shape and label of whether the call has run again since the decision; None if it does not run."""
        kind = self.kind_of_outcome_decision
        return status_and_decision_labels.find_shape_and_label_of_run_since_decision(
            self.next_status or self.call.status, final_kind=kind, is_session_finished=self.call.session.finished
        )

    @property
    def can_be_verified(self) -> bool:
        """True if its probe can be requested now."""
        call = self.call
        return self.is_undecided and call.verifiable and self.waiting_run is not None and not call.verify_requested_by

    @property
    def is_overdue(self) -> bool:
        return self.call.deadline is not None and self.call.deadline < clock.now()

    @property
    def needs_answer_of_reader(self) -> bool:
        """True if the reader has to find out what happened."""
        return self.is_undecided and self.witness is None and not self.waits_for_others

    @property
    def is_outcome_shown_by_late_results(self) -> bool:
        """True if the late results determine the outcome."""
        return self.is_undecided and self.witness is not None

    @property
    def form_value(self) -> str:
        return "" if self.witness is None else str(ChosenCall(self.call.pk, self.call.revision, self.witness.kind))


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=4000,
        label=gettext_lazy("Reason"),
        widget=forms.Textarea(attrs={"rows": 2, "aria-required": "true"}),
        error_messages={"required": gettext_lazy("Enter a reason. It is recorded with your name for each call.")},
    )


@require_GET
@require_member_with_role(Role.AUDITOR)
def show_outage(request: MemberRequest) -> HttpResponse:
    return _render_outage_page(request, parse_outage_window(request.GET), ReasonForm())


@require_POST
@require_member_with_role(Role.APPROVER)
def request_verifications(request: MemberRequest) -> HttpResponse:
    """Request the probe of each call that waits for one; the results appear on the page."""
    window = parse_outage_window(request.POST)
    checkpointer, actor = SyncCheckpointer(workspace=request.membership.workspace.slug), build_decision_actor(request)
    for row in _load_outage_call_rows(request, _load_outage_calls_page(request, window)):
        call = row.call
        if not row.can_be_verified:
            continue
        try:
            checkpointer.verify_call(
                call.session.session_id, call.call_id, actor=actor, step=call.step, attempt=call.attempt
            )
        except CheckpointsError:
            continue  # decided in the meantime; the page shows it
    return redirect(window.url)


@require_POST
@require_member_with_role(Role.APPROVER)
def decide_calls_by_late_results(request: MemberRequest) -> HttpResponse:
    """Decide about each selected call by its own evidence; a refusal does not affect the others."""
    window = parse_outage_window(request.POST)
    choices = [
        choice
        for choice in map(ChosenCall.parse_form_value_or_none, request.POST.getlist("call")[:PAGE])
        if choice is not None
    ]
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _render_outage_page(request, window, form, status=422)
    results = record_decisions_from_late_results(
        choices, by=request.membership, actor=build_decision_actor(request), reason=form.cleaned_data["reason"]
    )
    name = bulk_results_in_user_session.save_bulk_results_and_get_name(request, results)
    return redirect(f"{window.first_page_url}&settled={name}")


@require_POST
@require_member_with_role(Role.APPROVER)
def decide_calls_by_form_answers(request: MemberRequest) -> HttpResponse:
    """Record the answers of a person about calls whose outcome no evidence shows."""
    window = parse_outage_window(request.POST)
    pks = parse_call_keys(request.POST, "pk")
    without_own_answer = [pk for pk in pks if not request.POST.get(f"call-{pk}-answer")]
    shared_form = SharedAnswerForm(request.POST, call_count=len(without_own_answer))
    forms_by_pk = {pk: CallAnswerForm(request.POST, pk=pk, shared=shared_form) for pk in pks}
    answers: list[CallAnswer] = []
    if all([shared_form.is_valid(), *(form.is_valid() for form in forms_by_pk.values())]):
        answers = [answer for answer in (form.build_answer() for form in forms_by_pk.values()) if answer is not None]
        if not answers:
            is_one = len(forms_by_pk) == 1
            missing = _("Choose an answer.") if is_one else str(ANSWER_MISSING)
            shared_form.add_error("answer", missing)
    if not answers:
        return _render_outage_page(
            request, window, ReasonForm(), shared_form=shared_form, answer_forms=forms_by_pk, status=422
        )
    results = record_decisions_from_answers(answers, by=request.membership, actor=build_decision_actor(request))
    name = bulk_results_in_user_session.save_bulk_results_and_get_name(request, results)
    return redirect(f"{window.first_page_url}&settled={name}")


def _find_pks_of_calls_alike(rows: Sequence[OutageCallRow]) -> set[int]:
    """Return the keys of the calls that another call of the page equals in sentence and arguments."""
    numbers = Counter((row.call.sentence, row.call.args) for row in rows)
    return {row.call.pk for row in rows if numbers[row.call.sentence, row.call.args] > 1}


def _render_outage_page(
    request: MemberRequest,
    window: OutageWindow,
    form: ReasonForm,
    *,
    shared_form: SharedAnswerForm | None = None,
    answer_forms: Mapping[int, CallAnswerForm] | None = None,
    status: int = 200,
) -> HttpResponse:
    page = _load_outage_calls_page(request, window)
    settled = request.GET.get("settled", "") or request.POST.get("settled", "")
    outcome = bulk_results_in_user_session.load_bulk_results(request, settled)
    rows = _load_outage_call_rows(request, page)
    verification = summarize_last_verification((row.call, row.decisions, row.probe_requests) for row in rows)
    silent, shared_form = _pair_answerable_rows_with_forms(rows, answer_forms or {}, shared_form or SharedAnswerForm())
    forms_of_answers = [*(answer_form for _, answer_form in silent), shared_form]  # in the order of the page
    invalid_field = focus_first_invalid_field([form, *forms_of_answers])
    context: dict[str, Any] = {
        "window": window,
        "refresh_url": f"{window.url}&{urlencode({'settled': settled})}" if settled else window.url,
        "page": page,
        "rows": rows,
        "differing": find_names_of_visibly_differing_arguments(row.args for row in rows),
        "alike": _find_pks_of_calls_alike(rows),
        "common_message": _get_common_error_message(rows),
        "verification": verification,
        "verified": sum(row.is_verified for row in rows),
        "reader": request.membership.user.get_username(),
        "lists": _build_titled_lists_of_calls_not_answered_here(
            rows,
            request.membership,
            {each.call.pk for each in outcome.bulk.decisions} if outcome and outcome.bulk else (),
        ),
        "page_size": min(PAGE, page.following),
        "next_page": window.get_url_after(page.calls[-1].pk) if page.following else "",
        **_build_undecided_calls_context([row for row in rows if row.is_undecided]),
        "silent": silent,
        "changes": find_outage_form_changes(
            request.POST if request.method == "POST" else request.GET,
            [row.call.pk for row, _form in silent],
            request.membership,
            is_verification_shown=verification is not None,
        ),
        "needs_several_people": any(row.call.approvals > 1 for row, _form in silent),
        "form": form,
        "shared_form": shared_form,
        "invalid_field": invalid_field,
        "invalid": status == HTTPStatus.UNPROCESSABLE_ENTITY,
        "outcome": outcome,
    }
    session_pks = [call.session_id for call in (*page.calls, *(outcome.calls if outcome else ()))]
    mark_excerpts_shown_in_response(request, "outage", session_pks)
    context["secrets"] = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(set(session_pks))
    if page.total and not page.undecided:
        context["next_call"] = next_call_to_decide.find_next_call_to_decide(request.membership)
    response = render(request, "review/outage.html", context, status=status)
    if context["invalid"]:
        # The page stays where it is, and the first invalid field gets the focus.
        response["HX-Reswap"], response["HX-Push-Url"] = "outerHTML", "false"
    return response


def _build_undecided_calls_context(rows: Sequence[OutageCallRow]) -> dict[str, Any]:
    """Build the calls that wait for a decision, and what hooks and late results say about them."""
    kinds_of_late_results = Counter(row.witness.kind for row in rows if row.witness is not None)
    return {
        "undecided": rows,
        "common_unknown": _find_only_hook_answer_of_all_calls(rows),
        "probes": [row for row in rows if row.can_be_verified],
        "asked": [row for row in rows if row.call.verify_requested_by],
        "settling": [row for row in rows if row.is_outcome_shown_by_late_results],
        "late_successes": kinds_of_late_results[DecisionKind.CONFIRM_LANDED],
        "late_failures": kinds_of_late_results[DecisionKind.MARK_FAILED],
        "amount": sum_amounts_in_one_currency(row.amount for row in rows),
    }


def _pair_answerable_rows_with_forms(
    rows: Sequence[OutageCallRow], sent_forms: Mapping[int, CallAnswerForm], shared_form: SharedAnswerForm
) -> tuple[list[tuple[OutageCallRow, CallAnswerForm]], SharedAnswerForm]:
    """Pair each call that the reader has to answer with its form, the sent one if there is one.

    The form for all calls is about the last one if only one is left, without an answer that was given for several.
    """
    pairs = [
        (row, sent_forms.get(row.call.pk) or _build_call_answer_form(row.call))
        for row in rows
        if row.needs_answer_of_reader
    ]
    if len(pairs) == 1:
        row, answer_form = pairs[0]
        if len(sent_forms) > 1:
            shared_form = shared_form.build_form_for_only_remaining_call(answer_form)
        shared_form.use_labels_for_one_call(row.call.pk)
    return pairs, shared_form


def _build_titled_lists_of_calls_not_answered_here(
    rows: Sequence[OutageCallRow], reader: Membership, listed_pks: Collection[int]
) -> list[tuple[str, list[OutageCallRow]]]:
    """Build the lists of the calls that the reader cannot answer on this page, each with its title.

    Decided calls with `listed_pks` are left out: the page lists them with the outcome of the decision.
    """
    is_auditor = reader.role == Role.AUDITOR
    undecided = [row for row in rows if row.is_undecided and (is_auditor or not row.needs_answer_of_reader)]
    lists = [
        (_("Calls with late results"), [row for row in undecided if row.is_outcome_shown_by_late_results]),
        (_("Undecided calls"), [row for row in undecided if not row.is_outcome_shown_by_late_results]),
        (_("Decided calls"), [row for row in rows if not row.is_undecided and row.call.pk not in listed_pks]),
    ]
    return [(title, listed) for title, listed in lists if listed]


def _get_common_error_message(rows: Sequence[OutageCallRow]) -> str:
    """Return the message that the errors of all these calls have; empty if they differ."""
    messages = {row.call.error_message for row in rows}
    return messages.pop() if len(messages) == 1 else ""


def _find_only_hook_answer_of_all_calls(undecided: Sequence[OutageCallRow]) -> Decision | None:
    """Return the answer of the verify hook that is all that was recorded about each of several undecided calls."""
    shown = [row.shown_decisions for row in undecided]
    if len(shown) < 2 or any(len(decisions) != 1 for decisions in shown):
        return None
    answers = [made for [(made, _is_withdrawn, _times)] in shown]
    is_common = len(fold_repeated_hook_answers(answers, are_reasons_shown=True)) == 1
    return max(answers, key=lambda made: made.created_at) if is_common else None


def _build_call_answer_form(call: ToolCall) -> CallAnswerForm:
    return CallAnswerForm(pk=call.pk, initial={"revision": call.revision})


def _load_outage_calls_page(request: MemberRequest, window: OutageWindow) -> outage_groups.OutageCallPage:
    last = window.last + timedelta(seconds=1)
    return outage_groups.load_page_of_outage_calls(
        request.membership.workspace, window.tool, window.error_type, window.first, last, after=window.after
    )


def _load_outage_call_rows(request: MemberRequest, page: outage_groups.OutageCallPage) -> list[OutageCallRow]:
    """Build the rows of a page with the known facts about each call; five queries, more with votes or next attempts.

    They are sorted by their titles, numbers in these by their value, as in the lists with which people compare them.
    """
    calls, reader = page.calls, request.membership
    people = load_claims_and_record_presence.load_claims_and_presence_of_calls([call.pk for call in calls], reader)
    probe_requests = takeover_approval_verification_and_handover_events.load_probe_requests(
        {call.session_id for call in calls}
    )
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    late_results: defaultdict[int, list[LateResult]] = defaultdict(list)
    for decision in Decision.objects.filter(tool_call__in=calls).order_by(*Decision.IN_ORDER):
        decisions[decision.tool_call_id].append(decision)
    electorate = build_eligible_vote_mapper(reader.workspace)
    next_statuses = load_statuses_of_next_attempts(calls)
    for late_result in LateResult.objects.filter(tool_call__in=calls).select_related("run").order_by("pk"):
        late_results[late_result.tool_call_id].append(late_result)
    rows = [
        OutageCallRow(
            call,
            tuple(decisions[call.pk]),
            tuple(late_results[call.pk]),
            outage_groups.summarize_agreeing_late_results_of_call(late_results[call.pk]),
            decision_effect_texts.find_run_waiting_for_decision(call.session),
            people.get(call.pk, load_claims_and_record_presence.NOBODY),
            tuple(probe_requests.get((call.session_id, (call.call_id, call.step)), ())),
            explain_why_reader_cannot_decide(
                call, multi_person_decisions.list_incomplete_agreements(call, decisions[call.pk], electorate), reader
            ),
            next_statuses.get(call.pk, ""),
        )
        for call in calls
    ]
    return sorted(
        rows,
        key=lambda row: _build_natural_sort_key(format_call_sentence(row.call)),
    )


def _build_natural_sort_key(text: str) -> list[tuple[int, str]]:
    """Build a key by which texts are sorted as people read them: “parcel 9” is before “parcel 10”."""
    pieces = re.split(r"(\d+)", text.casefold())
    return [(int(piece), "") if number % 2 else (0, piece) for number, piece in enumerate(pieces)]
