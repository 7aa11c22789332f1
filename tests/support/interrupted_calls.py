"""Calls that one outage interrupted. Four of five have a late result."""

from typing import Final

from tests.support.forked_site import use_database
from tests.support.site_process import Site

TOOL: Final = "ship_parcel"


def interrupt_calls(site: Site, number: int) -> None:
    """Add `number` interrupted calls to the database of a running site."""
    site.run(interrupt_calls_in_child, number=number)


def interrupt_calls_in_child(database: str, number: int) -> None:
    use_database(database)

    from checkpoints.db import clock
    from checkpoints.enums import SessionStatus
    from tests.support.factories import make_call, make_late_result, make_run, make_session

    now = clock.now()
    for parcel in range(number):
        session = make_session(session_id=f"parcel-{parcel}", agent="shipping", status=SessionStatus.NEEDS_REVIEW)
        make_run(session=session)
        call = make_call(
            session=session,
            tool=TOOL,
            args={"parcel": parcel},
            sentence=f"Ship parcel {parcel}",
            issued_at=now,
            interrupted_at=now,
        )
        if parcel % 5:
            make_late_result(call=call, result=f"shipped as {parcel}")


def request_approvals(site: Site, number: int, *, high_amounts: int = 0) -> None:
    """Add `number` calls that await approval to the database of a running site; with amounts if some are high."""
    site.run(request_approvals_in_child, number=number, high_amounts=high_amounts)


def request_approvals_in_child(database: str, number: int, high_amounts: int) -> None:
    use_database(database)

    from checkpoints.enums import CallStatus, SessionStatus
    from tests.support.factories import make_call, make_session

    for parcel in range(number):
        session = make_session(session_id=f"approval-{parcel}", status=SessionStatus.NEEDS_REVIEW)
        make_call(
            session=session,
            tool=TOOL,
            args={"parcel": parcel, **({"amount": 900 if parcel < high_amounts else 10} if high_amounts else {})},
            sentence=f"Ship parcel {parcel}",
            status=CallStatus.AWAITING_APPROVAL,
        )
