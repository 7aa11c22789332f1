"""What came of settling many calls: kept with the sign-in, so that its page can be loaded again and gone back to."""

from dataclasses import asdict, dataclass
from datetime import datetime
from secrets import token_urlsafe
from typing import Any, Final

from checkpoints import clock
from checkpoints.enums import DecisionKind
from checkpoints.models import ToolCall
from harness_site.accounts.guard import MemberRequest
from harness_site.review.problems import Problem
from harness_site.review.settling import Settled

#: Where a sign-in remembers the last one.
_KEY: Final = "settled"


@dataclass(frozen=True, slots=True)
class Outcome:
    at: datetime
    rows: tuple[Settled, ...]

    @property
    def recorded(self) -> list[Settled]:
        return [one for one in self.rows if one.refused is None]

    @property
    def refused(self) -> list[Settled]:
        return [one for one in self.rows if one.refused is not None]


def keep(request: MemberRequest, settled: list[Settled]) -> str:
    """Remember this in place of what was settled before; returns the name for `kept`."""
    name = token_urlsafe(6)
    request.session[_KEY] = {
        "name": name,
        "workspace": request.membership.workspace_id,
        "at": clock.now().isoformat(),
        "rows": [_row(one) for one in settled],
    }
    return name


def kept(request: MemberRequest, name: str) -> Outcome | None:
    """None where something else was settled since, or in another workspace; one query."""
    found: Any = request.session.get(_KEY)
    workspace = request.membership.workspace_id
    if not name or found is None or (found["name"], found["workspace"]) != (name, workspace):
        return None
    calls = ToolCall.objects.filter(workspace=workspace).in_bulk([row["call"] for row in found["rows"]])
    rows = [_settled(calls[row["call"]], row) for row in found["rows"] if row["call"] in calls]
    return Outcome(datetime.fromisoformat(found["at"]), tuple(rows))


def _row(one: Settled) -> dict[str, Any]:
    refused = None if one.refused is None else asdict(one.refused)
    return {"call": one.call.pk, "kind": str(one.kind), "refused": refused, "final": one.final}


def _settled(call: ToolCall, row: dict[str, Any]) -> Settled:
    refused = row["refused"] and Problem(**row["refused"])
    return Settled(call, DecisionKind(row["kind"]), refused or None, final=row["final"])
