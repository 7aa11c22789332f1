"""Tags of the session pages: what agents said and did, made safe to show."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from checkpoints.enums import ActorKind, AuditKind, InterruptReason, RunStatus
from checkpoints.exceptions import InvalidInput
from checkpoints.queries.calls import CallRecord
from checkpoints.queries.conversation import CallCard, Conversation, Handover
from checkpoints.queries.history import Happening
from checkpoints.queries.narrowing import Sort
from checkpoints.queries.occasions import Takeover
from checkpoints.queries.origins import RunFacts
from checkpoints.queries.peers import Waiting
from checkpoints.queries.plans import Step, StepState
from checkpoints.queries.sessions import SessionRow
from checkpoints.queries.standing import Standing
from checkpoints.serde import canonical
from harness_site import wording
from harness_site.rendering import ansi, highlight, jsontree, markdown, saying, text
from harness_site.rendering.masking import masked
from harness_site.rendering.references import without_digests
from harness_site.rendering.safe_text import encodable

register = template.Library()

#: Characters of a message, and of a result, that a conversation shows before it folds.
_SAID = 3_000
_RESULT = 1_600
_LINES = 60
#: … and of arguments that a list shows.
_ARGS = 160
#: A time with its zone is at least so long.
_ISO = len("2026-01-01T00:00:00+00:00")

register.filter("visible", text.visible)
register.filter("size", text.size)
register.filter("role_name", saying.role_name)
register.filter("role_kind", saying.role_kind)
register.filter("safe_link", saying.safe_link)
register.filter("count", saying.count)
register.filter("signed", saying.signed)
register.filter("times", saying.times)
register.filter("ordinal", saying.ordinal)
register.filter("effect", saying.effect)
register.filter("run_end", saying.run_end)
register.filter("gap", saying.gap)
register.filter("image_source", saying.image_source)
register.filter("money", saying.money)
register.filter("money_delta", saying.money_delta)
register.filter("exact", wording.exact)
register.filter("portion", saying.portion)
register.filter("result_parts", saying.result_parts)
register.filter("json_value", saying.stored_value)


@register.filter
def took(span: timedelta | None) -> str:
    return "" if span is None else wording.duration(span.total_seconds())


@register.simple_tag
def standing(row: SessionRow, waiting: Waiting | None = None) -> SafeString:
    """How a session stands, as colour, shape and word."""
    shape, words = saying.standing(row.standing, row.undecided, row.awaiting, waiting)
    return format_html('<span class="chip {}">{}</span>', shape, words)


@register.simple_tag
def standings() -> list[tuple[str, str]]:
    return list(Standing.choices)


@register.simple_tag
def sorts() -> list[tuple[str, str]]:
    return list(Sort.choices)


@register.simple_tag
def code(source: str, language: str) -> SafeString:
    return highlight.highlight(source, language)


@register.inclusion_tag("sessions/parts/said.html")
def said(content: str, more_url: str, whole: bool = False) -> dict[str, Any]:
    """A text as prose: its beginning and a link to all of it, or with `whole` everything."""
    folded = _whole(content) if whole else text.fold_masked(content, _SAID, _LINES)
    return {"html": markdown.prose(folded.text), "folded": folded, "more_url": more_url}


@register.inclusion_tag("sessions/parts/tree.html")
def tree(value: Any, more_url: str, whole: bool = False) -> dict[str, Any]:
    """A JSON value as a labelled list, with a link to all of it where it was too much."""
    return {"tree": jsontree.tree(value, limit=None if whole else jsontree.PREVIEW), "more_url": more_url}


@register.inclusion_tag("sessions/parts/returned.html")
def returned(content: str, more_url: str, whole: bool = False) -> dict[str, Any]:
    """The text a tool returned: as a labelled list where it is a JSON object or list, else as it is."""
    value = saying.structured(content)
    limit = None if whole else _RESULT
    if value is not None:
        return {"tree": jsontree.tree(value, limit=limit), "more_url": more_url}
    folded = _whole(content) if whole else text.fold_masked(content, _RESULT, _LINES // 3)
    return {"shown": ansi.html(folded.text), "folded": folded, "more_url": more_url}


def _whole(content: str) -> text.Folded:
    return text.Folded(masked(content), True, text.byte_size(content))


@register.simple_tag
def copied(card: CallCard, address: str) -> str:
    """Where a call is found as text, by the address of its page or, where the log does not have it, of its message. The
    arguments alone are found there with one word more."""
    if card.record is not None:
        return f"{address}?as="
    return f"{address}&{urlencode({'call': encodable(card.call.call_id)})}&as="


@register.filter
def says_something(args: Any) -> bool:
    return args not in (None, {}, [], "")


@register.filter
def changed_args(card: CallCard) -> bool:
    """Whether a person had the call run with other arguments than the model asked for."""
    try:
        return card.record is not None and card.record.args != canonical(card.call.args)
    except InvalidInput:  # what was asked for has no form to compare
        return False


@register.filter
def call_state(card: CallCard) -> tuple[str, str]:
    """Shape and word for a call: the log's, else what its result says."""
    if card.record is not None:
        return record_state(card.record)
    if card.result is None:
        return "off", "No result"
    return ("bad", "Error") if card.result.is_error else ("ok", "Completed")


@register.filter
def record_state(record: CallRecord) -> tuple[str, str]:
    return ("unknown", "No sign of life") if record.orphaned else wording.state(record.status)


@register.filter
def asked_args(kept: Any) -> Any:
    """The arguments before an edit, kept as JSON text."""
    return saying.stored_value(kept) if isinstance(kept, str) else kept


@register.filter
def json_text(value: Any) -> SafeString:
    """A JSON value over several lines, complete."""
    return highlight.highlight(jsontree.dumped(value, indent=2), "json")


@register.filter
def crashed(handover: Handover) -> bool:
    """Whether any of the runs that ended here was lost."""
    return any(run.status == RunStatus.LOST for run in handover.ended)


@register.filter
def of_run(takeovers: Mapping[int, Takeover], number: int) -> Takeover | None:
    """How run `number` lost its session to another one while it was alive; None where it did not."""
    return takeovers.get(number) if takeovers else None


@register.filter
def of_actor(takers: Mapping[str, RunFacts] | None, actor: str) -> RunFacts | None:
    """The run that took a session from the run `actor` names."""
    return takers.get(actor) if takers else None


@register.filter
def add_to(number: float, more: float) -> float:
    return round(number + more, 1)


@register.filter
def behind(shown: Conversation) -> int:
    """How many messages follow a window."""
    return shown.place.length - shown.upto


@register.filter
def is_text(value: Any) -> bool:
    return isinstance(value, str)


@register.filter
def evidence_text(stored: str) -> str:
    """Evidence as its JSON text."""
    return jsontree.dumped(without_digests(saying.stored_value(stored)))


@register.filter
def excerpt(content: str) -> str:
    """The beginning of a text, saying how much more there is; the whole of it is one link away."""
    return text.visible(saying.beginning(content))


@register.filter
def words(key: str) -> str:
    return text.visible(key.replace("_", " "))


@register.filter
def detail(value: Any) -> str:
    """One value of an audit event: a time as a time of day, a text without quotes."""
    if not isinstance(value, str):
        return jsontree.dumped(value)
    try:
        return wording.exact(datetime.fromisoformat(value)) if len(value) >= _ISO else text.visible(value)
    except ValueError:
        return text.visible(value)


@register.filter
def inline(value: Any) -> str:
    """A JSON value on one line: `order 17, amount "40.00"`."""
    return excerpt(saying.on_a_line(value))


@register.inclusion_tag("sessions/parts/args.html")
def args_of(record: CallRecord, address: str) -> dict[str, Any]:
    """The beginning of the arguments of a call in a list, and the way to all of them."""
    line = saying.on_a_line(saying.stored_value(record.args))
    return {"folded": text.fold_masked(line, _ARGS), "address": address}


@register.filter
def answer(value: Any) -> str:
    """What another agent answered, on one line: a text as it is."""
    return excerpt(value) if isinstance(value, str) else excerpt(jsontree.dumped(value))


@register.filter
def step_sign(step: Step) -> str:
    return {
        StepState.DONE: "✓",
        StepState.DOING: "◐",
        StepState.BLOCKED: "‖",
        StepState.FAILED: "✗",
        StepState.SKIPPED: "–",
    }.get(step.state or StepState.TODO, "○")


@register.filter
def step_kind(step: Step) -> str:
    return step.state.name.lower() if step.state else "todo"


@register.filter
def interruption(reason: str) -> str:
    return str(InterruptReason(reason).label) if reason in InterruptReason.values else reason


@register.filter
def happening_kind(row: Happening) -> str:
    """How an entry of the history is marked: what a person did, what went well, what went wrong."""
    if row.actor_kind == ActorKind.PERSON:
        return "person"
    return {
        AuditKind.RUN_LOST: "bad",
        AuditKind.TAKEOVER: "bad",
        AuditKind.CALL_INTERRUPTED: "bad",
        AuditKind.SESSION_FINISHED: "ok",
    }.get(AuditKind(row.kind) if row.kind in AuditKind.values else AuditKind.DECIDED, "")
