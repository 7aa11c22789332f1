"""Results of the last bulk decision of a reader, stored in the user session so that their page can be reloaded."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from secrets import token_urlsafe
from typing import Any, Final

from checkpoints.db import clock
from checkpoints.enums import DecisionKind
from checkpoints.models import ToolCall
from harness_site.accounts.permissions import MemberRequest
from harness_site.review.bulk_decision_storage_and_withdrawal import (
    RecordedBulkDecision,
    delete_orphans_and_save_bulk_decision,
    load_bulk_decision,
)
from harness_site.review.decision_error_texts import DecisionProblem
from harness_site.review.record_each_of_several_decisions import BulkDecisionResult

#: Key of the results in the user session.
_KEY: Final = "bulk_results"


@dataclass(frozen=True, slots=True)
class BulkResults:
    """Results of a bulk decision: those that were refused, and the recorded decisions, None without any."""

    at: datetime
    refused: tuple[BulkDecisionResult, ...]
    bulk: RecordedBulkDecision | None

    @property
    def calls(self) -> list[ToolCall]:
        recorded = () if self.bulk is None else self.bulk.decisions
        return [*(result.call for result in self.refused), *(each.call for each in recorded)]


def save_bulk_results_and_get_name(request: MemberRequest, results: Sequence[BulkDecisionResult]) -> str:
    """Save the recorded decisions, and store the results in place of the previous ones.

    Returns:
        The name by which the results are loaded again.
    """
    name = token_urlsafe(6)
    request.session[_KEY] = {
        "name": name,
        "workspace": request.membership.workspace_id,
        "at": clock.now().isoformat(),
        "refused": [
            {"call": result.call.pk, "kind": str(result.kind), "problem": asdict(result.refused)}
            for result in results
            if result.refused is not None
        ],
        "bulk": delete_orphans_and_save_bulk_decision(results, by=request.membership),
    }
    return name


def load_bulk_results(request: MemberRequest, name: str) -> BulkResults | None:
    """Load the stored results; None if they were replaced, are of another workspace, or their calls were deleted."""
    stored: Any = request.session.get(_KEY)
    workspace = request.membership.workspace_id
    if not name or stored is None or (stored["name"], stored["workspace"]) != (name, workspace):
        return None
    calls = ToolCall.objects.filter(workspace=workspace).select_related("session")
    calls_by_pk = calls.in_bulk([row["call"] for row in stored["refused"]])
    refused = tuple(
        BulkDecisionResult(calls_by_pk[row["call"]], DecisionKind(row["kind"]), DecisionProblem(**row["problem"]))
        for row in stored["refused"]
        if row["call"] in calls_by_pk
    )
    bulk = None if stored["bulk"] is None else load_bulk_decision(request.membership.workspace, stored["bulk"])
    if not refused and bulk is None:
        return None
    return BulkResults(datetime.fromisoformat(stored["at"]), refused, bulk)
