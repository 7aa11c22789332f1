"""Calls that a withdrawn decision opened again, after they were indexed for the last time.

A withdrawal is a decision of its own. When it is indexed, the passages of its call become open, so that the call is
indexed again, and its amounts leave the sums, to which they are added again once the call is settled.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from django.db.models import BooleanField, F, OuterRef, QuerySet, Subquery, Value

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.formats.shell_command_exit_codes import find_exit_code
from checkpoints.models import Decision, ToolCall
from harness_site.search.hourly_call_and_decision_sums import Tally, build_tally_of_settled_call
from harness_site.search.models import Kind, Passage

#: Decisions that can be withdrawn and settle a call that counts in the sums, with the status of that call.
_COUNTED_OUTCOMES: Final = {
    DecisionKind.CONFIRM_LANDED: CallStatus.COMPLETED,
    DecisionKind.MARK_FAILED: CallStatus.FAILED,
}
_CALL_FIELDS: Final = (
    *("pk", "workspace_id", "tool", "status", "reason", "idempotency_key", "issued_at", "settled_at"),
    *("interrupted_at", "session__agent", "session__has_times", "is_answered", "settled_by"),
    *("step", "supersedes_id", "exit_code", "settled_with"),
)


def reopen_indexed_calls_of_withdrawn_decisions(decisions: Collection[int]) -> list[Tally]:
    """Open the passages of settled calls whose decisions were withdrawn, so that the calls are indexed again.

    Must run in the transaction that indexes the withdrawals.

    Args:
        decisions: Keys of the decisions that are indexed; those that are no withdrawals are ignored.

    Returns:
        Negative amounts, which remove these calls from the sums.
    """
    withdrawals = Decision.objects.filter(pk__in=decisions, kind=DecisionKind.WITHDRAW, final=True)
    passages = Passage.objects.filter(kind=Kind.CALL, part=0, open=False)
    indexed_revision = Subquery(passages.filter(source=OuterRef("pk")).values("revision"))
    settling = Decision.objects.filter(
        tool_call=OuterRef("pk"), revision=OuterRef("indexed_revision") - 1, kind__in=sorted(_COUNTED_OUTCOMES)
    )
    rows: QuerySet[Any, Any] = ToolCall.objects.filter(pk__in=withdrawals.values("tool_call")).annotate(
        indexed_revision=indexed_revision,
        settled_by=Subquery(settling.filter(final=True).values("kind")[:1]),
        settled_with=Subquery(settling.filter(final=True).values("result")[:1]),
        is_answered=Value(False, BooleanField()),
    )
    calls = list(rows.filter(revision__gt=F("indexed_revision")).values_list(*_CALL_FIELDS, named=True))
    passages.filter(source__in=[call.pk for call in calls]).update(open=True)
    return [tally for call in calls if (tally := _build_negative_call_tally(call))]


def _build_negative_call_tally(call: Any) -> Tally | None:
    """Return the negative amounts of a call as it was indexed, None if it does not count in the sums.

    A call that was rejected or answered in place of its tool does not count.
    """
    if call.settled_by is None:
        return None
    exit_code = find_exit_code(call.tool, call.settled_with)
    settled = call._replace(status=_COUNTED_OUTCOMES[call.settled_by], exit_code=exit_code)
    tally = build_tally_of_settled_call(call.workspace_id, settled)
    return tally and replace(tally, amounts=tuple(-amount for amount in tally.amounts))
