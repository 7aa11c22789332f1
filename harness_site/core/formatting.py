"""Formatting of statuses, times, sizes and descriptions of calls."""

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from checkpoints.enums import (
    CallStatus,
    DecisionKind,
    InterruptReason,
    JoinStatus,
    KeyPolicy,
    KeyScope,
    PauseStatus,
    PeerCallStatus,
    Phase,
    RunStatus,
    SessionStatus,
)
from checkpoints.formats import parse_json, parse_or_text
from checkpoints.models import ToolCall
from harness_site.core.masking.known_values import has_short_value
from harness_site.core.masking.masker import collect_secret_values, mask_json_value, mask_secret_values_of, mask_text
from harness_site.core.rendering.display_text import mask_and_reveal_hidden
from harness_site.core.rendering.json_tree import dump_masked_json

logger = logging.getLogger(__name__)

#: Definition of equal operations by the key policy of the tool. `{place}` is the scope.
SAME_OPERATION: Final[dict[str, str]] = {
    KeyPolicy.ONCE: "The same tool with the same arguments runs once in this {place}; then it gets this result.",
    KeyPolicy.UNANSWERED: (
        "The same tool with the same arguments is this operation until a saved version has its result; asked for after "
        "that, it runs again."
    ),
    KeyPolicy.CALL: "Each call is an operation of its own; only the same call id in the same step gets this result.",
    KeyPolicy.FUNCTION: "A function of the tool says which calls in this {place} are the same one and get this result.",
    KeyPolicy.STEP: "It is a step of a workflow, and is done once.",
    "": "The program that logged it gave the key itself; a call with the same key gets this result.",
}

#: Status → (chip shape, label). Unknown outcomes always have the hatched shape.
STATES: Final[dict[str, tuple[str, str]]] = {
    SessionStatus.ACTIVE: ("run", "Active"),
    SessionStatus.NEEDS_REVIEW: ("unknown", "Needs a decision"),
    SessionStatus.READY: ("run", "Ready to go on"),
    SessionStatus.PAUSED: ("wait", "Paused"),
    SessionStatus.COMPLETED: ("ok", "Completed"),
    SessionStatus.FAILED: ("bad", "Failed"),
    SessionStatus.CANCELLED: ("off", "Cancelled"),
    RunStatus.RUNNING: ("run", "Running"),
    RunStatus.WAITING: ("wait", "Waiting for a decision"),
    RunStatus.RELEASED: ("off", "Released"),
    RunStatus.LOST: ("bad", "Lost"),
    CallStatus.AWAITING_APPROVAL: ("wait", "Awaiting approval"),
    CallStatus.APPROVED: ("wait", "Approved, not yet run"),
    CallStatus.ISSUED: ("run", "Running"),
    CallStatus.INTERRUPTED: ("unknown", "Outcome unknown"),
    CallStatus.RERUN_APPROVED: ("wait", "Re-run approved"),
    CallStatus.REJECTED: ("bad", "Rejected"),
    CallStatus.SUPERSEDED: ("off", "Run again"),
    CallStatus.DISCARDED: ("off", "Discarded"),
    PauseStatus.TAKEN: ("run", "Taken by a run"),
    PauseStatus.OVER: ("off", "Gone on"),
    JoinStatus.COMPLETE: ("ok", "Complete"),
    JoinStatus.USED: ("ok", "Complete, used"),
    PeerCallStatus.ANSWERED: ("ok", "Answered"),
    PeerCallStatus.EXPIRED: ("bad", "No answer in time"),
    DecisionKind.CONFIRM_LANDED: ("ok", "It happened"),
    DecisionKind.MARK_FAILED: ("bad", "It did not happen"),
    DecisionKind.APPROVE_RERUN: ("wait", "Run once more"),
    DecisionKind.APPROVE: ("ok", "Approved"),
    DecisionKind.EDIT: ("wait", "Arguments changed"),
    DecisionKind.REJECT: ("bad", "Rejected"),
    DecisionKind.RESPOND: ("wait", "Answered instead"),
    DecisionKind.PROBE_LANDED: ("ok", "Probe: it happened"),
    DecisionKind.PROBE_NOT_LANDED: ("bad", "Probe: it did not happen"),
    DecisionKind.PROBE_UNKNOWN: ("unknown", "Probe: cannot tell"),
    DecisionKind.DISCARD: ("off", "Discarded"),
}

#: Decision → verb after the name of the person.
_DID: Final[dict[str, str]] = {
    DecisionKind.CONFIRM_LANDED: "said that it happened",
    DecisionKind.MARK_FAILED: "said that it did not happen",
    DecisionKind.APPROVE_RERUN: "approved one more run",
    DecisionKind.APPROVE: "approved",
    DecisionKind.EDIT: "changed the arguments",
    DecisionKind.REJECT: "rejected it",
    DecisionKind.RESPOND: "answered instead",
}

_PHASES: Final[dict[str, str]] = {phase.value: str(phase.label) for phase in Phase}

_WHY: Final[dict[str, str]] = {
    InterruptReason.RUN_LOST: "its run was lost after the intent",
    InterruptReason.AMBIGUOUS_ERROR: "the tool failed and may still have done it",
    InterruptReason.CANCELLED: "it was stopped while it ran",
    InterruptReason.ABANDONED: "its run went on without saying how it ended",
    InterruptReason.FORKED: "it was undecided when the session was forked",
    InterruptReason.UNREADABLE: "its record cannot be read",
}

_STEPS: Final = ((86_400, "day", "days"), (3_600, "h", "h"), (60, "min", "min"))


class KeyedCall(Protocol):
    """A call with the policy and the scope of its idempotency key."""

    @property
    def key_policy(self) -> str: ...

    @property
    def key_scope(self) -> str: ...


def format_status_chip(value: str) -> tuple[str, str]:
    """Return the chip shape and label of a status or decision; unknown values of newer versions are returned as is."""
    return STATES.get(value, ("off", value.replace("_", " ").capitalize()))


def format_phase(value: str) -> str:
    """Return the label of the phase of a version; unknown values of newer versions are returned as is."""
    return _PHASES.get(value, value)


def format_decision_verb(decision: str) -> str:
    """Return the verb of a decision, to follow the name of the person."""
    return _DID.get(decision) or f"decided: {format_status_chip(decision)[1].lower()}"


def format_unknown_outcome_reason(reason: str, *, verifiable: bool) -> str:
    """Explain in half a sentence why the outcome of a call is unknown."""
    return f"{_WHY.get(reason, 'nobody knows why')}, {'it has a probe' if verifiable else 'no probe'}"


def format_duration(seconds: float) -> str:
    """Format a duration in one unit, rounded down: 3.4 s, 42 min, 3 h, 2 days."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, singular, plural in _STEPS:
        if seconds >= size:
            amount = int(seconds // size)
            return f"{amount} {singular if amount == 1 else plural}"
    return f"{int(seconds)} s"


def format_time_ago(moment: datetime, now: datetime) -> str:
    """Format the time since a moment in one unit.

    A moment in the near future counts as now, as clocks of two machines may differ.
    """
    seconds = int((now - moment).total_seconds())
    if seconds < 5:
        return "just now"
    return f"{seconds} s ago" if seconds < 60 else f"{format_duration(seconds)} ago"


def format_deadline(moment: datetime, now: datetime) -> str:
    """Format the time until or since a deadline in one unit."""
    seconds = (moment - now).total_seconds()
    if seconds > 0:
        return f"due in {_format_whole_unit(seconds)}"
    return f"overdue for {_format_whole_unit(-seconds)}"


def _format_whole_unit(seconds: float) -> str:
    return f"{int(seconds)} s" if seconds < 60 else format_duration(seconds)


def format_exact_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")


def format_iso_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_json_or_text(stored: str) -> Any:
    """Parse stored JSON text; damaged JSON is returned as text."""
    return parse_or_text(stored)


def indent_json(stored: str) -> str:
    """Indent stored JSON text; a text that is not JSON is returned as is."""
    try:
        return mask_and_reveal_hidden(dump_masked_json(parse_json(stored), indent=2))
    except ValueError:
        return mask_and_reveal_hidden(stored)


def format_json_for_reading(stored: str) -> str:
    """Format stored JSON for reading: a string as its text, anything else indented."""
    value = parse_json_or_text(stored)
    return mask_and_reveal_hidden(value) if isinstance(value, str) else indent_json(stored)


def mask_call_sentence(tool: str, sentence: str, args: Any) -> str:
    """Describe a call with secrets masked.

    The sentence of the tool is used without the values of secret fields, else one built from tool name and arguments.
    """
    with mask_secret_values_of(args):
        if sentence and not has_short_value(sentence, collect_secret_values(args)):
            return mask_and_reveal_hidden(sentence)
        return build_default_call_sentence(tool, args)


def format_call_sentence(call: ToolCall) -> str:
    """Describe what a call was about to do: in the tool's words, else made from its name and arguments."""
    try:
        return mask_call_sentence(call.tool, call.sentence, parse_json_or_text(call.args))
    except (ValueError, RecursionError):
        logger.exception("The arguments of the call %s cannot be put in words.", getattr(call, "pk", ""))
        return build_default_call_sentence(call.tool, "its arguments cannot be shown")


def build_default_call_sentence(tool: str, args: Any) -> str:
    """Describe a call of a tool without a sentence of its own: “Refund card: order 17, amount 40.00”."""
    args = mask_json_value(args)
    name = shorten_to_one_line(tool, 200).replace("_", " ").replace("-", " ").replace(".", " ").strip().capitalize()
    name = name or "Unnamed tool"
    if not isinstance(args, dict):
        return name if args in (None, "") else f"{name}: {shorten_to_one_line(args)}"
    arguments = ", ".join(
        f"{shorten_to_one_line(key)} {shorten_to_one_line(value)}" for key, value in list(args.items())[:6]
    )
    omitted = len(args) - 6
    tail = f", and {omitted} more" if omitted > 0 else ""
    return f"{name}: {arguments}{tail}" if arguments else f"{name}, without arguments"


def shorten_to_one_line(value: Any, limit: int = 60) -> str:
    """Shorten a value to one line for a title."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = mask_and_reveal_hidden(" ".join(mask_text(text).split()))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def describe_operation_identity(policy: str, scope: str) -> str:
    """Explain which calls are the same operation, by the key policy and its scope."""
    return SAME_OPERATION[policy].format(place="workspace" if scope == KeyScope.WORKSPACE else "session")
