"""Guarded tools of agents of ADK: approvals in the inbox, requests for confirmations, and replays that are equal."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.runners import InMemoryRunner, Runner
from google.adk.tools import FunctionTool, ToolContext, exit_loop
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import Workflow
from google.genai import types

from checkpoints import SyncCheckpointer, ToolPolicies
from checkpoints.adapters.google_adk import Harness, HarnessSessionService
from checkpoints.exceptions import ApprovalRequired, InvalidInput, ReviewRequired, SessionBusy
from checkpoints.models import Run, Session, ToolCall
from checkpoints.tools.idempotency import IdempotencyPolicy
from tests.conftest import Open
from tests.support.exhaustive_mode import mark_all_but_combinations

ASKS = ToolPolicies({"pay": {"requires_approval": True, "sentence": "Pay {amount}"}})
ABOUT: Any = {"actor": "alice", "reason": "It is due."}
PLACE = "office/ann/s"


class _Script(BaseLlm):
    """Model that makes the given calls, one in each answer or all at once, and then says the last result."""

    model: str = "script"
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    makes_all_at_once: bool = False

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        asked = max(
            number
            for number, content in enumerate(llm_request.contents)
            if content.role == "user" and any(part.text for part in content.parts or ())
        )
        results = [
            part.function_response.response
            for content in llm_request.contents[asked:]
            for part in content.parts or ()
            if part.function_response is not None
        ]
        if len(results) < len(self.calls):
            following = self.calls[len(results) :] if self.makes_all_at_once else [self.calls[len(results)]]
            parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in following]
        else:
            parts = [types.Part(text=f"It is: {results[-1]}" if results else "Nothing to do.")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class _Desk:
    """Runs of one agent; each is one of another process."""

    def __init__(
        self,
        cp: SyncCheckpointer,
        tools: Sequence[Any],
        calls: Sequence[tuple[str, dict[str, Any]]],
        policies: ToolPolicies | None = None,
        plugins: Sequence[BasePlugin] = (),
        *,
        makes_all_at_once: bool = False,
        session_id: str = "s",
        **options: Any,
    ) -> None:
        self.cp, self._tools, self._session_id = cp, tools, session_id
        self._model = _Script(calls=calls, makes_all_at_once=makes_all_at_once)
        self._policies, self._plugins, self._options = policies, plugins, options

    def _build(self) -> tuple[Runner, Harness]:
        service = HarnessSessionService(self.cp)
        harness = Harness(service, self._policies)
        options = {**self._options, "sub_agents": [agent.clone() for agent in self._options.get("sub_agents", ())]}
        agent = LlmAgent(name="desk", model=self._model, tools=list(self._tools), **options)
        app = App(name="office", root_agent=agent, plugins=[harness, *self._plugins])
        return Runner(app=app, session_service=service, auto_create_session=True), harness

    def ask(self, text: str = "Please.") -> list[Event]:
        return self._run(types.Content(role="user", parts=[types.Part(text=text)]))

    def go_on(self) -> list[Event]:
        message = self.build_confirmations()
        assert message is not None
        return self._run(message)

    def build_confirmations(self) -> types.Content | None:
        _, harness = self._build()
        return asyncio.run(harness.build_confirmations(app_name="office", user_id="ann", session_id=self._session_id))

    def _run(self, message: types.Content) -> list[Event]:
        async def run() -> list[Event]:
            runner, _ = self._build()
            events = runner.run_async(user_id="ann", session_id=self._session_id, new_message=message)
            return [event async for event in events]

        return asyncio.run(run())

    def load_state(self) -> dict[str, Any]:
        service = HarnessSessionService(self.cp)
        session = asyncio.run(service.get_session(app_name="office", user_id="ann", session_id="s"))
        assert session is not None
        return session.state


def _say(events: list[Event]) -> str:
    texts = [part.text for event in events if event.content for part in event.content.parts or () if part.text]
    return texts[-1] if texts else ""


def _requests(events: list[Event]) -> list[dict[str, Any]]:
    return [
        dict(request.payload or {})
        for event in events
        for request in event.actions.requested_tool_confirmations.values()
    ]


# ---- approvals


def _approve(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.approve_call(PLACE, call["call_id"], revision=call["revision"], **ABOUT)


def _edit(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.edit_call(PLACE, call["call_id"], {"amount": "7.00"}, revision=call["revision"], **ABOUT)
    for edited in cp.pending_tool_calls(PLACE):
        cp.approve_call(PLACE, call["call_id"], revision=edited["revision"], **{**ABOUT, "actor": "bob"})


def _reject(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.reject_call(PLACE, call["call_id"], "Not this month.", revision=call["revision"], **ABOUT)


def _respond(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.respond_call(PLACE, call["call_id"], "It was paid by hand.", revision=call["revision"], **ABOUT)


@pytest.mark.parametrize(
    ("decide", "paid", "says", "idempotency"),
    mark_all_but_combinations(
        [
            (_approve, ["12.50"], "It is: {'result': 'paid 12.50'}"),
            (_edit, ["7.00"], "It is: {'result': 'paid 7.00'}"),
            (_reject, [], "It is: {'error': 'Not this month.'}"),
            (_respond, [], "It is: {'result': 'It was paid by hand.'}"),
        ],
        ["unanswered", "call"],
    ),
)
def test_call_runs_as_a_person_decided(
    cp: SyncCheckpointer, decide: Callable[..., None], paid: list[str], says: str, idempotency: IdempotencyPolicy
) -> None:
    policies = ToolPolicies({"pay": {"requires_approval": True}}, idempotency=idempotency)
    done: list[str] = []

    def pay(amount: str) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    desk = _Desk(cp, [pay], [("pay", {"amount": "12.50"})], policies)
    (request,) = _requests(desk.ask())
    assert request["type"] == "approval_required"
    assert request["session_id"] == PLACE
    assert desk.build_confirmations() is None
    assert not Run.objects.filter(status="running").exists()
    (call,) = cp.pending_tool_calls(PLACE)
    assert call["status"] == "awaiting_approval"
    decide(cp, call)
    assert _say(desk.go_on()) == says
    assert done == paid
    assert desk.build_confirmations() is None  # it is answered
    assert not cp.pending_tool_calls(PLACE)


@pytest.mark.parametrize(
    ("decide", "paid", "status"), [(_approve, ["1"], "ready"), (_reject, [], "active"), (_respond, [], "active")]
)
def test_session_is_not_ready_to_resume_when_the_agent_has_answered_something_else_unless_a_call_is_to_start(
    cp: SyncCheckpointer, decide: Callable[..., None], paid: list[str], status: str
) -> None:
    done: list[str] = []

    def pay(amount: str) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    desk = _Desk(cp, [pay], [("pay", {"amount": "1"})], ASKS)
    desk.ask()
    talk = _Desk(cp, [pay], [])
    talk.ask("How are you?")
    assert Session.objects.get(session_id=PLACE).status == "needs_review"
    decide(cp, cp.pending_tool_calls(PLACE)[0])
    assert Session.objects.get(session_id=PLACE).status == "ready"
    assert _say(talk.ask("How are you?")) == "Nothing to do."
    assert Session.objects.get(session_id=PLACE).status == status
    desk.go_on()
    assert done == paid
    assert Session.objects.get(session_id=PLACE).status == "active"


def test_approval_behind_a_confirmation_of_adk_itself_raises(cp: SyncCheckpointer) -> None:
    done: list[str] = []

    def pay(amount: str) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    desk = _Desk(cp, [FunctionTool(pay, require_confirmation=True)], [("pay", {"amount": "1"})], ASKS)
    (request,) = [call for event in desk.ask() for call in event.get_function_calls() if call.name != "pay"]
    assert not cp.pending_tool_calls(PLACE)  # ADK asks before the guard does
    answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": True})
    with pytest.raises(ApprovalRequired):
        desk._run(types.Content(role="user", parts=[types.Part(function_response=answer)]))
    assert done == []


# ---- requests that a later prompt has left open


def _make_payer(done: list[str]) -> Callable[[str], str]:
    def pay(amount: str) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    return pay


def test_call_that_two_prompts_have_asked_for_runs_once(cp: SyncCheckpointer) -> None:
    done: list[str] = []
    desk = _Desk(cp, [_make_payer(done)], [("pay", {"amount": "5"})], ASKS)
    assert len(_requests(desk.ask())) == 1
    assert len(_requests(desk.ask("What about my payment?"))) == 1
    (call,) = cp.pending_tool_calls(PLACE)
    _approve(cp, call)
    assert _say(desk.go_on()) == "It is: {'result': 'paid 5'}"
    assert desk.build_confirmations() is None
    assert done == ["5"]
    assert not cp.pending_tool_calls(PLACE)


@pytest.mark.parametrize("idempotency", ["unanswered", "call"])
def test_interrupted_call_does_not_run_again_in_a_session_that_continues(
    cp: SyncCheckpointer, idempotency: IdempotencyPolicy
) -> None:
    tries: list[int] = []

    def send() -> str:
        """Send."""
        tries.append(1)
        raise TimeoutError("No answer.")

    desk = _Desk(cp, [send], [("send", {})], ToolPolicies(idempotency=idempotency))
    assert len(_requests(desk.ask())) == 1
    if idempotency == "unanswered":  # by the other policy, the call of another prompt is another operation
        assert len(_requests(desk.ask("Was it sent?"))) == 1
    (call,) = cp.pending_tool_calls(PLACE)
    cp.confirm_landed(PLACE, call["call_id"], "It was sent.", revision=call["revision"], **ABOUT)
    assert _say(desk.go_on()) == "It is: {'result': 'It was sent.'}"
    assert desk.build_confirmations() is None
    assert len(tries) == 1


def test_requests_of_two_prompts_are_answered_one_after_the_other(cp: SyncCheckpointer) -> None:
    done: list[str] = []
    first, second = (_Desk(cp, [_make_payer(done)], [("pay", {"amount": amount})], ASKS) for amount in ("5", "7"))
    first.ask()
    second.ask("And the other bill.")
    _approve(cp, *cp.pending_tool_calls(PLACE))
    assert len((first.build_confirmations() or types.Content()).parts or ()) == 1
    second.go_on()
    assert done == ["5"]
    with pytest.raises(ApprovalRequired):  # the other call waited behind this one, and was not logged yet
        second.go_on()
    _approve(cp, *cp.pending_tool_calls(PLACE))
    second.go_on()
    assert done == ["5", "7"]
    assert second.build_confirmations() is None


def test_equal_call_that_is_another_operation_keeps_its_request(cp: SyncCheckpointer) -> None:
    done: list[str] = []
    policies = ToolPolicies({"pay": {"requires_approval": True}}, idempotency="call")
    desk = _Desk(cp, [_make_payer(done)], [("pay", {"amount": "5"})], policies)
    desk.ask()
    desk.ask("And another one.")
    _approve(cp, *cp.pending_tool_calls(PLACE))
    desk.go_on()
    assert done == ["5"]
    with pytest.raises(ApprovalRequired):  # the other call waited behind this one, and was not logged yet
        desk.go_on()
    _approve(cp, *cp.pending_tool_calls(PLACE))
    desk.go_on()
    assert done == ["5", "5"]


def test_run_continues_only_after_all_its_calls_are_decided(cp: SyncCheckpointer) -> None:
    done: list[str] = []
    calls = [("pay", {"amount": "5"}), ("pay", {"amount": "7"})]
    desk = _Desk(cp, [_make_payer(done)], calls, ASKS, makes_all_at_once=True)
    desk.ask()
    first, second = cp.pending_tool_calls(PLACE)
    _approve(cp, first)
    assert desk.build_confirmations() is None
    _approve(cp, second)
    desk.go_on()
    assert sorted(done) == ["5", "7"]


def test_request_that_was_rewound_is_not_answered(cp: SyncCheckpointer) -> None:
    done: list[str] = []
    desk = _Desk(cp, [_make_payer(done)], [("pay", {"amount": "5"})], ASKS)
    asked = desk.ask()
    runner, _ = desk._build()
    asyncio.run(runner.rewind_async(user_id="ann", session_id="s", rewind_before_invocation_id=asked[0].invocation_id))
    (call,) = cp.pending_tool_calls(PLACE)
    _approve(cp, call)
    assert desk.build_confirmations() is None
    assert _say(desk.ask()) == "It is: {'result': 'paid 5'}"
    assert done == ["5"]


# ---- replays


def _refuse_to_store_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process fail between the result of a tool, which is logged, and the event that has it."""
    append = HarnessSessionService.append_event

    async def fail(self: HarnessSessionService, session: Any, event: Event) -> Event:
        if event.get_function_responses() and event.author != "user":
            raise ConnectionError("The process ends here.")
        return await append(self, session, event)

    monkeypatch.setattr(HarnessSessionService, "append_event", fail)


@pytest.mark.parametrize("idempotency", ["unanswered", "call"])
def test_fork_does_not_repeat_a_call_whose_result_its_origin_has_not_stored(
    cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch, idempotency: IdempotencyPolicy
) -> None:
    done: list[str] = []
    policies = ToolPolicies({"pay": {"requires_approval": True}}, idempotency=idempotency)
    origin, fork = (
        _Desk(cp, [_make_payer(done)], [("pay", {"amount": "5"})], policies, session_id=session_id)
        for session_id in ("s", "fork")
    )
    origin.ask()
    _approve(cp, *cp.pending_tool_calls(PLACE))
    with monkeypatch.context() as patch:
        _refuse_to_store_results(patch)
        with pytest.raises(ConnectionError):
            origin.go_on()
    cp.fork_session(PLACE, "office/ann/fork")
    for desk in (fork, origin):
        assert _say(desk.go_on()) == "It is: {'result': 'paid 5'}"
    assert done == ["5"]


PNG = types.Part.from_bytes(data=b"\x89PNG\xff\xfb", mime_type="image/png")


@pytest.mark.parametrize(
    "value",
    ["text", {"a": [1, 2.5, None], "b": {"c": True}}, [1, "two"], 3, None, PNG, [PNG, "caption"], {"result": "text"}],
    ids=repr,
)
def test_replayed_result_and_state_equal_those_of_the_first_run(
    cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    done: list[int] = []

    def draw(tool_context: ToolContext) -> Any:
        """Draw."""
        done.append(1)
        tool_context.state["drawn"] = {"times": len(done)}
        tool_context.state["user:drawn"] = True
        return value

    desk, other = (_Desk(cp, [draw], [("draw", {})]) for _ in range(2))
    with monkeypatch.context() as patch:
        _refuse_to_store_results(patch)
        with pytest.raises(ConnectionError):
            desk.ask()
    assert not Run.objects.filter(status="running").exists()
    replayed = other.ask()
    assert done == [1]
    assert other.load_state() == {"drawn": {"times": 1}, "user:drawn": True}
    (result,) = [event for event in replayed if event.get_function_responses()]
    fresh = _Desk(cp, [draw], [("draw", {})]).ask("Again, please.")
    (again,) = [event for event in fresh if event.get_function_responses()]
    assert result.get_function_responses()[0].response == again.get_function_responses()[0].response
    assert result.get_function_responses()[0].parts == again.get_function_responses()[0].parts
    assert done == [1, 1]  # a result in the transcript closes its call: the next request is another one


def test_failed_call_runs_again(cp: SyncCheckpointer) -> None:
    tries: list[int] = []

    def send() -> dict[str, str]:
        """Send."""
        tries.append(1)
        return {"error": "The address is unknown."} if len(tries) == 1 else {"sent": "yes"}

    desk = _Desk(cp, [send], [("send", {}), ("send", {})])
    assert _say(desk.ask()) == "It is: {'sent': 'yes'}"
    assert [call.status for call in ToolCall.objects.order_by("pk")] == ["failed", "completed"]


def test_error_of_a_tool_reaches_the_program_and_releases_the_session(cp: SyncCheckpointer) -> None:
    def send() -> str:
        """Send."""
        raise ZeroDivisionError("No.")

    with pytest.raises(ZeroDivisionError):
        _Desk(cp, [send], [("send", {})]).ask()
    assert ToolCall.objects.get().status == "failed"
    assert not Run.objects.filter(status="running").exists()


def test_lost_connection_is_decided_by_a_person(cp: SyncCheckpointer) -> None:
    def send() -> str:
        """Send."""
        raise TimeoutError("No answer.")

    desk = _Desk(cp, [send], [("send", {})])
    (request,) = _requests(desk.ask())
    assert request["type"] == "review_required"
    (call,) = cp.pending_tool_calls(PLACE)
    assert call["status"] == "interrupted"
    cp.confirm_landed(PLACE, call["call_id"], "It was sent.", revision=call["revision"], **ABOUT)
    assert _say(desk.go_on()) == "It is: {'result': 'It was sent.'}"


def test_tool_that_asks_its_user_itself_runs_again(cp: SyncCheckpointer) -> None:
    done: list[bool] = []

    def pay(tool_context: ToolContext) -> dict[str, str]:
        """Pay."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="Really?")
            return {"waits": "yes"}
        done.append(tool_context.tool_confirmation.confirmed)
        return {"paid": "yes"}

    desk = _Desk(cp, [pay], [("pay", {})])
    (request,) = [call for event in desk.ask() for call in event.get_function_calls() if call.name != "pay"]
    answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": True})
    events = desk._run(types.Content(role="user", parts=[types.Part(function_response=answer)]))
    assert done == [True]
    assert _say(events) == "It is: {'paid': 'yes'}"
    assert [call.status for call in ToolCall.objects.order_by("pk")] == ["failed", "completed"]


# ---- which tools


def test_reading_tools_and_the_tools_of_adk_are_not_logged(cp: SyncCheckpointer) -> None:
    def get_order() -> str:
        """Get."""
        return "paid"

    billing = LlmAgent(name="billing", model=_Script(), description="Knows bills.")
    calls = [("get_order", {}), ("transfer_to_agent", {"agent_name": "billing"})]
    policies = ToolPolicies({"get_*": {"side_effects": {"read"}}})
    events = _Desk(cp, [get_order], calls, policies, sub_agents=[billing]).ask()
    assert events[-1].author == "billing"
    assert not ToolCall.objects.exists()


@pytest.mark.parametrize("name", ["exit_loop", "finish_task", "set_model_response", "transfer_to_agent"])
def test_tool_that_has_the_name_of_one_of_adk_is_guarded(cp: SyncCheckpointer, name: str) -> None:
    done: list[int] = []

    def close_ticket() -> str:
        """Close the ticket."""
        done.append(1)
        return "closed"

    tool = FunctionTool(close_ticket)
    tool.name = name
    desk = _Desk(cp, [tool], [(name, {})], ToolPolicies({"*": {"requires_approval": True}}))
    (request,) = _requests(desk.ask())
    assert request["type"] == "approval_required"
    assert done == []


def test_tool_that_ends_a_loop_is_not_logged(cp: SyncCheckpointer) -> None:
    events = _Desk(cp, [exit_loop], [("exit_loop", {})]).ask()
    assert any(event.actions.escalate for event in events)
    assert not ToolCall.objects.exists()


def test_other_callbacks_see_what_they_see_without_the_guard(cp: SyncCheckpointer) -> None:
    seen: list[str] = []

    def send(to: str) -> str:
        """Send."""
        seen.append(f"tool {to}")
        return "sent"

    def before(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
        seen.append(f"before {args['to']}")
        args["to"] = "bob"

    def after(tool: Any, args: dict[str, Any], tool_context: ToolContext, tool_response: Any) -> dict[str, str]:
        seen.append(f"after {tool_response}")
        return {"result": "replaced"}

    desk = _Desk(cp, [send], [("send", {"to": "ann"})], before_tool_callback=before, after_tool_callback=after)
    assert _say(desk.ask()) == "It is: {'result': 'replaced'}"
    assert seen == ["before ann", "tool bob", "after sent"]
    assert ToolCall.objects.get().args == '{"to":"bob"}'


def test_tool_that_is_shared_with_another_runner_is_guarded_only_here(cp: SyncCheckpointer) -> None:
    done: list[int] = []

    def send() -> str:
        """Send."""
        done.append(1)
        return "sent"

    tool = FunctionTool(send)
    assert _say(_Desk(cp, [tool], [("send", {})]).ask()) == "It is: {'result': 'sent'}"

    async def run_elsewhere() -> None:
        runner = InMemoryRunner(agent=LlmAgent(name="desk", model=_Script(calls=[("send", {})]), tools=[tool]))
        await runner.run_debug("Please.", quiet=True)

    asyncio.run(run_elsewhere())
    assert done == [1, 1]
    assert ToolCall.objects.count() == 1


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # ADK gives it itself
def test_calls_of_an_agent_that_is_a_tool_are_logged_in_the_session_and_closed(cp: SyncCheckpointer) -> None:
    done: list[str] = []

    def pay(amount: str) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    payer = LlmAgent(
        name="payer", model=_Script(calls=[("pay", {"amount": "5"})]), tools=[pay], description="Pays bills."
    )
    desk = _Desk(cp, [AgentTool(payer)], [("payer", {"request": "Pay 5."})], ASKS)
    (request,) = _requests(desk.ask())
    assert request["type"] == "approval_required"
    assert done == []
    (call,) = cp.pending_tool_calls(PLACE)
    _approve(cp, call)
    assert "paid 5" in _say(desk.go_on())
    assert done == ["5"]
    assert not ToolCall.objects.filter(answered_version=None).exists()
    assert not Run.objects.filter(status="running").exists()


def _build_single_turn_agent(tool: Callable[..., Any], **options: Any) -> LlmAgent:
    return LlmAgent(
        name="payer",
        model=_Script(calls=[("pay", {"amount": "5"})]),
        tools=[tool],
        description="Pays bills.",
        mode="single_turn",
        **options,
    )


def test_call_of_a_single_turn_agent_stops_the_run(cp: SyncCheckpointer) -> None:
    done: list[str] = []
    payer = _build_single_turn_agent(_make_payer(done))
    desk = _Desk(cp, [], [("payer", {"request": "Pay 5."})], ASKS, sub_agents=[payer])
    (request,) = _requests(desk.ask())
    assert request["type"] == "approval_required"
    assert done == []
    (call,) = cp.pending_tool_calls(PLACE)
    _approve(cp, call)
    assert "paid 5" in _say(desk.go_on())
    assert done == ["5"]
    assert desk.build_confirmations() is None
    assert not ToolCall.objects.filter(answered_version=None).exists()


def test_call_of_a_single_turn_agent_that_fails_after_its_approval_raises(cp: SyncCheckpointer) -> None:
    tries: list[str] = []

    def pay(amount: str) -> str:
        """Pay."""
        tries.append(amount)
        raise TimeoutError("No answer.")

    desk = _Desk(cp, [], [("payer", {"request": "Pay 5."})], ASKS, sub_agents=[_build_single_turn_agent(pay)])
    desk.ask()
    _approve(cp, *cp.pending_tool_calls(PLACE))
    with pytest.raises(ReviewRequired):
        desk.go_on()
    (call,) = cp.pending_tool_calls(PLACE)
    cp.confirm_landed(PLACE, call["call_id"], "It was paid.", revision=call["revision"], **ABOUT)
    assert "It was paid." in _say(desk.go_on())
    assert tries == ["5"]


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # ADK gives it itself
def test_call_of_a_single_turn_agent_of_an_agent_that_is_a_tool_stops_the_run(cp: SyncCheckpointer) -> None:
    done: list[str] = []
    office = LlmAgent(
        name="office",
        model=_Script(calls=[("payer", {"request": "Pay 5."})]),
        sub_agents=[_build_single_turn_agent(_make_payer(done))],
        description="Knows a payer.",
    )
    desk = _Desk(cp, [AgentTool(office)], [("office", {"request": "Pay 5."})], ASKS)
    (request,) = _requests(desk.ask())
    assert request["type"] == "approval_required"
    (call,) = cp.pending_tool_calls(PLACE)
    _approve(cp, call)
    assert "paid 5" in _say(desk.go_on())
    assert done == ["5"]


def test_tool_that_is_a_node_of_a_workflow_runs_in_each_invocation(
    cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    async def send(order: int) -> str:
        """Send."""
        done.append(order)
        return f"sent {order}"

    def choose(node_input: object) -> dict[str, int]:
        return {"order": 17}

    def run() -> Any:
        service = HarnessSessionService(cp)
        workflow = Workflow(name="office", edges=[("START", choose, FunctionTool(send))])
        app = App(name="office", root_agent=workflow, plugins=[Harness(service)])
        runner = Runner(app=app, session_service=service, auto_create_session=True)
        return asyncio.run(runner.run_debug("Please.", user_id="ann", session_id="s", quiet=True))[-1].output

    append = HarnessSessionService.append_event

    async def fail(self: HarnessSessionService, session: Any, event: Event) -> Event:
        if event.output == "sent 17":
            raise ConnectionError("The process ends here.")
        return await append(self, session, event)

    with monkeypatch.context() as patch:
        patch.setattr(HarnessSessionService, "append_event", fail)
        with pytest.raises(ConnectionError):
            run()
    assert run() == "sent 17"  # the result of the call that no event has
    assert done == [17]
    assert run() == "sent 17"
    assert done == [17, 17]


def test_tool_that_a_program_runs_itself_is_logged_under_an_identifier_of_its_own(cp: SyncCheckpointer) -> None:
    done: list[str] = []

    async def send(to: str) -> str:
        """Send."""
        done.append(to)
        return "sent"

    class Caller(BasePlugin):
        """Plugin that runs the tool twice more, without an answer of a model."""

        async def after_tool_callback(
            self, *, tool: Any, tool_args: Any, tool_context: ToolContext, result: Any
        ) -> None:
            for to in ("bob", "eve"):
                own = ToolContext(tool_context._invocation_context)
                await tool.run_async(args={"to": to}, tool_context=own)

    _Desk(cp, [send], [("send", {"to": "ann"})], plugins=[Caller("caller")]).ask()
    assert done == ["ann", "bob", "eve"]
    assert len(set(ToolCall.objects.values_list("call_id", flat=True))) == 3


# ---- who may run


def test_call_is_refused_after_somebody_else_continued_the_session(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    done: list[int] = []
    others = HarnessSessionService(open_checkpointer())

    class Overtaker(BasePlugin):
        """Plugin that lets another process append an event before the tool runs."""

        async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: ToolContext) -> None:
            session = await others.get_session(app_name="office", user_id="ann", session_id="s")
            assert session is not None
            await others.append_event(
                session, Event(author="user", content=types.Content(parts=[types.Part(text="No")]))
            )

    def send() -> str:
        """Send."""
        done.append(1)
        return "sent"

    with pytest.raises(ValueError, match="Another process has"):
        _Desk(cp, [send], [("send", {})], plugins=[Overtaker("overtaker")]).ask()
    assert done == []
    assert not ToolCall.objects.exists()


def test_second_process_is_refused_while_a_call_runs(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    refused: list[Exception] = []
    other = open_checkpointer()

    async def send() -> str:
        """Send."""
        with pytest.raises(SessionBusy) as busy:
            await asyncio.to_thread(other.start_session, PLACE)
        refused.append(busy.value)
        return "sent"

    assert _say(_Desk(cp, [send], [("send", {})]).ask()) == "It is: {'result': 'sent'}"
    assert len(refused) == 1


def test_client_of_a_server_is_refused() -> None:
    with SyncCheckpointer("http://127.0.0.1:9", token="x") as remote, pytest.raises(InvalidInput, match="a database"):
        HarnessSessionService(remote)
