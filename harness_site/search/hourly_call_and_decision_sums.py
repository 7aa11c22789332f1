"""Numbers of settled calls and of decisions, added to the sums of their hour and of their day.

A call is counted once, when it is indexed for the last time, and a decision when it is indexed.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from math import log
from typing import Any, Final

from django.db import connection
from django.db.models import OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact

from checkpoints.db.sql_names_and_values import build_insert_sql, convert_values, quote_table
from checkpoints.enums import APPROVAL_KINDS, ActorKind, AuditKind, CallStatus, DecisionKind, InterruptReason
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.models import AuditEvent, Decision
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, IS_QUESTION, is_failed_command
from harness_site.search.models import DecisionSums, ToolSums

KEYS: Final[dict[type[ToolSums] | type[DecisionSums], tuple[str, str]]] = {
    ToolSums: ("agent", "tool"),
    DecisionSums: ("agent", "wait"),
}
AMOUNTS: Final[dict[type[ToolSums] | type[DecisionSums], tuple[str, ...]]] = {
    ToolSums: ("calls", "failed", "interrupted", "timed", "seconds"),
    DecisionSums: ("decisions",),
}
#: Each class of waiting times ends at this many times its beginning.
_WAIT_FACTOR: Final = 1.2
_LAST_WAIT_CLASS: Final = 120
#: Actors that are people: those who sign in, and those who use an API token.
DECIDING_PEOPLE: Final = frozenset({ActorKind.PERSON, ActorKind.TOKEN})
#: Decisions whose waiting time is counted. `build_wait_tally_if_decided_by_person` decides the same about one that is
#: loaded.
COUNTED_DECISIONS: Final = (
    Q(final=True, actor_kind__in=sorted(DECIDING_PEOPLE))
    & ~Q(kind=DecisionKind.WITHDRAW)
    & (Q(kind__in=APPROVAL_KINDS) | Q(tool_call__interrupted_at__isnull=False))
)
_LAST_FINAL_KIND: Final = Subquery(
    Decision.objects.filter(tool_call=OuterRef("pk"), final=True).order_by("-pk").values("kind")[:1]
)
#: Calls whose result a person gave: their tool never ran.
#: `status_and_decision_labels.get_call_status_shape_and_label` decides the same about one that is loaded.
ANSWERED_CALLS: Final = Q(status=CallStatus.COMPLETED) & (
    IS_QUESTION | Q(Exact(Coalesce(_LAST_FINAL_KIND, Value("")), Value(DecisionKind.RESPOND.value)))
)
#: Calls that count as interrupted in the sums, or will once they are settled.
COUNTED_INTERRUPTIONS: Final = Q(interrupted_at__isnull=False) & ~Q(reason=InterruptReason.NO_RESULT)
#: Calls that are counted in the sums once they are indexed, except copied ones. `build_tally_of_settled_call` decides
#: the same about one that is loaded.
FINISHED_CALLS: Final = (
    Q(
        status__in=sorted({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.SUPERSEDED, CallStatus.DISCARDED}),
        session__has_times=True,
    )
    & ~ANSWERED_CALLS
    & ~Q(reason=InterruptReason.NO_RESULT)
)


@dataclass(frozen=True, slots=True)
class Tally:
    """Amounts for the sums of an hour and of its day.

    `key` is workspace, start of the hour, agent, and tool or class of waiting times.
    """

    model: type[ToolSums] | type[DecisionSums]
    key: tuple[int, datetime, str, Any]
    amounts: tuple[float, ...]


def build_tally_of_settled_call(workspace: int, call: Any) -> Tally | None:
    """Return the amounts of a call that is settled for good.

    None for one that did not run, because a person rejected or answered it, for one that a fork has copied, and for one
    of an imported session without times or results. An interrupted call that ran again counts with its interruption,
    and the attempt that replaced it counts beside it. A shell command that failed counts as failed. A call that a
    framework's own interrupt asked people about has no duration, because it contains the time that they took.

    Args:
        workspace: Key of its workspace.
        call: Named tuple with the required fields of `ToolCall`, and `is_answered`: whether it is in `ANSWERED_CALLS`.
    """
    has_run = call.status != CallStatus.REJECTED and not call.is_answered
    is_copied = call.step < 0 and call.supersedes_id is None
    if not has_run or is_copied or call.reason == InterruptReason.NO_RESULT or not call.session__has_times:
        return None
    interrupted = call.interrupted_at is not None
    asked_people = call.idempotency_key.startswith(INTERRUPT_KEY_PREFIX)
    timed = not interrupted and not asked_people and call.settled_at not in {None, call.issued_at}
    seconds = (call.settled_at - call.issued_at).total_seconds() if timed else 0.0
    failed = call.status == CallStatus.FAILED or is_failed_command(call.status, call.exit_code)
    amounts = (1, failed, interrupted, timed, max(seconds, 0.0))
    return Tally(ToolSums, (workspace, _truncate_to_utc_hour(call.issued_at), call.session__agent, call.tool), amounts)


def build_wait_tally_if_decided_by_person(workspace: int, decision: Any) -> Tally | None:
    """Return the waiting time of a final decision of a person, else None.

    `decision` has the required fields of `Decision` and the times of its call, `tool_call__issued_at` being the time of
    the request for an approval (`replace_call_start_times_by_approval_request_times`).
    """
    # All other decisions are about an interrupted call.
    since = decision.tool_call__issued_at if decision.kind in APPROVAL_KINDS else decision.tool_call__interrupted_at
    is_withdrawal = decision.kind == DecisionKind.WITHDRAW
    if is_withdrawal or not decision.final or decision.actor_kind not in DECIDING_PEOPLE or since is None:
        return None
    wait = convert_seconds_to_wait_class((decision.created_at - since).total_seconds())
    key = (workspace, _truncate_to_utc_hour(decision.created_at), decision.session__agent, wait)
    return Tally(DecisionSums, key, (1,))


def replace_call_start_times_by_approval_request_times(decisions: Sequence[Any]) -> list[Any]:
    """Return decisions whose calls have the time at which their approval was requested, in one query.

    A call that was approved and has run has the time of its start, after the decision; only the audit trail still has
    the time of the request. Without it, the time of the call is None.

    Args:
        decisions: Named tuples with the required fields of `Decision`, and the id and the times of its call.

    Returns:
        The decisions in their order.
    """
    sessions = {row.session_id for row in decisions if _has_approved_call_started(row)}
    if not sessions:
        return list(decisions)
    requests: defaultdict[int | None, list[tuple[str, datetime]]] = defaultdict(list)
    events = AuditEvent.objects.filter(kind=AuditKind.APPROVAL_REQUESTED, session__in=sessions)
    for session, details, at in events.values_list("session_id", "details", "created_at"):
        requests[session].append((details, at))
    return [
        row._replace(tool_call__issued_at=_find_approval_request_time(row, requests[row.session_id]))
        if _has_approved_call_started(row)
        else row
        for row in decisions
    ]


def _find_approval_request_time(decision: Any, requests: Sequence[tuple[str, datetime]]) -> datetime | None:
    """Return the time of the last request about the call of a decision before it, from the requests of its session."""
    # Details are canonical JSON with sorted keys: the name of the tool follows the id of the call.
    named = f'"call_id":{to_canonical_json(decision.tool_call__call_id)},'
    return max((at for details, at in requests if named in details and at <= decision.created_at), default=None)


def _has_approved_call_started(decision: Any) -> bool:
    """Return whether a decision approved a call that has run, so that its time is the one of its start."""
    issued_at = decision.tool_call__issued_at
    return decision.kind in APPROVAL_KINDS and issued_at is not None and issued_at > decision.created_at


def convert_seconds_to_wait_class(seconds: float) -> int:
    """Return the class of a waiting time: 0 up to one second, then classes of which each is a fifth longer."""
    return min(_LAST_WAIT_CLASS, max(0, round(log(max(seconds, 1.0), _WAIT_FACTOR))))


def convert_wait_class_to_seconds(wait: int) -> float:
    """Return the waiting time in seconds that stands for a class; it is at most a tenth off."""
    return float(_WAIT_FACTOR**wait)


def add_tallies_to_hour_and_day_sums(tallies: Iterable[Tally]) -> None:
    """Add tallies to the sums.

    Each has to be passed once, in the transaction that indexes its row.
    """
    sums: defaultdict[Any, dict[Any, list[float]]] = defaultdict(dict)
    for tally in tallies:
        workspace, hour, agent, value = tally.key
        for start, hourly in ((hour, True), (get_utc_day_start(hour), False)):
            key = (workspace, start, hourly, agent, value)
            totals = sums[tally.model].get(key, [0] * len(tally.amounts))
            sums[tally.model][key] = [total + number for total, number in zip(totals, tally.amounts, strict=True)]
    with connection.cursor() as cursor:
        for model in sorted(sums, key=lambda model: str(model.__name__)):
            fields = ("workspace", "start", "hourly", *KEYS[model], *AMOUNTS[model])
            rows = [
                convert_values(connection, model, dict(zip(fields, (*key, *totals), strict=True)))
                for key, totals in sorted(sums[model].items())
            ]
            cursor.executemany(_build_upsert_sql_that_adds_amounts(model, fields), rows)


def _build_upsert_sql_that_adds_amounts(model: type[ToolSums] | type[DecisionSums], fields: tuple[str, ...]) -> str:
    additions = ", ".join(f"{name} = {quote_table(model)}.{name} + excluded.{name}" for name in AMOUNTS[model])
    conflict = f"workspace_id, hourly, start, {', '.join(KEYS[model])}"
    return f"{build_insert_sql(model, fields)} ON CONFLICT ({conflict}) DO UPDATE SET {additions}"


def get_utc_day_start(moment: datetime) -> datetime:
    return datetime.combine(moment.astimezone(UTC).date(), time.min, UTC)


def _truncate_to_utc_hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
