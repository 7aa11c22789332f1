from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.template.defaultfilters import filesizeformat
from django.utils.datastructures import MultiValueDict

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.exceptions import InvalidInput
from checkpoints.models import ToolCall
from harness_site.core import formatting
from harness_site.core.masking.masked_references import compute_keyed_fingerprint
from harness_site.core.masking.masker import mask_text
from harness_site.review import argument_changes, argument_fields
from harness_site.review.decision_options import APPROVALS, OUTCOMES, AnswerOption
from harness_site.sessions.session_formatting import mask_safe_link


def _build_answer_choices(answers: tuple[AnswerOption, ...]) -> list[tuple[str, str]]:
    return [(answer.kind.value, answer.name) for answer in answers]


def _build_text_field(label: str, **attrs: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 2, **attrs})
    return forms.CharField(required=False, strip=False, label=label, widget=widget)


class DecisionForm(forms.Form):
    """A person's answer about one call, bound to the revision they saw."""

    kind: forms.Field
    reason = forms.CharField(required=False, label="Why", max_length=4000, widget=forms.Textarea(attrs={"rows": 2}))
    evidence = forms.CharField(
        required=False, label="Evidence", max_length=2000, widget=forms.TextInput(attrs={"class": "input"})
    )
    file = forms.FileField(required=False, label="File")
    revision = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    #: Possible answers, and those that need no reason because the agent gets a text.
    answers: tuple[AnswerOption, ...] = ()
    self_explaining = frozenset[DecisionKind]()
    #: True if an uploaded file exceeded the size limit.
    too_large = False

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        if not data.get("reason") and data.get("kind") not in self.self_explaining and "reason" not in self.errors:
            self.add_error("reason", "Say why in a sentence: it is kept with your name.")
        return data

    def clean_file(self) -> UploadedFile[Any] | None:
        if self.too_large:
            limit = filesizeformat(settings.EVIDENCE_BYTES).replace("\xa0", " ")
            raise forms.ValidationError(f"The file is larger than {limit}. Nothing was recorded: link to it instead.")
        file: UploadedFile[Any] | None = self.cleaned_data["file"]
        return file

    def require_text(self, data: dict[str, Any], kind: DecisionKind, name: str, words: str) -> None:
        """Add an error if an answer of this kind has no text in the field `name`."""
        if data.get("kind") == kind and not data.get(name, "").strip():
            self.add_error(name, words)

    def build_evidence(self) -> dict[str, Any]:
        """Build the evidence to store: a link, or a text."""
        evidence: str = self.cleaned_data["evidence"]
        if not evidence:
            return {}
        return {"link": evidence} if mask_safe_link(evidence) else {"text": evidence}


class OutcomeForm(DecisionForm):
    """Answer to the question whether an interrupted call happened."""

    answers = OUTCOMES
    kind = forms.ChoiceField(
        choices=_build_answer_choices(OUTCOMES), error_messages={"required": "Choose one of the three answers."}
    )
    result = _build_text_field("Result the agent will see", **{"class": "mono"})

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        landed = DecisionKind.CONFIRM_LANDED
        self.require_text(data, landed, "result", "The agent waits for a result: say what the call returned.")
        return data


class ApprovalForm(DecisionForm):
    """Answer to the question whether a call may run.

    `shown` is the fingerprint of the changed arguments whose difference the sender has seen. Changed arguments are
    `written_as` JSON in one text, or with `fields`, one field for each argument.
    """

    answers = APPROVALS
    self_explaining = frozenset({DecisionKind.REJECT, DecisionKind.RESPOND})
    kind = forms.ChoiceField(
        choices=_build_answer_choices(APPROVALS), error_messages={"required": "Choose one of the four answers."}
    )
    written_as = forms.ChoiceField(choices=[("json", "json"), ("fields", "fields")], required=False)
    args = _build_text_field("Arguments")
    message = _build_text_field("Message to the agent")
    answer = _build_text_field("Answer to the agent")
    shown = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, call: ToolCall, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.call = call
        typed = {name: str(value) for name, value in self.data.items()}
        self.argument_fields = argument_fields.build_argument_fields(call.args, typed)
        #: Parsed edited arguments, and their differences to those that the model asked for.
        self.differences: tuple[argument_changes.ArgumentDifference, ...] = ()
        self.changed: dict[str, Any] = {}
        self.digest = ""

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        reject, respond = DecisionKind.REJECT, DecisionKind.RESPOND
        self.require_text(
            data, reject, "message", "The agent gets a message instead of a result: say what it should know."
        )
        self.require_text(data, respond, "answer", "The agent waits for a result: say what it gets as the call's.")
        if data.get("kind") == DecisionKind.EDIT:
            self._clean_changed_arguments(data.get("args", ""), by_field=data.get("written_as") == "fields")
        return data

    def _clean_changed_arguments(self, text: str, *, by_field: bool) -> None:
        try:
            text = argument_fields.compose_arguments_json(self.argument_fields) if by_field else text
            self.changed = argument_changes.parse_edited_arguments(text, self.call.args)
            digest = argument_changes.compute_arguments_digest(self.changed)
            self.digest = compute_keyed_fingerprint(digest)
            self.differences = argument_changes.list_value_differences(
                argument_changes.get_model_arguments(self.call), self.changed
            )
        except argument_changes.InvalidArgumentText as error:
            self.add_error("args", str(error))
        except InvalidInput as error:
            self.add_error("args", error.detail)
        else:
            if digest == argument_changes.compute_arguments_digest(formatting.parse_json_or_text(self.call.args)):
                self.add_error("args", "These are the arguments that the call has already: nothing would change.")

    @property
    def is_edited_by_field(self) -> bool:
        """True if the fields count rather than the JSON text."""
        mode = self["written_as"].value() if self.is_bound else "fields"
        return mode == "fields" and bool(self.argument_fields)

    @property
    def typed_arguments(self) -> str:
        """The arguments as typed, for a reviewer whose form came too late."""
        if not self.is_edited_by_field:
            return str(self["args"].value() or "")
        return "\n".join(f"{mask_text(field.name)}: {field.typed}" for field in self.argument_fields)

    @property
    def lines(self) -> int:
        """Height of the text area in lines, from 4 to 20."""
        return min(max((self["args"].value() or "").count("\n") + 2, 4), 20)

    @property
    def has_unseen_change(self) -> bool:
        """True if this is an edit whose difference the sender has not seen."""
        data: dict[str, Any] = self.cleaned_data
        return bool(data["kind"] == DecisionKind.EDIT and data["shown"] != self.digest)


def bind_decision_form(
    data: QueryDict, call: ToolCall, files: MultiValueDict[str, Any] | None = None
) -> OutcomeForm | ApprovalForm:
    """Bind the submitted data to the form of its answer, or to the form of the pending question."""
    kind = data.get("kind", "")
    option = {answer.kind.value: answer for answer in (*OUTCOMES, *APPROVALS)}.get(kind)
    about_approval = call.status == CallStatus.AWAITING_APPROVAL if option is None else option in APPROVALS
    return ApprovalForm(data, files, call=call) if about_approval else OutcomeForm(data, files)
