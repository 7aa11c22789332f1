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
from harness_site import wording
from harness_site.rendering.masking import masked
from harness_site.rendering.references import fingerprint
from harness_site.rendering.saying import safe_link
from harness_site.review import change, fields
from harness_site.review.answers import APPROVALS, OUTCOMES, Answer


def _choices(answers: tuple[Answer, ...]) -> list[tuple[str, str]]:
    return [(answer.kind.value, answer.name) for answer in answers]


def _text(label: str, **attrs: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 2, **attrs})
    return forms.CharField(required=False, strip=False, label=label, widget=widget)


class DecisionForm(forms.Form):
    """One person's answer about one call, bound to what they saw of it."""

    kind: forms.Field
    reason = forms.CharField(required=False, label="Why", max_length=4000, widget=forms.Textarea(attrs={"rows": 2}))
    evidence = forms.CharField(
        required=False, label="Evidence", max_length=2000, widget=forms.TextInput(attrs={"class": "input"})
    )
    file = forms.FileField(required=False, label="File")
    revision = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    #: Its answers, and those for which the text that the agent gets is reason enough.
    answers: tuple[Answer, ...] = ()
    self_explaining = frozenset[DecisionKind]()
    #: Whether a file was sent that is larger than it may be.
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
        given: UploadedFile[Any] | None = self.cleaned_data["file"]
        return given

    def need(self, data: dict[str, Any], kind: DecisionKind, name: str, words: str) -> None:
        """An answer of this kind takes a text in the field `name`."""
        if data.get("kind") == kind and not data.get(name, "").strip():
            self.add_error(name, words)

    def cited(self) -> dict[str, Any]:
        """The evidence as it is stored: a link, or a reference in words."""
        given: str = self.cleaned_data["evidence"]
        if not given:
            return {}
        return {"link": given} if safe_link(given) else {"text": given}


class OutcomeForm(DecisionForm):
    """Whether a call happened."""

    answers = OUTCOMES
    kind = forms.ChoiceField(
        choices=_choices(OUTCOMES), error_messages={"required": "Choose one of the three answers."}
    )
    result = _text("Result the agent will see", **{"class": "mono"})

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        landed = DecisionKind.CONFIRM_LANDED
        self.need(data, landed, "result", "The agent waits for a result: say what the call returned.")
        return data


class ApprovalForm(DecisionForm):
    """Whether a call may happen. `shown` is the fingerprint of the changed arguments whose change its sender has seen.

    Changed arguments are `written_as` JSON in one text, or with `fields`, one for each argument.
    """

    answers = APPROVALS
    self_explaining = frozenset({DecisionKind.REJECT, DecisionKind.RESPOND})
    kind = forms.ChoiceField(
        choices=_choices(APPROVALS), error_messages={"required": "Choose one of the four answers."}
    )
    written_as = forms.ChoiceField(choices=[("json", "json"), ("fields", "fields")], required=False)
    args = _text("Arguments")
    message = _text("Message to the agent")
    answer = _text("Answer to the agent")
    shown = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, call: ToolCall, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.call = call
        typed = {name: str(value) for name, value in self.data.items()}
        self.argument_fields = fields.argument_fields(call.args, typed)
        #: The arguments that an edit makes, as far as they can be read, and how they differ from what the model asked
        #: for.
        self.differences: tuple[change.Difference, ...] = ()
        self.changed: dict[str, Any] = {}
        self.digest = ""

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        reject, respond = DecisionKind.REJECT, DecisionKind.RESPOND
        self.need(data, reject, "message", "The agent gets a message instead of a result: say what it should know.")
        self.need(data, respond, "answer", "The agent waits for a result: say what it gets as the call's.")
        if data.get("kind") == DecisionKind.EDIT:
            self._read_change(data.get("args", ""), by_field=data.get("written_as") == "fields")
        return data

    def _read_change(self, text: str, *, by_field: bool) -> None:
        try:
            text = fields.composed(self.argument_fields) if by_field else text
            self.changed = change.written(text, self.call.args)
            digest = change.digest(self.changed)
            self.digest = fingerprint(digest)
            self.differences = change.differences(change.asked_for(self.call), self.changed)
        except change.Unreadable as error:
            self.add_error("args", str(error))
        except InvalidInput as error:
            self.add_error("args", error.detail)
        else:
            if digest == change.digest(wording.parsed(self.call.args)):
                self.add_error("args", "These are the arguments that the call has already: nothing would change.")

    @property
    def by_field(self) -> bool:
        """Whether its fields are what counts, rather than its JSON."""
        asked = self["written_as"].value() if self.is_bound else "fields"
        return asked == "fields" and bool(self.argument_fields)

    @property
    def typed_arguments(self) -> str:
        """What stands in it now, for who comes too late to send it."""
        if not self.by_field:
            return str(self["args"].value() or "")
        return "\n".join(f"{masked(field.name)}: {field.typed}" for field in self.argument_fields)

    @property
    def lines(self) -> int:
        """How many lines of arguments there are, within what is comfortable."""
        return min(max((self["args"].value() or "").count("\n") + 2, 4), 20)

    @property
    def unseen(self) -> bool:
        """Whether this is an edit whose change its sender has not looked at."""
        given: dict[str, Any] = self.cleaned_data
        return bool(given["kind"] == DecisionKind.EDIT and given["shown"] != self.digest)


def bound(data: QueryDict, call: ToolCall, files: MultiValueDict[str, Any] | None = None) -> OutcomeForm | ApprovalForm:
    """The form that was sent: that of its answer, else that of the question which is open."""
    kind = data.get("kind", "")
    asked = {answer.kind.value: answer for answer in (*OUTCOMES, *APPROVALS)}.get(kind)
    about_approval = call.status == CallStatus.AWAITING_APPROVAL if asked is None else asked in APPROVALS
    return ApprovalForm(data, files, call=call) if about_approval else OutcomeForm(data, files)
