"""Options among which the agent's question lets people choose."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.enums import DecisionKind
from checkpoints.models import Decision, ToolCall
from harness_site.core import masked_formatting
from harness_site.core.masking.masker import mask_json_value
from harness_site.core.rendering.safe_display_text import reveal_hidden_characters

_LIST_NAMES: Final = ("options", "choices")
#: Names of a JSON schema of the answer in the value of a question.
_SCHEMA_NAMES: Final = ("schema", "response_schema", "answer_schema")
#: Maximum number of options, and of characters of their texts; longer ones are not offered, only shown as arguments.
_MAX_OPTIONS: Final = 100
_LONGEST: Final = 500


class AnswerType(StrEnum):
    """Type of the value that a question asks for."""

    TEXT = "text"
    BOOLEAN = "boolean"


#: Words for the types of an answer, as JSON schemas and programs have them.
_ANSWER_TYPES: Final = {
    "text": AnswerType.TEXT,
    "string": AnswerType.TEXT,
    "str": AnswerType.TEXT,
    "boolean": AnswerType.BOOLEAN,
    "bool": AnswerType.BOOLEAN,
}


@dataclass(frozen=True, slots=True)
class QuestionChoice:
    """Option of a question. `number` is its place in the stored list, from 1; forms send it rather than a text.

    `answer` is what the agent gets and `stored_label` its label, as they are stored; the other texts are masked for the
    reader.
    """

    number: int
    answer: str
    stored_label: str
    label: str
    description: str
    masked_answer: str

    @property
    def form_value(self) -> str:
        """The value of the form field that stands for this option."""
        return f"option-{self.number}"


def list_question_choices(call: ToolCall) -> tuple[QuestionChoice, ...]:
    """List the options of a question, each once, with the texts that the current reader may see.

    The result is empty for a call that is no question, and if any option is not a short text: an answer is always a
    text.
    """
    if not call.is_question:
        return ()
    args = masked_formatting.parse_json_or_text(call.args)
    stored_items, masked_items = _get_option_list_or_empty(args), _get_option_list_or_empty(mask_json_value(args))
    if not stored_items or len(stored_items) > _MAX_OPTIONS or len(stored_items) != len(masked_items):
        return ()
    stored_texts, masked_texts = (
        [_parse_answer_label_and_description(item) for item in items] for items in (stored_items, masked_items)
    )
    choices: dict[tuple[str, str, str], QuestionChoice] = {}
    for number, (stored, masked) in enumerate(zip(stored_texts, masked_texts, strict=True), 1):
        if stored is None or masked is None:
            return ()
        answer, label, description = (reveal_hidden_characters(text) for text in masked)
        choices.setdefault(stored, QuestionChoice(number, *stored[:2], label, description, answer))
    return tuple(choices.values())


def find_requested_answer_type(call: ToolCall) -> AnswerType | None:
    """Return the type of the answer that the value of a question asks for, by its `type` or by a JSON schema; None if
    it has neither."""
    args = masked_formatting.parse_json_or_text(call.args) if call.is_question else None
    value = args.get("value") if isinstance(args, dict) else None
    if not isinstance(value, dict):
        return None
    schemas = [value, *(value[name] for name in _SCHEMA_NAMES if isinstance(value.get(name), dict))]
    names = [schema["type"].lower() for schema in schemas if isinstance(schema.get("type"), str)]
    return next((_ANSWER_TYPES[name] for name in names if name in _ANSWER_TYPES), None)


def remove_requested_answer_type(value: Any) -> Any:
    """Remove the type of the answer from the value of a question: the answers that the page offers show it."""
    if not isinstance(value, dict) or str(value.get("type")).lower() not in _ANSWER_TYPES:
        return value
    return {name: part for name, part in value.items() if name != "type"}


def is_question_text_alone(call: ToolCall) -> bool:
    """Return whether the value of a question is nothing but its text and its options, so that there is no value to
    correct."""
    args = masked_formatting.parse_json_or_text(call.args_json_in_caller_order) if call.is_question else None
    if not isinstance(args, dict) or args.keys() != {"value"}:
        return False
    value = args["value"]
    return not get_question_parts_to_edit(call) if isinstance(value, dict) else value == call.sentence


def find_question_choice_of_decision(call: ToolCall, decision: Decision | None) -> QuestionChoice | None:
    """Return the option of a question that a decision has chosen; None for any other answer."""
    if decision is None or decision.kind != DecisionKind.RESPOND:
        return None
    return next((choice for choice in list_question_choices(call) if choice.answer == decision.result_text), None)


def remove_listed_choices(call: ToolCall, value: Any) -> Any:
    """Remove the list of options from the value of a question, if `list_question_choices` lists them."""
    if not isinstance(value, dict) or not list_question_choices(call):
        return value
    listed = _get_option_list_name(value)
    return {name: part for name, part in value.items() if name != listed}


def get_question_parts_to_edit(call: ToolCall) -> dict[str, Any]:
    """Return the parts of the value of a question beside its text and its options, in the order of the caller.

    The result is empty for a call that is no question, and for a value without parts.
    """
    args = masked_formatting.parse_json_or_text(call.args_json_in_caller_order) if call.is_question else None
    value = args["value"] if isinstance(args, dict) and args.keys() == {"value"} else None
    if not isinstance(value, dict):
        return {}
    return {name: part for name, part in remove_listed_choices(call, value).items() if part != call.sentence}


def replace_question_options_by_their_texts(call: ToolCall, value: Any, chosen: QuestionChoice | None) -> Any:
    """Replace each option in the value of a question by its texts, if `list_question_choices` lists them.

    The text of the `chosen` option says that it was chosen.
    """
    choices = list_question_choices(call)
    if not isinstance(value, dict) or not choices:
        return value
    texts = [_format_choice(choice, is_chosen=choice == chosen) for choice in choices]
    return {**value, _get_option_list_name(value): texts}


def _format_choice(choice: QuestionChoice, *, is_chosen: bool) -> str:
    text = f"{choice.label} ({choice.description})" if choice.description else choice.label
    return _("%(option)s — chosen") % {"option": text} if is_chosen else text


def _get_option_list_name(value: dict[str, Any]) -> str:
    return next(name for name in _LIST_NAMES if isinstance(value.get(name), list))


def _get_option_list_or_empty(args: Any) -> list[Any]:
    """Return the list of options in the arguments of a question; empty without one."""
    value = args.get("value") if isinstance(args, dict) else None
    if not isinstance(value, dict):
        return []
    return next((value[name] for name in _LIST_NAMES if isinstance(value.get(name), list)), [])


def _parse_answer_label_and_description(item: Any) -> tuple[str, str, str] | None:
    """Return the answer, the label and the description of an option; None if it has no short texts."""
    if not isinstance(item, dict):
        texts = (item, item, "")
    else:
        label = item.get("label", item.get("value"))
        texts = (item.get("value", label), label, item.get("description") or "")
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts) or not texts[0].strip():
        return None
    return texts if texts[1].strip() else None
