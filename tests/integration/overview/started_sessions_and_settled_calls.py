"""Sessions that have started, calls that are settled, and the totals of a period."""

from datetime import UTC, datetime, timedelta

from django.db.models import F
from django.http import QueryDict

from checkpoints.enums import CallStatus
from checkpoints.models import Session, ToolCall
from harness_site.overview import period_totals, periods
from tests.support.factories import make_call, make_session, make_workspace


def make_started_session(days_ago: float, cost: str = "0", **fields: object) -> Session:
    session = make_session(budget_spent_usd=cost, **fields)  # type: ignore[arg-type]
    Session.objects.filter(pk=session.pk).update(created_at=F("created_at") - timedelta(days=days_ago))
    return session


def make_settled_call(
    tool: str, *, seconds: float = 1, status: CallStatus = CallStatus.COMPLETED, **fields: object
) -> ToolCall:
    now = datetime.now(UTC)
    times = {"issued_at": now, "settled_at": now + timedelta(seconds=seconds)}
    return make_call(session=make_session(), tool=tool, status=status, **times, **fields)  # type: ignore[arg-type]


def load_totals(query: str = "") -> period_totals.PeriodTotals:
    period, problem = periods.parse_period_and_problem(QueryDict(query), datetime.now(UTC))
    assert not problem
    return period_totals.load_period_totals(make_workspace().pk, period)
