"""Forms for the answers about several calls at once: one for all of them, and one for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from re import ASCII, fullmatch
from typing import Any, Final, cast

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from checkpoints.enums import DecisionKind
from harness_site.review.decision_options import APPROVALS, OUTCOME_KINDS, OUTCOMES
from harness_site.review.forms import build_answer_choices, build_evidence_from_text
from harness_site.review.record_each_of_several_decisions import CallAnswer
from harness_site.review.selectors.outage_groups import PAGE

#: Answers that can be the same for several calls that await approval.
_ANSWERS_FOR_SEVERAL: Final = (DecisionKind.APPROVE, DecisionKind.REJECT)
#: Errors of required fields, which scripts show before the form is sent: they are the attribute `data-missing`.
ANSWER_MISSING: Final = gettext_lazy("Choose an answer for all calls, or for a call above.")
_EVIDENCE_MISSING: Final = gettext_lazy("Enter evidence: this answer says what happened to several calls.")
_REASON_MISSING: Final = gettext_lazy("Enter a reason. It is recorded with your name for each call.")
_REASON_OF_CALL_MISSING: Final = gettext_lazy("Enter a reason here, or one for all calls.")
_REASON_OF_OTHER_ANSWER_MISSING: Final = gettext_lazy(
    "Enter a reason for this answer. The reason for all is about another answer."
)


def _build_shared_text_field(label: Any, placeholder: Any, *, max_length: int, **attrs: Any) -> forms.CharField:
    attrs = {"rows": 2, "aria-required": "true", "placeholder": placeholder, **attrs}
    return forms.CharField(required=False, label=label, max_length=max_length, widget=forms.Textarea(attrs=attrs))


def _build_override_text_field_for_one_call(label: Any, *, max_length: int, **attrs: Any) -> forms.CharField:
    attrs = {"class": "input", "placeholder": gettext_lazy("same as for all calls"), **attrs}
    return forms.CharField(required=False, label=label, max_length=max_length, widget=forms.TextInput(attrs=attrs))


class SharedAnswerForm(forms.Form):
    """One answer for several calls, with its evidence and its reason.

    Without an answer, only the calls with one of their own are decided.
    """

    answer = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Answer for all"),
        choices=[("", gettext_lazy("leave undecided")), *build_answer_choices(OUTCOMES)],
        widget=forms.Select(attrs={"class": "input", "data-key": "a", "data-missing": ANSWER_MISSING}),
    )
    result = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Result for all"),
        widget=forms.TextInput(attrs={"class": "input mono"}),
    )
    evidence = _build_shared_text_field(
        gettext_lazy("Evidence for all"),
        gettext_lazy("Link or text"),
        max_length=2000,
        **{"data-missing": _EVIDENCE_MISSING, "data-missing-for": " ".join(sorted(OUTCOME_KINDS))},
    )
    #: Its text also counts for all fields whose name ends with `data-default` and that are empty.
    reason = _build_shared_text_field(
        gettext_lazy("Reason for all"),
        gettext_lazy("Recorded with your name"),
        max_length=4000,
        **{"data-default": "-reason", "data-missing": _REASON_MISSING},
    )

    def __init__(self, data: QueryDict | None = None, *, call_count: int = 1) -> None:
        """`call_count` is the number of calls without an answer of their own: those that get this one."""
        super().__init__(data, prefix="shared")
        self.call_count = call_count

    def build_form_for_only_remaining_call(self, own: CallAnswerForm) -> SharedAnswerForm:
        """Build the form for the only call that is left of several, from what was sent for it.

        An answer for all is not one for this call: it has to be chosen again. Evidence and reason stay.
        """
        data = cast(QueryDict, self.data).copy()
        own_values = {name: data.get(own.add_prefix(name), "") for name in self.fields}
        if own_values["answer"] in dict(build_answer_choices(OUTCOMES)):
            is_same = own_values["answer"] == data.get(self.add_prefix("answer"))
            texts = {name: data.get(self.add_prefix(name), "") if is_same else "" for name in ("evidence", "reason")}
            for name, value in own_values.items():
                data[self.add_prefix(name)] = value or texts.get(name, "")
        else:
            data[self.add_prefix("answer")] = ""
        form = SharedAnswerForm(data)
        if not data[self.add_prefix("answer")]:
            form.add_error("answer", _("Choose an answer."))
        return form

    def use_labels_for_one_call(self, pk: int) -> None:
        # Another identifier than that of the answer for all: a live update replaces the field with its choice.
        saved_as = f"answer-{pk}"
        names = {"id": f"id_{saved_as}", "data-saved-as": saved_as}
        self.fields["answer"].widget.attrs |= {**names, "data-missing": _("Choose an answer.")}
        del self.fields["evidence"].widget.attrs["aria-required"]
        labels = {"answer": _("Answer"), "evidence": _("Evidence"), "reason": _("Reason")}
        for name, label in {**labels, "result": _("Result for the agent")}.items():
            self[name].label = label
        answer = cast(forms.ChoiceField, self.fields["answer"])
        answer.choices = [("", _("Choose an answer")), *build_answer_choices(OUTCOMES)]

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        answer = data.get("answer")
        needs_evidence = answer in OUTCOME_KINDS and self.call_count > 1
        if needs_evidence and not data.get("evidence") and "evidence" not in self.errors:
            self.add_error("evidence", str(_EVIDENCE_MISSING))
        if answer and not data.get("reason") and "reason" not in self.errors:
            self.add_error("reason", str(_REASON_MISSING))
        return data


class CallAnswerForm(forms.Form):
    """Answer about one of several calls.

    Without an answer of its own the call is decided like `shared`. With one, it has the evidence and the reason of
    `shared` if it has none, unless these are about a different answer. Only the reason is required.
    """

    LEAVE_UNDECIDED: Final = "undecided"

    answer = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Answer"),
        choices=[
            ("", gettext_lazy("as for all")),
            (LEAVE_UNDECIDED, gettext_lazy("leave undecided")),
            *build_answer_choices(OUTCOMES),
        ],
        widget=forms.Select(attrs={"class": "input"}),
    )
    result = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("Result for the agent"),
        widget=forms.TextInput(attrs={"class": "input mono"}),
    )
    evidence = _build_override_text_field_for_one_call(gettext_lazy("Evidence"), max_length=2000)
    reason = _build_override_text_field_for_one_call(
        gettext_lazy("Reason"),
        max_length=4000,
        **{"data-missing": _REASON_OF_CALL_MISSING, "data-missing-other": _REASON_OF_OTHER_ANSWER_MISSING},
    )
    revision = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def __init__(
        self, data: QueryDict | None = None, *, pk: int, shared: SharedAnswerForm | None = None, **kwargs: Any
    ) -> None:
        super().__init__(data, prefix=f"call-{pk}", **kwargs)
        self.pk, self.shared = pk, shared
        # What an answer "as for all" means now.
        self.fields["answer"].widget.attrs["aria-describedby"] = f"{self['answer'].id_for_label}_now"

    @property
    def own_fields(self) -> list[forms.BoundField]:
        """Fields that count only with an answer of its own."""
        return [self["result"], self["evidence"], self["reason"]]

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        answer = data.get("answer")
        if answer in ("", None, self.LEAVE_UNDECIDED):
            return data
        if self._must_report_missing_reason(data):
            is_other = self._is_other_choice_than_shared(answer)
            self.add_error("reason", str(_REASON_OF_OTHER_ANSWER_MISSING if is_other else _REASON_OF_CALL_MISSING))
        return data

    def _is_other_choice_than_shared(self, answer: str) -> bool:
        """Return whether the texts of `shared` are about a different answer."""
        shared = "" if self.shared is None else self.shared.cleaned_data.get("answer", "")
        return bool(answer and shared) and answer != shared

    def _must_report_missing_reason(self, data: dict[str, Any]) -> bool:
        """Return whether no form has the reason of this answer, and no form has an error that says so."""
        if data.get("reason") or "reason" in self.errors:
            return False
        if self.shared is None or self._is_other_choice_than_shared(data["answer"]):
            return True
        return "reason" not in self.shared.errors and not self.shared.cleaned_data.get("reason")

    def build_answer(self) -> CallAnswer | None:
        """Build the answer to record; None if the call stays undecided."""
        own, shared = self.cleaned_data, {} if self.shared is None else self.shared.cleaned_data
        counting = own if own["answer"] else shared
        if counting.get("answer", "") in ("", self.LEAVE_UNDECIDED):
            return None
        texts = {} if self._is_other_choice_than_shared(own["answer"]) else shared
        evidence, reason = (counting[name] or texts.get(name, "") for name in ("evidence", "reason"))
        return CallAnswer(
            self.pk,
            own["revision"],
            DecisionKind(counting["answer"]),
            reason,
            build_evidence_from_text(evidence),
            counting["result"],
        )


class SameApprovalForm(forms.Form):
    """One answer with one reason, for several calls of a tool that await the same approval.

    The value of a selected call is its key and the revision that the person has seen: `17.2`.
    """

    answer = forms.ChoiceField(
        label=gettext_lazy("Answer"),
        choices=build_answer_choices(tuple(option for option in APPROVALS if option.kind in _ANSWERS_FOR_SEVERAL)),
        widget=forms.RadioSelect,
        error_messages={"required": gettext_lazy("Choose an answer.")},
    )
    reason = forms.CharField(
        max_length=4000,
        label=gettext_lazy("Reason"),
        widget=forms.Textarea(attrs={"rows": 2, "data-missing": _REASON_MISSING}),
        error_messages={"required": _REASON_MISSING},
    )

    def __init__(self, data: QueryDict | None = None) -> None:
        super().__init__(data)
        #: Keys of the selected calls, with the revisions that the person has seen.
        self.selected = {} if data is None else dict(_parse_selected_calls(data.getlist("call")))

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if not self.selected:
            self.add_error(None, _("Select at least one call."))
        return data

    def build_answers(self) -> list[CallAnswer]:
        """Build the answers to record, the same for each selected call; the agents of rejected calls get the reason."""
        kind, reason = DecisionKind(self.cleaned_data["answer"]), self.cleaned_data["reason"]
        own_reason, result = ("", reason) if kind == DecisionKind.REJECT else (reason, "")
        return [CallAnswer(pk, revision, kind, own_reason, {}, result) for pk, revision in self.selected.items()]


def _parse_selected_calls(values: Sequence[str]) -> Iterator[tuple[int, int]]:
    for value in values[:PAGE]:
        if match := fullmatch(r"(\d{1,18})\.(\d{1,9})", value, ASCII):
            yield int(match[1]), int(match[2])


def focus_first_invalid_field(forms_in_page_order: Iterable[forms.Form]) -> forms.BoundField | None:
    """Let the browser focus the first field with an error when it loads the page. Returns this field, if any."""
    invalid = (form[name] for form in forms_in_page_order for name in form.fields if name in form.errors)
    first = next(invalid, None)
    if first is not None:
        first.field.widget.attrs["autofocus"] = True
    return first
