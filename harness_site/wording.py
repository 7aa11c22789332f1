"""How the pages say things: states, times, sizes, and what a call was about to do."""

import json
from datetime import UTC, datetime
from typing import Any, Final

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
from checkpoints.serde import parse, parse_or_text
from harness_site.rendering.jsontree import dumped
from harness_site.rendering.known_values import holds_short_value
from harness_site.rendering.masking import hiding_values_of, masked, masked_value, secret_values
from harness_site.rendering.text import visible

#: Which calls are the same operation, by the policy of the tool. `{place}` is where it holds.
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

#: State → (shape of its chip, its word). Unknown is always the hatched one.
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

#: What somebody did, after their name.
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


def state(value: str) -> tuple[str, str]:
    """The chip of a status or decision: its shape and its word. A value from a newer version shows as it is."""
    return STATES.get(value, ("off", value.replace("_", " ").capitalize()))


def phase(value: str) -> str:
    """The word for the phase of a version. A value from a newer version shows as it is."""
    return _PHASES.get(value, value)


def did(decision: str) -> str:
    """What somebody did who decided so, after their name."""
    return _DID.get(decision) or f"decided: {state(decision)[1].lower()}"


def why(reason: str, *, verifiable: bool) -> str:
    """Why the outcome of a call is unknown, in half a sentence."""
    return f"{_WHY.get(reason, 'nobody knows why')}, {'it has a probe' if verifiable else 'no probe'}"


def duration(seconds: float) -> str:
    """3.4 s, 42 min, 3 h, 2 days: one unit, rounded down."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for size, one, many in _STEPS:
        if seconds >= size:
            amount = int(seconds // size)
            return f"{amount} {one if amount == 1 else many}"
    return f"{int(seconds)} s"


def ago(moment: datetime, now: datetime) -> str:
    """How long ago, in one unit. Clocks of two machines may differ a little: a near future is just now."""
    seconds = int((now - moment).total_seconds())
    if seconds < 5:
        return "just now"
    return f"{seconds} s ago" if seconds < 60 else f"{duration(seconds)} ago"


def due(moment: datetime, now: datetime) -> str:
    """How long there is until a deadline, or how long ago it was, in one unit."""
    seconds = (moment - now).total_seconds()
    if seconds > 0:
        return f"due in {_whole(seconds)}"
    return f"overdue for {_whole(-seconds)}"


def _whole(seconds: float) -> str:
    return f"{int(seconds)} s" if seconds < 60 else duration(seconds)


def exact(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parsed(stored: str) -> Any:
    """A stored JSON text as a value; one that cannot be read comes back as the text it is."""
    return parse_or_text(stored)


def indented(stored: str) -> str:
    """A stored JSON text over several lines, complete; a text that is not JSON as it is."""
    try:
        return visible(dumped(parse(stored), indent=2))
    except ValueError:
        return visible(stored)


def readable(stored: str) -> str:
    """A stored JSON text as a person reads it: a text as the text, anything else over several lines."""
    value = parsed(stored)
    return visible(value) if isinstance(value, str) else indented(stored)


def shown_sentence(tool: str, sentence: str, args: Any) -> str:
    """What a call does: in the words of its tool, without the values of secret fields, which stand in them too; else
    made from its name and arguments."""
    with hiding_values_of(args):
        if sentence and not holds_short_value(sentence, secret_values(args)):
            return visible(sentence)
        return call_sentence(tool, args)


def call_sentence(tool: str, args: Any) -> str:
    """What a call does, for a tool that brings no sentence of its own: “Refund card: order 17, amount 40.00”."""
    args = masked_value(args)
    name = shortened(tool, 200).replace("_", " ").replace("-", " ").replace(".", " ").strip().capitalize()
    name = name or "Unnamed tool"
    if not isinstance(args, dict):
        return name if args in (None, "") else f"{name}: {shortened(args)}"
    said = ", ".join(f"{shortened(key)} {shortened(value)}" for key, value in list(args.items())[:6])
    more = len(args) - 6
    tail = f", and {more} more" if more > 0 else ""
    return f"{name}: {said}{tail}" if said else f"{name}, without arguments"


def shortened(value: Any, limit: int = 60) -> str:
    """One line of a value for a headline; the whole of it stands below it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = visible(" ".join(masked(text).split()))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def same_operation(policy: str, scope: str) -> str:
    """In plain words, which calls are the same operation as one whose key was made by `policy` in `scope`."""
    return SAME_OPERATION[policy].format(place="workspace" if scope == KeyScope.WORKSPACE else "session")
