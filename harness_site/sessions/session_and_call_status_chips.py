"""Status chips of sessions and calls: the shape and the label of each."""

from typing import Final

from django.utils.translation import gettext, ngettext

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.sessions.display_status import DisplayStatus
from harness_site.core import status_and_decision_labels
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.sessions.money_and_count_formatting import format_count
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.conversation_window import CallCard
from harness_site.sessions.selectors.waits_for_other_agents import PeerWaitSummary

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
