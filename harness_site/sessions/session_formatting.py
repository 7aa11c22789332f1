"""Formatting of session statuses, amounts, roles and results for the session pages."""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus, DecisionKind, SideEffect
from checkpoints.formats import parse_json
from checkpoints.formats.parse_message_parts import Part, TextPart
from checkpoints.models import ToolCall
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.sessions.display_status import DisplayStatus
from harness_site.core import formatting, status_and_decision_labels
from harness_site.core.hidden_characters import escape_hidden_in_json, has_hidden_characters
from harness_site.core.masking.masker import get_masked_text_beginning, mask_secret_fields_only, mask_text
from harness_site.core.rendering.json_tree import dump_json_for_display, quote_ambiguous_text_except_amount
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import cut_text_to_preview, format_byte_size, get_byte_size
from harness_site.sessions.money_and_count_formatting import format_count
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.selectors.message_origin_versions_and_runs import RunFacts
from harness_site.sessions.selectors.waits_for_other_agents import PeerWaitSummary

_UUID: Final = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
#: Longer results are not parsed as JSON (characters).
_STRUCTURED = 200_000
#: Largest excerpt, in characters and in lines.
_EXCERPT = 800
_EXCERPT_LINES = 8

_ROLES: Final = {
    "user": ("user", _("User")),
    "human": ("user", _("User")),
    "assistant": ("agent", _("Agent")),
    "model": ("agent", _("Agent")),
    "ai": ("agent", _("Agent")),
    "system": ("system", _("System")),
    "developer": ("system", _("Developer")),
    "tool": ("tool", _("Tool")),
    "function": ("tool", _("Tool")),
}

_SHAPES: Final = {
    DisplayStatus.RUNNING: "run",
    DisplayStatus.STALLED: "wait",
    DisplayStatus.IDLE: "off",
    DisplayStatus.NEEDS_REVIEW: "unknown",
    DisplayStatus.QUARANTINED: "bad",
    DisplayStatus.READY: "run",
    DisplayStatus.PAUSED: "wait",
    DisplayStatus.COMPLETED: "ok",
    DisplayStatus.FAILED: "bad",
    DisplayStatus.CANCELLED: "off",
}


def get_session_status_shape_and_label(
    value: DisplayStatus | str,
    undecided: int,
    awaiting: int = 0,
    questions: int = 0,
    waiting: PeerWaitSummary | None = None,
    *,
    ended_without_result: bool = False,
) -> tuple[str, str]:
    """Return the chip shape and label of a session, such as “Paused — 1 call needs a decision”.

    A call that only awaits approval has not run, so its outcome is not shown as unknown.
    An unknown status is shown as it is stored.
    """
    if value is DisplayStatus.QUARANTINED:
        return _SHAPES[value], str(value.label)
    if ended_without_result:
        return _SHAPES[DisplayStatus.CANCELLED], gettext("Ended without a result")
    if waiting is not None:
        if waiting.ready:
            return "wait", gettext("Paused — all answers have arrived")
        return "wait", ngettext(
            "Paused — waiting for %(count)s answer", "Paused — waiting for %(count)s answers", waiting.open
        ) % {"count": format_count(waiting.open)}
    if value is DisplayStatus.NEEDS_REVIEW and undecided and questions == undecided:
        return "wait", ngettext(
            "Paused — %(count)s question awaits an answer", "Paused — %(count)s questions await an answer", undecided
        ) % {"count": undecided}
    if value is DisplayStatus.NEEDS_REVIEW and undecided and awaiting == undecided and not questions:
        return "wait", ngettext(
            "Paused — %(count)s call awaits approval", "Paused — %(count)s calls await approval", undecided
        ) % {"count": undecided}
    if value is DisplayStatus.NEEDS_REVIEW and undecided:
        return "wait" if awaiting == undecided else "unknown", ngettext(
            "Paused — %(count)s call needs a decision", "Paused — %(count)s calls need a decision", undecided
        ) % {"count": undecided}
    if isinstance(value, DisplayStatus):
        return _SHAPES[value], str(value.label)
    return "unknown", gettext("Unknown status: %(status)s") % {"status": mask_and_reveal_hidden(value)}


def get_call_record_shape_and_label(record: CallRecord) -> tuple[str, str]:
    """Return the chip shape and label of a call."""
    if record.is_imported and record.status == CallStatus.ISSUED:
        return "run", gettext("No result in the file yet")
    if record.is_left_running_by_ended_run:
        return "unknown", gettext("No sign of life")
    if record.is_copied_after_fork:
        return "off", _format_status_in_original(record)
    if record.is_failed_command and record.exit_code is not None:
        return "bad", format_exit_code(record.exit_code)
    return status_and_decision_labels.get_call_status_shape_and_label(
        record.status, is_question=record.is_question, final_kind=record.last_final_decision_kind
    )


def _format_status_in_original(record: CallRecord) -> str:
    """Format the status of a call that has not happened in the fork which has copied it."""
    if record.is_failed_command and record.exit_code is not None:
        return gettext("In the original: exit %(code)d") % {"code": record.exit_code}
    is_answered = record.is_question or record.last_final_decision_kind == DecisionKind.RESPOND
    return gettext("In the original: answered") if is_answered else gettext("In the original: completed")


def format_exit_code(code: int) -> str:
    return gettext("exit %(code)d") % {"code": code}


def get_call_card_shape_and_label(card: CallCard, is_running: object = False) -> tuple[str, str]:
    """Return the chip shape and label of a call, from the log or else from its result.

    Args:
        card: The call.
        is_running: Whether a process continues the session, which may still get the result of a call of its last turn.
    """
    if card.stored_result_use is not None:
        return "off", gettext("Not run again")
    if card.newest_attempt is not None:
        return get_call_record_shape_and_label(card.newest_attempt)
    if card.result is None:
        is_awaited = is_running and card.is_of_last_turn
        return ("run", gettext("No result yet")) if is_awaited else ("off", gettext("No result"))
    return ("bad", gettext("Failed")) if card.result.is_error else ("ok", gettext("Completed"))


def explain_origin_of_status(record: CallRecord) -> str:
    """Say in a few words where the status of a call comes from, to follow it; empty if there is nothing to add."""
    if record.has_result_of_original_only:
        return gettext("asked before the fork, the original saved the result after it")
    return explain_imported_call_without_result(record)


def explain_imported_call_without_result(record: CallRecord) -> str:
    """Say in a few words why a call was discarded, to follow its status; empty if there is nothing to add."""
    is_without_result = record.is_imported and record.status == CallStatus.DISCARDED
    return gettext("no result in the file") if is_without_result else ""


def list_call_status_choices() -> list[tuple[str, str]]:
    """List the statuses of calls with their labels, for a filter. Questions have the statuses of calls."""
    broader = {
        CallStatus.AWAITING_APPROVAL.value: gettext("Awaiting approval or answer"),
        CallStatus.COMPLETED.value: gettext("Completed or answered"),
        CallStatus.DISCARDED.value: gettext("Discarded or withdrawn"),
    }
    return [(value, broader.get(value, str(label))) for value, label in build_choices(CallStatus)]


def format_role_name(role: str) -> str:
    """Return the label of a message role; an unknown role is returned as it is, so that callers have to mask it."""
    return str(_ROLES.get(role.lower(), ("other", role or gettext("Message")))[1])


def get_role_css_kind(role: str) -> str:
    """Return the style class of a role, one of a closed set."""
    return _ROLES.get(role.lower(), ("other", ""))[0]


def mask_safe_link_or_return_empty(address: Any) -> str:
    """Return the masked address if it is safe to link to, else an empty string.

    Addresses with hidden characters or spaces are refused.
    """
    if not isinstance(address, str) or has_hidden_characters(address) or len(address.split()) != 1:
        return ""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    return mask_text(address) if parts.scheme in {"http", "https"} and parts.netloc else ""


def format_side_effect(name: str) -> str:
    """Return the label of a tool's side effect; an unknown one is returned as given."""
    return {"read": gettext("reads"), "write": gettext("writes"), "mutate": gettext("mutates")}.get(name, name)


def format_side_effects(call: ToolCall) -> str:
    """Return the labels of the side effects of a call, separated by commas."""
    return ", ".join(format_side_effect(name) for name in call.side_effects.split(","))


def describe_side_effects(call: ToolCall | CallRecord) -> str:
    """Describe what a call does to the world outside its session, in words for people who do not know its tool."""
    effects = call.side_effects.split(",") if isinstance(call, ToolCall) else call.side_effects
    if SideEffect.MUTATE in effects:
        return gettext("changes or deletes something outside of the session")
    if SideEffect.WRITE in effects:
        return gettext("writes something new")
    return gettext("only reads") if set(effects) == {SideEffect.READ} else ", ".join(map(format_side_effect, effects))


def format_number_of_times(number: int) -> str:
    if number in {1, 2}:
        return gettext("once") if number == 1 else gettext("twice")
    return ngettext("%(count)s time", "%(count)s times", number) % {"count": format_count(number)}


def format_time_between_runs(before: RunFacts, after: RunFacts) -> str:
    """Format the time during which no run owned the session; empty if only the takeover revealed that the run was
    lost."""
    seconds = (after.started_at - (before.ended_at or before.seen_at)).total_seconds()
    return formatting.format_duration(seconds) if seconds >= 1 else ""


def shorten_uuids(session_id: str) -> str:
    """Shorten each UUID in an id to its first group: `0ccf1a04…/agent-a5bdbc1`."""
    return _UUID.sub(r"\1…", session_id)


def parse_json_container(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or list in a text; None if the text is neither."""
    if len(text) > _STRUCTURED or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) and value else None


def mask_fields_and_format_value_as_inline_text(value: Any) -> str:
    """Format a JSON value on one line, without the braces of an object and most quotes: `order 17, to ann`.

    The values of secret fields are masked. The caller masks the part of the text that it displays.
    """
    value = mask_secret_fields_only(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_format_inline_value(inner)}" for key, inner in value.items())
    return "" if value is None else _format_inline_value(value)


def _format_inline_value(value: Any) -> str:
    if isinstance(value, str):
        return escape_hidden_in_json(" ".join(quote_ambiguous_text_except_amount(value).split()))
    return dump_json_for_display(value)


def get_call_result_parts(card: CallCard) -> tuple[Part, ...]:
    """Return the result of a call as the model received it, else as the log has it.

    Of a refusal that gave the model a stored result, return only that.
    """
    if card.stored_result_behind_refusal is not None:
        return (TextPart(card.stored_result_behind_refusal),)
    if card.result is not None:
        return card.result.parts
    if card.newest_attempt is None or card.newest_attempt.result is None:
        return ()
    return (TextPart(card.newest_attempt.result),)


def mask_and_format_text_beginning(content: str, *, lines: int = _EXCERPT_LINES) -> str:
    """Return the beginning of a text that is long or has more than `lines` lines, and the size of the rest."""
    beginning = cut_text_to_preview(content, _EXCERPT, lines)
    if beginning.whole:
        return mask_text(content)
    masked_beginning = get_masked_text_beginning(content, len(beginning.text))
    size = format_byte_size(beginning.size - get_byte_size(beginning.text))
    return gettext("%(text)s … %(size)s more") % {"text": masked_beginning, "size": size}
