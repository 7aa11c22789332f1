"""Results of the last bulk decision, stored in the user session so that their page can be reloaded."""

from dataclasses import asdict, dataclass
from datetime import datetime
from secrets import token_urlsafe
from typing import Any, Final

from checkpoints.db import clock
from checkpoints.enums import DecisionKind
from checkpoints.models import ToolCall
from harness_site.accounts.permissions import MemberRequest
from harness_site.review.bulk_decisions import BulkDecisionResult
from harness_site.review.decision_error_texts import DecisionProblem

#: Key of the results in the user session.
_KEY: Final = "settled"


@dataclass(frozen=True, slots=True)
class BulkResults:
    at: datetime
    rows: tuple[BulkDecisionResult, ...]

    @property
    def recorded_results(self) -> list[BulkDecisionResult]:
        return [row for row in self.rows if row.refused is None]

    @property
    def refused_results(self) -> list[BulkDecisionResult]:
        return [row for row in self.rows if row.refused is not None]


def store_bulk_results_and_get_name(request: MemberRequest, settled: list[BulkDecisionResult]) -> str:
    """Store these results in place of the previous ones; return the name by which they are loaded again."""
    name = token_urlsafe(6)
    request.session[_KEY] = {
        "name": name,
        "workspace": request.membership.workspace_id,
        "at": clock.now().isoformat(),
        "rows": [_convert_result_to_user_session_dict(result) for result in settled],
    }
    return name


def load_bulk_results(request: MemberRequest, name: str) -> BulkResults | None:
    """Load the stored results in one query, or None if they were replaced or belong to another workspace."""
    stored: Any = request.session.get(_KEY)
    workspace = request.membership.workspace_id
    if not name or stored is None or (stored["name"], stored["workspace"]) != (name, workspace):
        return None
    calls = ToolCall.objects.filter(workspace=workspace).in_bulk([row["call"] for row in stored["rows"]])
    rows = [
        _build_result_of_one_call_from_user_session(calls[row["call"]], row)
        for row in stored["rows"]
        if row["call"] in calls
    ]
    return BulkResults(datetime.fromisoformat(stored["at"]), tuple(rows))


def _convert_result_to_user_session_dict(result: BulkDecisionResult) -> dict[str, Any]:
    refused = None if result.refused is None else asdict(result.refused)
    return {"call": result.call.pk, "kind": str(result.kind), "refused": refused, "final": result.final}


def _build_result_of_one_call_from_user_session(call: ToolCall, row: dict[str, Any]) -> BulkDecisionResult:
    refused = row["refused"] and DecisionProblem(**row["refused"])
    return BulkDecisionResult(call, DecisionKind(row["kind"]), refused or None, final=row["final"])
