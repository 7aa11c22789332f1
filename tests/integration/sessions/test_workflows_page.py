"""The workflows page: steps in order with their outcomes."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind, KeyScope
from checkpoints.models import Session, Workflow, WorkflowStep
from harness_site.sessions.selectors import workflow_steps
from harness_site.sessions.selectors.workflow_steps import WorkflowCursor
from tests.support.factories import THEN, make_call, make_decision, make_run, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    return session


def make_step(workflow: Workflow, step_id: str, **fields: Any) -> WorkflowStep:
    position = workflow.steps.count()
    given: dict[str, Any] = {
        "call_id": f"{workflow.workflow_id}/{step_id}",
        "idempotency_key": f"k-{workflow.pk}-{position}",
    }
    given |= {"function": "OrderSteps.charge", "version": "1", "args_digest": "d", "schema_version": 1} | fields
    return WorkflowStep.objects.create(
        session=workflow.session, workflow=workflow, step_id=step_id, position=position, **given
    )


def make_workflow(session: Session, workflow_id: str = "order-17") -> Workflow:
    return Workflow.objects.create(session=session, workflow_id=workflow_id)


def test_steps_are_listed_in_order_with_their_outcomes(session: Session, reader: Client) -> None:
    workflow = make_workflow(session)
    done = make_step(workflow, "reserve", function="OrderSteps.reserve")
    unknown = make_step(workflow, "charge", version="2", generation=2)
    make_step(workflow, "ship")
    make_call(session=session, call_id=done.call_id, status=CallStatus.FAILED)
    make_call(session=session, call_id=done.call_id, attempt=2, status=CallStatus.COMPLETED, result="done at last")
    lost = make_call(session=session, call_id=unknown.call_id, args={"order": 17})
    page = reader.get(f"/sessions/{session.pk}/workflows/")
    words = visible_text(page)
    assert "1 completed 1 outcome unknown 1 not started" in words
    assert "1 reserve OrderSteps.reserve amount 40.00, currency EUR, order 17 Completed" in words
    assert "attempt 2" in words
    assert "done at last" in words
    charge = (
        "2 charge OrderSteps.charge version 2 its function, version or arguments changed once before it ran order 17 "
        "Outcome unknown"
    )
    assert charge in words
    assert "Its run died during the call" in words
    assert "3 ship OrderSteps.charge Not started – –" in words
    assert f'href="/review/calls/{lost.pk}/"' in page.content.decode()
    assert [len(step.attempts) for step in workflow_steps.load_workflow_page(session.pk).parts[0].steps] == [2, 1, 0]


@pytest.mark.parametrize(
    ("error_type", "result", "shown"),
    [
        ("ValueError", "OrderSteps.charge raised ValueError: no such card", "ValueError: no such card –"),
        ("ValueError", "no such card", "ValueError: no such card –"),
        ("ValueError", None, "ValueError –"),
    ],
)
def test_error_of_a_step_is_said_once(
    session: Session, reader: Client, error_type: str, result: str | None, shown: str
) -> None:
    step = make_step(make_workflow(session), "charge")
    fields: dict[str, Any] = {
        "error_type": error_type,
        "result": result,
        "tool": step.function,
        "status": CallStatus.FAILED,
    }
    make_call(session=session, call_id=step.call_id, **fields)
    words = visible_text(reader.get(f"/sessions/{session.pk}/workflows/"))
    assert f"run 1 {shown}" in words
    assert "raised" not in words


def test_step_without_a_named_function_has_no_name_of_it(session: Session, reader: Client) -> None:
    make_step(make_workflow(session), "charge", function="open_order.<locals>.<lambda>")
    assert "lambda" not in visible_text(reader.get(f"/sessions/{session.pk}/workflows/"))


def test_decision_about_a_step_is_shown(session: Session, reader: Client) -> None:
    step = make_step(make_workflow(session), "charge")
    make_decision(
        call=make_call(session=session, call_id=step.call_id, status=CallStatus.COMPLETED),
        kind=DecisionKind.CONFIRM_LANDED,
    )
    assert "alice: It happened" in visible_text(reader.get(f"/sessions/{session.pk}/workflows/"))


def test_step_may_be_answered_by_another_session(session: Session, reader: Client) -> None:
    step = make_step(make_workflow(session), "charge", idempotency_key="everywhere")
    there = make_call(
        session=make_session(),
        idempotency_key=step.idempotency_key,
        key_scope=KeyScope.WORKSPACE,
        status=CallStatus.COMPLETED,
    )
    make_call(
        session=make_session(workspace=make_workspace(slug="elsewhere")),
        idempotency_key=step.idempotency_key,
        key_scope=KeyScope.WORKSPACE,
        status=CallStatus.ISSUED,
    )
    page = reader.get(f"/sessions/{session.pk}/workflows/")
    assert "Completed in another session" in visible_text(page)
    assert f'href="/sessions/{there.session_id}/calls/{there.pk}/"' in page.content.decode()


def test_pages_of_steps_are_consecutive_across_workflows(session: Session) -> None:
    for name in ("a", "b"):
        workflow = make_workflow(session, name)
        for number in range(3):
            make_step(workflow, str(number))
    seen: list[tuple[str, str, bool]] = []
    place: WorkflowCursor | None = None
    while True:
        page = workflow_steps.load_workflow_page(session.pk, after=place, size=2)
        seen += [(part.workflow_id, step.step_id, part.begun) for part in page.parts for step in part.steps]
        if page.after is None:
            break
        place = WorkflowCursor.parse(str(page.after))
    assert [each[:2] for each in seen] == [(name, number) for name in "ab" for number in "012"]
    assert [begun for *_, begun in seen] == [True, True, False, True, False, False]


def test_tab_is_shown_only_with_a_workflow(session: Session, reader: Client) -> None:
    path = f"/sessions/{session.pk}/workflows/"
    assert path not in reader.get(f"/sessions/{session.pk}/plan/").content.decode()
    assert "This session has no workflow." in visible_text(reader.get(path))
    make_workflow(session)
    assert path in reader.get(f"/sessions/{session.pk}/plan/").content.decode()
    assert "No step has been requested yet." in visible_text(reader.get(path))


def test_text_of_agents_is_escaped(session: Session, reader: Client) -> None:
    step = make_step(make_workflow(session, SCRIPT), SCRIPT, function=SCRIPT, version=SCRIPT, call_id="c")
    make_call(session=session, call_id=step.call_id, args={SCRIPT: SCRIPT}, error_type=SCRIPT, result=SCRIPT)
    html = reader.get(f"/sessions/{session.pk}/workflows/").content.decode()
    assert SCRIPT not in html
    assert html.count("&lt;script&gt;alert(1)") >= 7


def test_secrets_in_steps_are_masked(session: Session, reader: Client) -> None:
    step = make_step(make_workflow(session), "login")
    make_call(
        session=session,
        call_id=step.call_id,
        args={"password": "hunter22"},
        result="token=abcdef123456",
        issued_at=THEN,
    )
    words = visible_text(reader.get(f"/sessions/{session.pk}/workflows/"))
    assert "hunter22" not in words
    assert "abcdef123456" not in words
    assert words.count("‹masked›") == 2


@pytest.mark.parametrize("count", [1, 3])
def test_query_count_is_independent_of_the_steps(
    session: Session, reader: Client, count: int, django_assert_num_queries: Queries
) -> None:
    for name in range(count):
        workflow = make_workflow(session, str(name))
        for number in range(count):
            make_decision(call=make_call(session=session, call_id=make_step(workflow, str(number)).call_id))
        make_step(workflow, "not begun")
    with django_assert_num_queries(13):
        reader.get(f"/sessions/{session.pk}/workflows/")
