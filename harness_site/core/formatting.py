"""Formatting of statuses, times, sizes and descriptions of calls."""

import json
import logging
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Protocol

from django.utils.dateformat import format as format_date
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.translation import get_language, gettext, ngettext
from django.utils.translation import gettext_lazy as _

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
from harness_site.core.masking.masker import (
    collect_secret_values,
    mask_secret_fields_only,
    mask_text_beginning,
    masking_secrets_of,
)
from harness_site.core.rendering.display_text import mask_and_reveal_hidden
from harness_site.core.rendering.json_tree import dump_masked_json

logger = logging.getLogger(__name__)

#: Characters of a text that are read for one line.
_SCANNED: Final = 2_000

#: Definition of equal operations by the key policy of the tool: in a session, and in a workspace.
SAME_OPERATION: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    KeyPolicy.ONCE: (
        _("The same tool with the same arguments runs once in this session. A second call gets this result."),
        _("The same tool with the same arguments runs once in this workspace. A second call gets this result."),
    ),
    KeyPolicy.UNANSWERED: 2
    * (
        _(
            "The same tool with the same arguments is this operation until a saved version has its result. "
            "A call after that runs again."
        ),
    ),
    KeyPolicy.CALL: 2
    * (_("Each call is an operation of its own. Only the same call id in the same step gets this result."),),
    KeyPolicy.FUNCTION: (
        _("A function of the tool decides which calls in this session are the same and get this result."),
        _("A function of the tool decides which calls in this workspace are the same and get this result."),
    ),
    KeyPolicy.STEP: 2 * (_("This is a step of a workflow. It runs once."),),
    "": 2
    * (
        _(
            "The agent’s program chose the idempotency key of this call. "
            "Another call with the same key gets this result."
        ),
    ),
}

#: Status → (chip shape, label). Unknown outcomes always have the hatched shape.
STATES: Final[dict[str, tuple[str, str | Promise]]] = {
    SessionStatus.ACTIVE: ("run", _("Active")),
    SessionStatus.NEEDS_REVIEW: ("unknown", _("Needs a decision")),
    SessionStatus.READY: ("run", _("Ready to resume")),
    SessionStatus.PAUSED: ("wait", _("Paused")),
    SessionStatus.COMPLETED: ("ok", _("Completed")),
    SessionStatus.FAILED: ("bad", _("Failed")),
    SessionStatus.CANCELLED: ("off", _("Cancelled")),
    RunStatus.RUNNING: ("run", _("Running")),
    RunStatus.WAITING: ("wait", _("Waiting for a decision")),
    RunStatus.RELEASED: ("off", _("Released")),
    RunStatus.LOST: ("bad", _("Lost")),
    CallStatus.AWAITING_APPROVAL: ("wait", _("Awaiting approval")),
    CallStatus.APPROVED: ("wait", _("Approved, not yet run")),
    CallStatus.ISSUED: ("run", _("Running")),
    CallStatus.INTERRUPTED: ("unknown", _("Outcome unknown")),
    CallStatus.RERUN_APPROVED: ("wait", _("Re-run approved")),
    CallStatus.REJECTED: ("bad", _("Rejected")),
    CallStatus.SUPERSEDED: ("off", _("Run again")),
    CallStatus.DISCARDED: ("off", _("Discarded")),
    PauseStatus.TAKEN: ("run", _("Taken by a run")),
    PauseStatus.OVER: ("off", _("Resumed")),
    JoinStatus.COMPLETE: ("ok", _("Complete")),
    JoinStatus.USED: ("ok", _("Complete, used")),
    PeerCallStatus.ANSWERED: ("ok", _("Answered")),
    PeerCallStatus.EXPIRED: ("bad", _("No answer in time")),
    DecisionKind.CONFIRM_LANDED: ("ok", _("It happened")),
    DecisionKind.MARK_FAILED: ("bad", _("It did not happen")),
    DecisionKind.APPROVE_RERUN: ("wait", _("Re-run approved")),
    DecisionKind.APPROVE: ("ok", _("Approved")),
    DecisionKind.EDIT: ("wait", _("Arguments changed")),
    DecisionKind.REJECT: ("bad", _("Rejected")),
    DecisionKind.RESPOND: ("wait", _("Answered instead")),
    DecisionKind.PROBE_LANDED: ("ok", _("Verify hook: it happened")),
    DecisionKind.PROBE_NOT_LANDED: ("bad", _("Verify hook: it did not happen")),
    DecisionKind.PROBE_UNKNOWN: ("unknown", _("Verify hook: outcome still unknown")),
    DecisionKind.DISCARD: ("off", _("Discarded")),
    DecisionKind.WITHDRAW: ("wait", _("Decision withdrawn")),
}

#: Decision → verb after the name of the person.
_DID: Final[dict[str, str | Promise]] = {
    DecisionKind.CONFIRM_LANDED: _("confirmed that it happened"),
    DecisionKind.MARK_FAILED: _("marked it failed"),
    DecisionKind.APPROVE_RERUN: _("approved a re-run"),
    DecisionKind.APPROVE: _("approved"),
    DecisionKind.EDIT: _("changed the arguments"),
    DecisionKind.REJECT: _("rejected it"),
    DecisionKind.RESPOND: _("answered instead"),
    DecisionKind.WITHDRAW: _("withdrew the decision"),
}

#: Decision → sentence about it. `%(name)s` is the person, `%(time)s` the time of day.
_DECIDED_AT: Final[dict[str, str | Promise]] = {
    DecisionKind.CONFIRM_LANDED: _("%(name)s confirmed at %(time)s that it happened"),
    DecisionKind.MARK_FAILED: _("%(name)s marked it failed at %(time)s"),
    DecisionKind.APPROVE_RERUN: _("%(name)s approved a re-run at %(time)s"),
    DecisionKind.APPROVE: _("%(name)s approved at %(time)s"),
    DecisionKind.RESPOND: _("%(name)s answered instead at %(time)s"),
}

_PHASES: Final[dict[str, Any]] = {phase.value: phase.label for phase in Phase}

_WHY: Final[dict[str, str | Promise]] = {
    InterruptReason.RUN_LOST: _("The run died during this call"),
    InterruptReason.AMBIGUOUS_ERROR: _("The tool failed and may still have done it"),
    InterruptReason.CANCELLED: _("The call was cancelled while it ran"),
    InterruptReason.ABANDONED: _("The run went on without recording the outcome"),
    InterruptReason.FORKED: _("The outcome was unknown when the session was forked"),
    InterruptReason.UNREADABLE: _("The record of the call cannot be read"),
    InterruptReason.NO_RESULT: _("The imported transcript has no result of the call"),
}

#: Size in seconds → unit, from large to small.
_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))


class KeyedCall(Protocol):
    """A call with the policy and the scope of its idempotency key."""

    @property
    def key_policy(self) -> str: ...

    @property
    def key_scope(self) -> str: ...


def format_status_chip(value: str) -> tuple[str, str]:
    """Return the chip shape and label of a status or decision; unknown values of newer versions are returned as is."""
    shape, label = STATES.get(value, ("off", value.replace("_", " ").capitalize()))
    return shape, str(label)


def format_phase(value: str) -> str:
    """Return the label of the phase of a version; unknown values of newer versions are returned as is."""
    return str(_PHASES.get(value, value))


def format_decision_verb(decision: str) -> str:
    """Return the verb of a decision, to follow the name of the person."""
    verb = _DID.get(decision)
    return str(verb) if verb else gettext("decided: %(decision)s") % {"decision": format_status_chip(decision)[1]}


def get_decision_sentence(decision: str) -> str:
    """Return the sentence about a decision, with the placeholders `%(name)s` and `%(time)s`."""
    sentence = _DECIDED_AT.get(decision)
    return str(sentence) if sentence else gettext("%(name)s decided at %(time)s")


def format_unknown_outcome_reason(reason: str, *, verifiable: bool) -> str:
    """Explain why the outcome of a call is unknown, and whether its tool can tell."""
    why = str(_WHY.get(reason, gettext("The reason is unknown")))
    how = gettext("can be verified") if verifiable else gettext("cannot be verified")
    return f"{why} · {how}"


def format_number(number: Decimal | float, digits: int = 0) -> str:
    """Format a number with `digits` decimal places and the separators of the reader's language: 1,234.5 or 1.234,5."""
    if not digits and isinstance(number, int) and 0 <= number < 1000:  # has no separators in any language
        return str(number)
    return _format_digits_in_language(f"{number:.{digits}f}", digits, get_language())


@lru_cache(maxsize=4_096)
def _format_digits_in_language(number: str, digits: int, _language: str | None) -> str:
    """Insert the separators of the current language, which is a part of the key of the cache."""
    return number_format(number, digits, use_l10n=True, force_grouping=True)


def format_day(day: date) -> str:
    """Format a day and its month, abbreviated: 10 Nov."""
    # Translators: a format of Django's filter `date`: the day and the abbreviated month, such as 10 Nov
    return _format_date_in_language(day, gettext("j M"), get_language())


def format_weekday(day: date) -> str:
    """Format a day with its weekday and month, abbreviated: Tue 10 Nov."""
    # Translators: a format of Django's filter `date`: weekday, day and abbreviated month, such as Tue 10 Nov
    return _format_date_in_language(day, gettext("D j M"), get_language())


def format_date_with_year(day: date) -> str:
    """Format a day with its weekday, month and year, abbreviated: Tue 10 Nov 2026."""
    # Translators: a format of Django's filter `date`: weekday, day, abbreviated month and year, such as Tue 10 Nov 2026
    return _format_date_in_language(day, gettext("D j M Y"), get_language())


@lru_cache(maxsize=1_000)
def _format_date_in_language(day: date, pattern: str, _language: str | None) -> str:
    """Format a date in the current language, which is a part of the key of the cache."""
    return format_date(day, pattern)


def format_duration(seconds: float) -> str:
    """Format a duration in one unit, rounded down: 3.4 s, 42 min, 3 h, 2 days."""
    if seconds < 1:
        return gettext("%(count)s ms") % {"count": round(seconds * 1000)}
    if seconds < 10:
        return gettext("%(count)s s") % {"count": format_number(seconds, 1)}
    return _format_whole_unit(seconds)


def format_time_ago(moment: datetime, now: datetime) -> str:
    """Format the time since a moment in one unit.

    A moment in the near future counts as now, as clocks of two machines may differ.
    """
    seconds = int((now - moment).total_seconds())
    if seconds < 5:
        return gettext("just now")
    amount, unit = _split_off_unit(seconds)
    match unit:
        case "day":
            sentence = ngettext("%(count)s day ago", "%(count)s days ago", amount)
        case "h":
            sentence = gettext("%(count)s h ago")
        case "min":
            sentence = gettext("%(count)s min ago")
        case _:
            sentence = gettext("%(count)s s ago")
    return sentence % {"count": amount}


def format_deadline(moment: datetime, now: datetime) -> str:
    """Format the time until or since a deadline in one unit."""
    seconds = (moment - now).total_seconds()
    amount, unit = _split_off_unit(abs(seconds))
    match unit, seconds > 0:
        case "day", True:
            sentence = ngettext("due in %(count)s day", "due in %(count)s days", amount)
        case "h", True:
            sentence = gettext("due in %(count)s h")
        case "min", True:
            sentence = gettext("due in %(count)s min")
        case _, True:
            sentence = gettext("due in %(count)s s")
        case "day", _:
            sentence = ngettext("overdue for %(count)s day", "overdue for %(count)s days", amount)
        case "h", _:
            sentence = gettext("overdue for %(count)s h")
        case "min", _:
            sentence = gettext("overdue for %(count)s min")
        case _:
            sentence = gettext("overdue for %(count)s s")
    return sentence % {"count": amount}


def _format_whole_unit(seconds: float) -> str:
    amount, unit = _split_off_unit(seconds)
    match unit:
        case "day":
            sentence = ngettext("%(count)s day", "%(count)s days", amount)
        case "h":
            sentence = gettext("%(count)s h")
        case "min":
            sentence = gettext("%(count)s min")
        case _:
            sentence = gettext("%(count)s s")
    return sentence % {"count": amount}


def _split_off_unit(seconds: float) -> tuple[int, str]:
    """Return the amount, rounded down, of the largest unit that the duration reaches."""
    size, unit = next((step for step in _UNITS if seconds >= step[0]), _UNITS[-1])
    return int(seconds // size), unit


def convert_to_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Convert a moment to a time zone; one at the ends of the supported range stays in UTC."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment.astimezone(UTC)


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
    with masking_secrets_of(args):
        if sentence and not has_short_value(sentence, collect_secret_values(args)):
            return mask_and_reveal_hidden(sentence)
        return build_default_call_sentence(tool, args)


def format_call_sentence(call: ToolCall) -> str:
    """Describe what a call was about to do: in the tool's words, else made from its name and arguments."""
    try:
        return mask_call_sentence(call.tool, call.sentence, parse_json_or_text(call.args_as_called))
    except (ValueError, RecursionError):
        logger.exception("The arguments of the call %s cannot be put in words.", getattr(call, "pk", ""))
        return build_default_call_sentence(call.tool, gettext("its arguments cannot be shown"))


def build_default_call_sentence(tool: str, args: Any) -> str:
    """Describe a call of a tool without a sentence of its own: “Refund card: order 17, amount 40.00”."""
    args = mask_secret_fields_only(args)
    name = shorten_to_one_line(tool, 200).replace("_", " ").replace("-", " ").replace(".", " ").strip().capitalize()
    name = name or gettext("Unnamed tool")
    if not isinstance(args, dict):
        return name if args in (None, "") else f"{name}: {shorten_to_one_line(args)}"
    arguments = ", ".join(
        f"{shorten_to_one_line(key)} {shorten_to_one_line(value)}" for key, value in islice(args.items(), 6)
    )
    omitted = len(args) - 6
    if not arguments:
        return gettext("%(tool)s, without arguments") % {"tool": name}
    if omitted > 0:
        sentence = gettext("%(tool)s: %(arguments)s, and %(count)s more")
        return sentence % {"tool": name, "arguments": arguments, "count": omitted}
    return f"{name}: {arguments}"


def shorten_to_one_line(value: Any, limit: int = 60) -> str:
    """Shorten a value to one line for a title."""
    whole = value if isinstance(value, str) else json.dumps(mask_secret_fields_only(value), ensure_ascii=False)
    text = mask_and_reveal_hidden(" ".join(mask_text_beginning(whole, _SCANNED).split()))
    return text if len(text) <= limit and len(whole) <= _SCANNED else f"{text[: limit - 1]}…"


def describe_idempotency_rule(policy: str, scope: str) -> str:
    """Explain which calls are the same operation, by the key policy and its scope."""
    sentences = SAME_OPERATION.get(policy)
    return str(sentences[scope == KeyScope.WORKSPACE]) if sentences else mask_and_reveal_hidden(policy)
