"""Line below a call of a transcript that says that a run was lost during the call, and what became of it."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import ActorKind, CallStatus, DecisionKind, InterruptReason, RunStatus
from checkpoints.models import Session, ToolCall
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_late_result,
    make_message,
    make_run,
    make_session,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

ARGS = {"order": 17}
LOST = "Run 1 was lost during this call (2025-03-04 10:42:08)"


def make_session_with_lost_run(**fields: Any) -> tuple[Session, ToolCall]:
    """Make a session whose framework saved its versions outside of runs, and whose run 1 was lost during a call."""
    session = make_session()
    run = make_run(session=session, owner=False, status=RunStatus.LOST, ended_at=THEN + timedelta(seconds=1))
    call = make_call(
        session=session,
        run=run,
        args=ARGS,
        step=1,
        **{
            "status": CallStatus.COMPLETED,
            "reason": InterruptReason.RUN_LOST,
            "interrupted_at": THEN + timedelta(seconds=1),
            **fields,
        },
    )
    make_message(session=session, role="user", text="Refund it.")
    make_checkpoint(session=session, run=run)
    block = {"kind": "tool_call", "id": "call_9", "name": "refund_card", "args": ARGS}
    make_message(session=session, role="assistant", blocks=[block])
    make_checkpoint(session=session, run=run)
    for checkpoint in session.checkpoints.all():
        checkpoint.run = None
        checkpoint.save(update_fields=["run"])
    return session, call


def read(reader: Client, session: Session) -> str:
    return visible_text(reader.get(f"/sessions/{session.pk}/"))


@pytest.mark.parametrize(
    ("kind", "actor_kind", "result", "words"),
    [
        (
            DecisionKind.CONFIRM_LANDED,
            ActorKind.PERSON,
            "refunded",
            "alice: it happened, with the result that alice wrote",
        ),
        (
            DecisionKind.CONFIRM_LANDED,
            ActorKind.PERSON,
            "This call happened. What it returned is not known.",
            "alice: it happened, and what it returned is not known",
        ),
        (DecisionKind.MARK_FAILED, ActorKind.PERSON, "It did not.", "alice: it did not happen"),
        (DecisionKind.APPROVE_RERUN, ActorKind.PERSON, None, "alice approved one more run"),
        (
            DecisionKind.PROBE_LANDED,
            ActorKind.HOOK,
            "refunded",
            "the tool’s own check found that it happened, and gave the result",
        ),
        (DecisionKind.PROBE_LANDED, ActorKind.HOOK, None, "the tool’s own check found that it happened"),
        (DecisionKind.PROBE_NOT_LANDED, ActorKind.HOOK, None, "the tool’s own check found that it did not happen"),
    ],
)
def test_line_says_who_resolved_the_call_and_who_wrote_its_result(
    reader: Client, kind: DecisionKind, actor_kind: ActorKind, result: str | None, words: str
) -> None:
    session, call = make_session_with_lost_run()
    make_decision(call=call, kind=kind, actor_kind=actor_kind, result=result)
    page = read(reader, session)
    assert f"{LOST} · {words}" in page
    assert page.index("Details", page.index("refund_card")) < page.index(LOST)


def test_line_of_a_late_result_names_it(reader: Client) -> None:
    session, call = make_session_with_lost_run()
    make_late_result(call=call, result="refunded")
    make_decision(call=call, result="refunded")
    assert f"{LOST} · alice: it happened, with the result that the run reported too late" in read(reader, session)


def test_line_of_an_undecided_call_says_that_its_outcome_is_not_recorded(reader: Client) -> None:
    session, call = make_session_with_lost_run(status=CallStatus.INTERRUPTED)
    words = f"{LOST} · nobody has recorded yet whether it happened"
    assert words in read(reader, session)
    make_decision(call=call)
    make_decision(call=call, kind=DecisionKind.WITHDRAW, revision=3)
    assert words in read(reader, session)


def test_call_that_failed_ambiguously_has_no_line_of_a_lost_run(reader: Client) -> None:
    session, _ = make_session_with_lost_run(reason=InterruptReason.AMBIGUOUS_ERROR)
    assert "was lost during this call" not in read(reader, session)


def test_call_that_got_the_stored_result_has_no_line_of_its_own(reader: Client) -> None:
    session, call = make_session_with_lost_run(replay_count=1)
    make_decision(call=call, result="refunded")
    block = {"kind": "tool_call", "id": "call_10", "name": "refund_card", "args": ARGS}
    make_message(session=session, role="assistant", blocks=[block])
    make_checkpoint(session=session)
    page = read(reader, session)
    assert "Nothing ran for this call." in page
    assert page.count("was lost during this call") == 1


def test_next_run_follows_the_run_that_made_a_call_where_versions_have_no_run(reader: Client) -> None:
    session, _ = make_session_with_lost_run()
    run = make_run(session=session, started_at=THEN + timedelta(seconds=4))
    make_message(session=session, role="assistant", text="It is refunded.")
    make_checkpoint(session=session, run=run)
    page = read(reader, session)
    handover = "run 1 was lost (2025-03-04 10:42:08) · run 2 took over after 3.0 s"
    assert page.index(LOST) < page.index(handover) < page.index("It is refunded.")
