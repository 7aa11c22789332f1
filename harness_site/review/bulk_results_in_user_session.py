"""Results of the last bulk decision, stored in the user session so that their page can be reloaded, and its decisions
withdrawn."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from secrets import token_urlsafe
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.db import clock
from checkpoints.decisions.actors import Actor
from checkpoints.enums import DecisionKind
from checkpoints.models import ToolCall
from harness_site.accounts.permissions import MemberRequest
from harness_site.review.bulk_decisions import BulkDecisionResult
from harness_site.review.decision_error_texts import DecisionProblem
from harness_site.review.forms import BulkWithdrawForm
from harness_site.review.withdraw_bulk_decisions import (
    BulkDecision,
    BulkDecisionState,
    load_bulk_decisions,
    withdraw_bulk_decisions,
)

#: Key of the results in the user session.
_KEY: Final = "settled"


@dataclass(frozen=True, slots=True)
class BulkResults:
    """Results of a bulk decision: those that were refused, and the recorded decisions with what has become of them."""

    name: str
    at: datetime
    rows: tuple[BulkDecisionResult, ...]
    decisions: tuple[BulkDecision, ...]

    @property
    def refused_results(self) -> list[BulkDecisionResult]:
        return [row for row in self.rows if row.refused is not None]

    @property
    def unused_decisions(self) -> list[BulkDecision]:
        return [decision for decision in self.decisions if decision.state == BulkDecisionState.UNUSED]

    @property
    def withdrawn_decisions(self) -> list[BulkDecision]:
        return [decision for decision in self.decisions if decision.state == BulkDecisionState.WITHDRAWN]

    @property
    def used_decisions(self) -> list[BulkDecision]:
        return [decision for decision in self.decisions if decision.state == BulkDecisionState.USED]


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


def store_withdrawal_problems(request: MemberRequest, problems: Mapping[int, DecisionProblem]) -> None:
    """Store why decisions of the stored batch were not withdrawn, by primary key of the call."""
    request.session[_KEY] = {
        **request.session[_KEY],
        "problems": {str(pk): asdict(problem) for pk, problem in problems.items()},
    }


def load_bulk_results(request: MemberRequest, name: str) -> BulkResults | None:
    """Load the stored results in three queries, or None if they were replaced or belong to another workspace."""
    stored: Any = request.session.get(_KEY)
    workspace = request.membership.workspace_id
    if not name or stored is None or (stored["name"], stored["workspace"]) != (name, workspace):
        return None
    calls = ToolCall.objects.filter(workspace=workspace).select_related("session")
    calls_by_pk = calls.in_bulk([row["call"] for row in stored["rows"]])
    rows = [
        _build_result_of_one_call_from_user_session(calls_by_pk[row["call"]], row)
        for row in stored["rows"]
        if row["call"] in calls_by_pk
    ]
    problems = {int(pk): DecisionProblem(**problem) for pk, problem in stored.get("problems", {}).items()}
    decisions = load_bulk_decisions([row for row in rows if row.refused is None])
    return BulkResults(
        name,
        datetime.fromisoformat(stored["at"]),
        tuple(rows),
        tuple(replace(decision, problem=problems.get(decision.call.pk)) for decision in decisions),
    )


def _convert_result_to_user_session_dict(result: BulkDecisionResult) -> dict[str, Any]:
    refused = None if result.refused is None else asdict(result.refused)
    return {
        "call": result.call.pk,
        "kind": str(result.kind),
        "refused": refused,
        "final": result.final,
        "revision": result.revision,
    }


def _build_result_of_one_call_from_user_session(call: ToolCall, row: dict[str, Any]) -> BulkDecisionResult:
    refused = row["refused"] and DecisionProblem(**row["refused"])
    kind, revision = DecisionKind(row["kind"]), row.get("revision")
    return BulkDecisionResult(call, kind, refused or None, final=row["final"], revision=revision)


def withdraw_stored_bulk_decision(
    request: MemberRequest, form: BulkWithdrawForm, *, actor: Actor
) -> DecisionProblem | None:
    """Withdraw the stored decisions that no run has used; return why they are not there any more, if so."""
    stored = load_bulk_results(request, form.cleaned_data["settled"])
    if stored is None:
        what = _("These decisions can no longer be withdrawn together, because you have decided about others since.")
        return DecisionProblem(409, what, _("Nothing was withdrawn. Withdraw each of them on the page of its call."))
    problems = withdraw_bulk_decisions(
        stored.decisions, by=request.membership, actor=actor, reason=form.cleaned_data["reason"]
    )
    store_withdrawal_problems(request, problems)
    return None
