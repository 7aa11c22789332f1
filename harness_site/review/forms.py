from __future__ import annotations

import json
from collections.abc import Sequence, Set
from typing import Any, Final

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.template.defaultfilters import filesizeformat
from django.utils.datastructures import MultiValueDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from checkpoints.calls.sentence_templates import format_sentence_if_harmless
from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.exceptions import InvalidInput
from checkpoints.models import ToolCall
from harness_site.core import masked_formatting
from harness_site.core.call_sentences import build_masked_call_sentence
from harness_site.core.masked_json_value_differences import ValueDifference, list_value_differences
from harness_site.core.masking.masker import mask_json_value, mask_text
from harness_site.core.masking.replace_digests_by_fingerprints import compute_keyed_fingerprint_of_digest
from harness_site.core.rendering.safe_display_text import mask_safe_link_or_return_empty
from harness_site.review import argument_edit_parsing_and_originals, argument_form_fields
from harness_site.review.argument_field_paths import RowState
from harness_site.review.argument_form_fields import ArgumentField
from harness_site.review.decision_options import APPROVALS, OUTCOMES, AnswerOption
from harness_site.review.edited_argument_warnings import ArgumentWarning, list_argument_warnings
from harness_site.review.nested_argument_form_groups import ArgumentGroup, group_argument_fields
from harness_site.review.question_choices import (
    QuestionChoice,
    get_question_parts_to_edit,
    list_question_choices,
)
from harness_site.review.selectors.mentions_in_comments import list_unknown_mentions

#: Arguments of more fields are edited in a wide column.
_MANY_FIELDS: Final = 5
#: Highest number of changes that are listed beside the button without a click, and of characters of them.
_FEW_CHANGES: Final = 1
_FEW_CHARACTERS: Final = 160
#: How many lines have room beside the reason, in a wide column, and how many characters each of them.
_LINES_BESIDE_REASON: Final = 5
_CHARACTERS_OF_LINE: Final = 30
_REASON_MISSING: Final = gettext_lazy("Enter a reason. It is recorded with your name.")


def build_answer_choices(answers: tuple[AnswerOption, ...]) -> list[tuple[str, str | Promise]]:
    return [(answer.kind.value, answer.name) for answer in answers]


def _build_text_field(label: Any, **attrs: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 2, **attrs})
    return forms.CharField(required=False, strip=False, label=label, widget=widget)


def build_evidence_from_text(evidence: str) -> dict[str, Any]:
    """Build the evidence to store from the typed text: a link, or a text; empty without any."""
    if not evidence:
        return {}
    return {"link": evidence} if mask_safe_link_or_return_empty(evidence) else {"text": evidence}


class DecisionForm(forms.Form):
    """A person's answer about one call, bound to the revision they saw."""

    kind: forms.Field
    reason = forms.CharField(
        required=False,
        label=gettext_lazy("Reason"),
        max_length=4000,
        # By the placeholder, styles know an empty field. What scripts say before the form is sent is in `data-missing`.
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": " ", "data-missing": _REASON_MISSING}),
    )
    evidence = forms.CharField(
        required=False,
        label=gettext_lazy("Evidence"),
        max_length=2000,
        widget=forms.TextInput(attrs={"class": "input"}),
    )
    file = forms.FileField(required=False, label=gettext_lazy("File"))
    revision = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    #: Possible answers, and those that need no reason: the agent gets a text, or they answer its question.
    answers: tuple[AnswerOption, ...] = ()
    self_explaining = frozenset[DecisionKind]()
    #: True if an uploaded file exceeded the size limit.
    too_large = False
    #: Fields in the order in which the page shows them.
    shown_order = ("kind", "result", "args", "message", "answer", "reason", "evidence", "file")

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or {}
        # Without an answer, it is not known yet whether a reason is needed.
        needs_reason = data["kind"] not in self.self_explaining if data.get("kind") else not self.self_explaining
        if needs_reason and not data.get("reason") and "reason" not in self.errors:
            self.add_error("reason", str(_REASON_MISSING))
        return data

    def clean_file(self) -> UploadedFile[Any] | None:
        if self.too_large:
            limit = filesizeformat(settings.EVIDENCE_BYTES).replace("\xa0", " ")
            raise forms.ValidationError(
                _("The file is larger than {limit}. Nothing was recorded. Link to the file instead.").format(
                    limit=limit
                )
            )
        file: UploadedFile[Any] | None = self.cleaned_data["file"]
        return file

    def add_error_if_text_missing(self, data: dict[str, Any], kind: DecisionKind, name: str, words: str) -> None:
        """Add an error if an answer of this kind has no text in the field `name`."""
        if data.get("kind") == kind and not data.get(name, "").strip():
            self.add_error(name, words)

    @property
    def first_invalid_field_name(self) -> str:
        """Name of the first field on the page that has an error; empty without one."""
        if not self.is_bound:
            return ""
        return next((name for name in self.shown_order if name in self.errors), "")

    def focus_first_invalid_field(self) -> None:
        """Let the browser focus the first invalid field when it loads the page.

        Templates that write a field themselves ask `first_invalid_field_name`.
        """
        if self.first_invalid_field_name in self.fields.keys() - {"kind"}:
            self.fields[self.first_invalid_field_name].widget.attrs["autofocus"] = True

    def build_evidence(self) -> dict[str, Any]:
        """Build the evidence to store."""
        return build_evidence_from_text(self.cleaned_data["evidence"])


class OutcomeForm(DecisionForm):
    """Answer to the question whether an interrupted call happened."""

    answers = OUTCOMES
    kind = forms.ChoiceField(
        choices=build_answer_choices(OUTCOMES), error_messages={"required": gettext_lazy("Choose an answer.")}
    )
    #: Without a result, the agent is told that the call happened and that its result is not known.
    result = _build_text_field(gettext_lazy("Result for the agent"), **{"class": "mono"})


class ApprovalForm(DecisionForm):
    """Answer to the question whether a call may run.

    `shown` is the fingerprint of the changed arguments whose difference the sender has seen. Changed arguments are
    `written_as` JSON in one text, or with `fields`, one field for each argument.
    """

    answers = APPROVALS
    self_explaining = frozenset({DecisionKind.REJECT, DecisionKind.RESPOND})
    kind = forms.ChoiceField(
        choices=build_answer_choices(APPROVALS), error_messages={"required": gettext_lazy("Choose an answer.")}
    )
    written_as = forms.ChoiceField(choices=[("json", "json"), ("fields", "fields")], required=False)
    args = _build_text_field(gettext_lazy("Arguments"))
    message = _build_text_field(gettext_lazy("Why"), placeholder=" ")  # as that of the reason
    answer = _build_text_field(gettext_lazy("Answer to the agent"))
    shown = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, call: ToolCall, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.call = call
        self.choices_of_question = {choice.form_value: choice for choice in list_question_choices(call)}
        #: The chosen option of a question, if the sender has chosen one.
        self.choice: QuestionChoice | None = None
        self.fields["answer"].widget.attrs["data-missing"] = self._answer_missing_error
        if not call.is_question:
            self.fields["message"].widget.attrs["data-missing"] = self._message_missing_error
        if call.is_question:
            self.self_explaining = frozenset({DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.RESPOND})
            kind = self.fields["kind"]
            assert isinstance(kind, forms.ChoiceField)  # noqa: S101 - declared above
            kind.choices = [*build_answer_choices(APPROVALS), *((name, name) for name in self.choices_of_question)]
            kind.error_messages["invalid_choice"] = _("This option is not offered any more. Choose another answer.")
        with_reason = [answer.kind.value for answer in self.answers if answer.kind not in self.self_explaining]
        self.fields["reason"].widget.attrs["data-missing-for"] = " ".join(with_reason)
        typed = {name: str(value) for name, value in self.data.items()}
        #: Parts of the value of a question that are edited by themselves; empty if the fields are all arguments.
        self.question_parts = get_question_parts_to_edit(call)
        self.argument_fields = argument_form_fields.build_argument_fields(self._get_stored_json_of_fields(), typed)
        #: Parsed edited arguments, and their differences to the current ones, and to those that the agent asked for.
        self.changed: dict[str, Any] = {}
        self.differences: tuple[ValueDifference, ...] = ()
        self.differences_from_original: tuple[ValueDifference, ...] = ()
        #: What is unusual about the edited arguments.
        self.argument_warnings: tuple[ArgumentWarning, ...] = ()
        self.digest = ""
        #: Whether the sender wanted to record and approve the edit at once, although it has warnings.
        self.is_approval_of_warned_change_refused = False
        #: Whether an edit leaves all arguments as they are.
        self.is_unchanged = False
        #: In how many arguments the sender has typed another value than the call has, with an answer other than Edit.
        self.unrecorded_change_count = 0

    @property
    def _answer_missing_error(self) -> str:
        """Error of an empty answer, which scripts show before the form is sent."""
        if self.call.is_question:
            return _("Enter an answer. The agent gets it.")
        return _("Enter an answer. The agent gets it as the result of the call.")

    @property
    def _message_missing_error(self) -> str:
        return _("Enter why. The agent is told.")

    def _get_stored_json_of_fields(self) -> str:
        """Return the stored arguments of which each has a field, as JSON text."""
        parts = self.question_parts
        return json.dumps(parts, ensure_ascii=False) if parts else self.call.args_json_in_caller_order

    def _compose_typed_json_of_fields(self) -> str:
        arguments = argument_form_fields.compose_arguments(self.argument_fields, self._get_stored_json_of_fields())
        if self.question_parts:
            value = mask_json_value(masked_formatting.parse_json_or_text(self.call.args))["value"]
            arguments = {"value": {**value, **arguments}}
        return json.dumps(arguments, ensure_ascii=False)

    def clean_kind(self) -> str:
        """Return the kind of the decision, which an option of a question stands for, too."""
        self.choice = self.choices_of_question.get(self.cleaned_data["kind"])
        return str(self.cleaned_data["kind"]) if self.choice is None else DecisionKind.RESPOND.value

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if self.choice is None:
            self.add_error_if_text_missing(data, DecisionKind.RESPOND, "answer", self._answer_missing_error)
        if not self.call.is_question:
            self.add_error_if_text_missing(data, DecisionKind.REJECT, "message", self._message_missing_error)
        if data.get("kind") == DecisionKind.EDIT:
            self._validate_and_set_changed_arguments(data.get("args", ""), by_field=data.get("written_as") == "fields")
        else:
            self._count_and_refuse_unrecorded_changes(data)
        return data

    def _count_and_refuse_unrecorded_changes(self, data: dict[str, Any]) -> None:
        """Count the changes that no edit has recorded. An approval with some is refused: it would drop them.

        The arguments in a form from before an edit are not compared: it is refused anyway.
        """
        if self.call.status != CallStatus.AWAITING_APPROVAL or not self._were_arguments_unedited_since_seen_revision(
            data.get("revision")
        ):
            return
        self.unrecorded_change_count = self._count_changed_fields() + self._count_arguments_changed_in_json(
            data.get("args", "")
        )
        if self.unrecorded_change_count and data.get("kind") == DecisionKind.APPROVE:
            self.add_error(
                None,
                forms.ValidationError(
                    _("The arguments have changes that are not recorded. Record or discard them before you approve."),
                    code="unrecorded_changes",
                ),
            )

    def _were_arguments_unedited_since_seen_revision(self, revision: int | None) -> bool:
        """Return whether nobody has edited the arguments since this revision of the call."""
        if revision is None or revision >= self.call.revision:
            return revision == self.call.revision
        return not self.call.decisions.filter(kind=DecisionKind.EDIT, revision__gte=revision).exists()

    def _validate_and_set_changed_arguments(self, text: str, *, by_field: bool) -> None:
        if self._are_both_fields_and_json_changed(text):
            self.add_error("args", _("The fields and the JSON both have changes. Undo those of one of them."))
            return
        if by_field:
            self.argument_fields = argument_form_fields.copy_fields_with_errors(
                self.argument_fields, self._get_stored_json_of_fields()
            )
            for field in self.invalid_argument_fields:
                self.add_error("args", f"{mask_text(field.name)}: {field.error}")
            if self.invalid_argument_fields:
                self._list_differences_of_valid_fields()
                return
        try:
            text = self._compose_typed_json_of_fields() if by_field else text
            self.changed = argument_edit_parsing_and_originals.parse_and_unmask_edited_arguments(text, self.call.args)
            digest = argument_edit_parsing_and_originals.compute_arguments_digest(self.changed)
            self.digest = compute_keyed_fingerprint_of_digest(digest)
            original = argument_edit_parsing_and_originals.load_arguments_before_edits(self.call)
            current = masked_formatting.parse_json_or_text(self.call.args_json_in_caller_order)
            self.differences = list_value_differences(current, self.changed, as_stored=True)
            self.differences_from_original = list_value_differences(original, self.changed, as_stored=True)
            self.argument_warnings = list_argument_warnings(original, self.changed)
        except argument_edit_parsing_and_originals.InvalidArgumentText as error:
            self.add_error("args", str(error))
        except InvalidInput as error:
            self.add_error("args", error.detail)
        else:
            if digest == argument_edit_parsing_and_originals.compute_arguments_digest(
                masked_formatting.parse_json_or_text(self.call.args)
            ):
                self.is_unchanged = True
                self.add_error("args", _("Change at least one argument. These are the current ones."))
            elif by_field:
                self.argument_fields = argument_form_fields.copy_fields_with_warnings(
                    self.argument_fields, self.argument_warnings, ("value",) if self.question_parts else ()
                )

    def _are_both_fields_and_json_changed(self, text: str) -> bool:
        """Return whether both fields and JSON were changed, so that one would be lost, as only without JavaScript."""
        return self._count_arguments_changed_in_json(text) > 0 and self._count_changed_fields() > 0

    def _count_changed_fields(self) -> int:
        return sum(field.change_count for field in self.argument_fields)

    def _count_arguments_changed_in_json(self, text: str) -> int:
        """Return in how many arguments the typed JSON differs from the call; 1 for a text that has no arguments."""
        stored, typed = map(masked_formatting.parse_json_or_text, (self.stored_arguments_text, text))
        if not text or json.dumps(typed, sort_keys=True) == json.dumps(stored, sort_keys=True):
            return 0
        if not isinstance(typed, dict) or not isinstance(stored, dict):
            return 1
        written = [{name: json.dumps(args[name], sort_keys=True) for name in args} for args in (stored, typed)]
        return sum(written[0].get(name) != written[1].get(name) for name in stored.keys() | typed.keys())

    def _list_differences_of_valid_fields(self) -> None:
        stored = self._get_stored_json_of_fields()
        changed = argument_form_fields.compose_arguments(self.argument_fields, stored, is_invalid_kept=True)
        self.differences = list_value_differences(masked_formatting.parse_json_or_text(stored), changed, as_stored=True)

    @property
    def grouped_argument_fields(self) -> tuple[ArgumentField | ArgumentGroup, ...]:
        """The fields of the arguments, grouped by the objects and lists that they belong to."""
        return group_argument_fields(self.argument_fields)

    @property
    def invalid_argument_fields(self) -> list[ArgumentField]:
        return [field for field in self.argument_fields if field.error]

    @property
    def warned_argument_fields(self) -> list[ArgumentField]:
        return [field for field in self.argument_fields if field.is_warned_about]

    @property
    def first_invalid_field_name(self) -> str:
        """Name of the first field on the page that has an error; empty without one."""
        name = super().first_invalid_field_name
        return self.invalid_argument_fields[0].key if name == "args" and self.invalid_argument_fields else name

    @property
    def only_warned_sum(self) -> ArgumentField | None:
        """The field whose warning is the only one, if that names another sum of rows which the field can take."""
        if len(self.argument_warnings) != 1 or not self.is_edited_in_fields_instead_of_json:
            return None
        return next((field for field in self.argument_fields if field.row_sum), None)

    @property
    def needs_wide_column(self) -> bool:
        """True if the fields need a wide column: because one is a long text or in a list, or because they are many."""
        is_many = len(self.argument_fields) > _MANY_FIELDS
        return is_many or any(field.needs_tall_text_area or field.kind == "rows" for field in self.argument_fields)

    @property
    def is_change_list_short(self) -> bool:
        """True if the list of changes has room beside the button."""
        texts = [text for each in self.differences for text in (each.path, *(piece.text for piece in each.pieces))]
        is_few = len(self.differences) <= _FEW_CHANGES and sum(map(len, texts)) <= _FEW_CHARACTERS
        return is_few or self._is_change_list_beside_reason_short()

    def _is_change_list_beside_reason_short(self) -> bool:
        """Return whether all changes have room beside the reason in a wide column, each in a line of its own."""
        if not self.needs_wide_column or self.argument_warnings or self.invalid_argument_fields:
            return False
        lines = [each.path + "".join(piece.text for piece in each.pieces) for each in self.differences]
        if any(len(line) > _CHARACTERS_OF_LINE or "\n" in line for line in lines):
            return False
        lines_of_head = 1 + len(self.sentence_after_change) // _CHARACTERS_OF_LINE
        return lines_of_head + len(lines) <= _LINES_BESIDE_REASON

    @property
    def is_edited_in_fields_instead_of_json(self) -> bool:
        """True if the fields count rather than the JSON text."""
        mode = self["written_as"].value() if self.is_bound else "fields"
        return mode == "fields" and bool(self.argument_fields)

    @property
    def stored_arguments_text(self) -> str:
        """The arguments of the call as masked JSON, before any typing; empty if they cannot be edited."""
        return (
            argument_edit_parsing_and_originals.format_masked_arguments_if_editable(self.call.args_json_in_caller_order)
            or ""
        )

    @property
    def sentence_after_change(self) -> str:
        """What the call does with the changed arguments, in the words of its tool; empty if this has none."""
        sentence = format_sentence_if_harmless(self.call.sentence_template, self.changed)
        return build_masked_call_sentence(self.call.tool, sentence, self.changed) if sentence else ""

    @property
    def typed_arguments_text(self) -> str:
        """The arguments as typed, for a reviewer whose form came too late."""
        if not self.is_edited_in_fields_instead_of_json:
            return str(self["args"].value() or "")
        return "\n".join(
            f"{mask_text(field.name)}: {field.typed}"
            for field in self.argument_fields
            if field.kind != "rows" and field.place.row_state != RowState.REMOVED
        )

    @property
    def text_area_line_count(self) -> int:
        """Height of the text area in lines, from 4 to 20."""
        return min(max((self["args"].value() or "").count("\n") + 2, 4), 20)

    def has_same_arguments_as(self, call: ToolCall) -> bool:
        """Return whether the arguments of a call, which was loaded after the edit, are those of this edit."""
        stored = masked_formatting.parse_json_or_text(call.args)
        return bool(
            argument_edit_parsing_and_originals.compute_arguments_digest(stored)
            == argument_edit_parsing_and_originals.compute_arguments_digest(self.changed)
        )

    @property
    def is_edit_not_yet_previewed(self) -> bool:
        """True if this is an edit whose difference the sender has not seen."""
        data: dict[str, Any] = self.cleaned_data
        return bool(data["kind"] == DecisionKind.EDIT and data["shown"] != self.digest)


def build_bound_decision_form(
    data: QueryDict, call: ToolCall, files: MultiValueDict[str, Any] | None = None
) -> OutcomeForm | ApprovalForm:
    """Bind the submitted data to the form of its answer, or to the form of the pending question."""
    kind = data.get("kind", "")
    option = {answer.kind.value: answer for answer in (*OUTCOMES, *APPROVALS)}.get(kind)
    about_approval = call.status == CallStatus.AWAITING_APPROVAL if option is None else option in APPROVALS
    about_approval = about_approval or call.is_question
    return ApprovalForm(data, files, call=call) if about_approval else OutcomeForm(data, files)


def discard_typed_arguments(data: QueryDict, call: ToolCall) -> None:
    """Remove the arguments that were typed from submitted data: its form has those of the call again."""
    for name in [name for name in data if name.startswith("argument-") or name in {"shown", "written_as"}]:
        del data[name]
    stored = argument_edit_parsing_and_originals.format_masked_arguments_if_editable(call.args_json_in_caller_order)
    data["args"] = stored or ""
    data["written_as"] = "fields"


def keep_only_changed_arguments(data: QueryDict, call: ToolCall, before: str) -> None:
    """Remove the arguments from submitted data that their sender has left as they were `before` the call changed.

    The form then has the current ones in their place, so that they do not look like changes that the sender has typed.
    """
    sent = data.copy()
    text = sent.get("args", "")
    is_text_changed = masked_formatting.parse_json_or_text(text) != masked_formatting.parse_json_or_text(
        argument_edit_parsing_and_originals.format_masked_arguments_if_editable(before) or ""
    )
    earlier_fields = argument_form_fields.build_argument_fields(before, {name: str(sent[name]) for name in sent})
    changed = {(field.kind == "rows", field.place.path): field.typed for field in earlier_fields if field.is_changed}
    discard_typed_arguments(data, call)
    for _pass in range(2):  # rows that were added have fields as soon as their numbers are known
        typed = {name: str(data[name]) for name in data}
        for field in argument_form_fields.build_argument_fields(call.args_json_in_caller_order, typed):
            if (place := (field.kind == "rows", field.place.path)) in changed:
                data[field.key] = changed[place]
    data["written_as"] = sent.get("written_as", "")
    if text and is_text_changed:
        data["args"] = text


class CommentForm(forms.Form):
    """Comment about a call.

    A mention of nobody among `member_names` is refused once: `accepted` has those about which its author was told.
    """

    text = forms.CharField(
        label=gettext_lazy("Comment"),
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": gettext_lazy("Enter a comment.")},
    )

    def __init__(self, *args: Any, member_names: Set[str] = frozenset(), **kwargs: Any) -> None:
        kwargs["auto_id"] = "id_comment-%s"
        super().__init__(*args, **kwargs)
        self.member_names = member_names
        #: Mentions of nobody that the text has.
        self.unknown_mentions: list[str] = []

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        self.unknown_mentions = list_unknown_mentions(text, self.member_names)
        if set(self.unknown_mentions) - set(self.data.get("accepted", "").split()):
            problem = ngettext(
                "No member of this workspace has the name {names}. Nothing was recorded. Correct the name, or add the "
                "comment again to record it as it is.",
                "No members of this workspace have the names {names}. Nothing was recorded. Correct the names, or add "
                "the comment again to record it as it is.",
                len(self.unknown_mentions),
            )
            raise forms.ValidationError(problem.format(names=", ".join(self.unknown_mentions)))
        return text


class HandOverForm(forms.Form):
    """Colleague to hand a call over to, with a note for them. The only colleague is chosen already.

    As in a comment, a mention of nobody among `member_names` is refused once.
    """

    to = forms.ChoiceField(
        label=gettext_lazy("Hand over to"),
        widget=forms.Select(attrs={"class": "input"}),
        error_messages={
            "required": gettext_lazy("Choose who gets the call."),
            "invalid_choice": gettext_lazy("This person cannot decide about the call. Choose somebody else."),
        },
    )
    note = forms.CharField(
        required=False,
        label=gettext_lazy("Note"),
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(
        self, *args: Any, colleagues: Sequence[str], member_names: Set[str] = frozenset(), **kwargs: Any
    ) -> None:
        kwargs["auto_id"] = "id_hand-over-%s"
        super().__init__(*args, **kwargs)
        self.colleagues = colleagues
        self.member_names = member_names
        #: Mentions of nobody that the note has.
        self.unknown_mentions: list[str] = []
        field = self.fields["to"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        names = [(name, name) for name in colleagues]
        field.choices = names if len(names) == 1 else [("", _("Choose a person")), *names]

    def clean_note(self) -> str:
        note: str = self.cleaned_data["note"]
        self.unknown_mentions = list_unknown_mentions(note, self.member_names)
        if set(self.unknown_mentions) - set(self.data.get("accepted", "").split()):
            problem = ngettext(
                "No member of this workspace has the name {names}. Nothing was recorded. Correct the name, or hand the "
                "call over again to record the note as it is.",
                "No members of this workspace have the names {names}. Nothing was recorded. Correct the names, or hand "
                "the call over again to record the note as it is.",
                len(self.unknown_mentions),
            )
            raise forms.ValidationError(problem.format(names=", ".join(self.unknown_mentions)))
        return note


class BulkWithdrawForm(forms.Form):
    """Reason to withdraw the decisions of a bulk decision."""

    reason = forms.CharField(
        max_length=4000,
        error_messages={"required": gettext_lazy("Enter a reason. It is recorded with your name for each call.")},
    )


class RestoreForm(forms.Form):
    """Reason to restore the arguments that the agent asked for, bound to the revision that the person saw."""

    reason = forms.CharField(max_length=4000, error_messages={"required": _REASON_MISSING})
    revision = forms.IntegerField(min_value=1)


class WithdrawForm(forms.Form):
    """Reason to withdraw a decision, bound to the revision that the person saw."""

    reason = forms.CharField(max_length=4000, error_messages={"required": _REASON_MISSING})
    revision = forms.IntegerField(min_value=1)
