"""Guarded tools of the SDK's agents: approvals, replays, handoffs, tools of MCP servers, agents as tools."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    Model,
    ModelProvider,
    ModelResponse,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    Runner,
    RunState,
    ToolOutputImage,
    ToolOutputText,
    Usage,
    function_tool,
)
from agents.mcp import MCPServer
from agents.run import set_default_agent_runner
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, TextContent
from mcp.types import Tool as MCPTool

from checkpoints import Checkpointer, SyncCheckpointer, ToolPolicies
from checkpoints.adapters.openai_agents import HarnessRunner, HarnessSession, guard_agent, use_harness
from checkpoints.enums import CallStatus
from checkpoints.exceptions import ApprovalRequired, InvalidInput, ReviewRequired
from checkpoints.models import Checkpoint, Run, Session, ToolCall
from checkpoints.tools.idempotency import IdempotencyPolicy
from tests.adapters.openai_agents.runs import QUIET, run_agent
from tests.support.exhaustive_mode import mark_all_but_combinations
from tests.support.processes import database_url

APPROVED = ToolPolicies({"send": {"requires_approval": True}})
ABOUT: Any = {"actor": "alice", "reason": "It is right."}


def _build_sender(effects: Path, steps: list[Any], **options: Any) -> Agent[Any]:
    @function_tool(**options)
    def send(text: str) -> str:
        """Send a text."""
        with effects.open("a") as file:
            file.write(f"{text}\n")
        return f"sent {text}"

    return Agent(name="sender", model=ScriptedModel(steps), tools=[send])


def _send(call_id: str = "call_1", text: str = "hello") -> list[Any]:
    return [function_call("send", {"text": text}, call_id=call_id)]


def _run(agent: Agent[Any], given: Any = "Send hello.", policies: ToolPolicies = APPROVED, **options: Any) -> Any:
    return asyncio.run(run_agent(database_url(), agent, given, policies=policies, **options))


def _approve(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.approve_call("s", call["call_id"], revision=call["revision"], **ABOUT)


def _edit(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.edit_call("s", call["call_id"], {"text": "HELLO"}, revision=call["revision"], **ABOUT)
    _approve(cp, cp.pending_tool_calls("s")[0])


def _reject(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.reject_call("s", call["call_id"], "Not today.", revision=call["revision"], **ABOUT)


def _respond(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.respond_call("s", call["call_id"], "It was sent by hand.", revision=call["revision"], **ABOUT)


@pytest.mark.parametrize(
    ("decide", "sent", "output", "continued_by", "wanted_by", "idempotency"),
    mark_all_but_combinations(
        [
            (_approve, ["hello"], "sent hello"),
            (_edit, ["HELLO"], "sent HELLO"),
            (_reject, [], "Not today."),
            (_respond, [], "It was sent by hand."),
        ],
        ["input", "state"],
        ["policy", "framework"],
        ["unanswered", "call"],
        together=2,
    ),
)
def test_decision_of_the_inbox_is_carried_out_once(
    cp: SyncCheckpointer,
    effects: Path,
    decide: Callable[[SyncCheckpointer, dict[str, Any]], None],
    sent: list[str],
    output: str,
    continued_by: str,
    wanted_by: str,
    idempotency: IdempotencyPolicy,
) -> None:
    by_framework = wanted_by == "framework"
    policies = ToolPolicies({} if by_framework else {"send": {"requires_approval": True}}, idempotency=idempotency)

    def build(*steps: Any) -> Agent[Any]:
        return _build_sender(effects, list(steps), needs_approval=by_framework)

    result = _run(build(_send()), policies=policies)
    assert [item.arguments for item in result.interruptions] == ['{"text":"hello"}']
    stored = json.dumps(result.to_state().to_json())
    assert _run(build(), policies=policies).interruptions  # nothing is decided, and the model is not asked
    (call,) = cp.pending_tool_calls("s")
    decide(cp, call)

    agent = build([assistant_message("Done.")])
    given: Any = "Send hello."
    if continued_by == "state":
        given = asyncio.run(RunState.from_json(agent, json.loads(stored)))
    assert _run(agent, given, policies=policies).final_output == "Done."
    assert effects.read_text().split() == sent
    latest = cp.load_latest("s")
    assert latest is not None
    kinds = [item.get("type", item.get("role")) for item in latest["transcript"]]
    assert kinds == ["user", "function_call", "function_call_output", "message"]
    assert latest["transcript"][2]["output"].endswith(output)
    assert not ToolCall.objects.filter(answered_version=None).exists()

    agent = build([assistant_message("Done.")])
    given = asyncio.run(RunState.from_json(agent, json.loads(stored)))
    with pytest.raises(InvalidInput, match="older than session"):
        _run(agent, given, policies=policies)
    assert effects.read_text().split() == sent


@pytest.mark.parametrize("continued_by", ["input", "state"])
def test_one_of_two_parallel_calls_waits(cp: SyncCheckpointer, effects: Path, continued_by: str) -> None:
    policies = ToolPolicies({"send": {"requires_approval": True}})

    def build(*steps: Any) -> Agent[Any]:
        agent = _build_sender(effects, list(steps))

        @function_tool
        def note() -> str:
            """Take a note."""
            with effects.open("a") as file:
                file.write("note\n")
            return "noted"

        agent.tools.append(note)
        return agent

    result = _run(build([function_call("note", {}, call_id="call_0"), *_send()]), policies=policies)
    assert [item.tool_name for item in result.interruptions] == ["send"]
    stored = result.to_state().to_json()
    (call,) = cp.pending_tool_calls("s")
    _approve(cp, call)
    agent = build([assistant_message("Done.")])
    given: Any = "Send hello."
    if continued_by == "state":
        given = asyncio.run(RunState.from_json(agent, stored))
    assert _run(agent, given, policies=policies).final_output == "Done."
    assert effects.read_text().split() == ["note", "hello"]
    latest = cp.load_latest("s")
    assert latest is not None
    outputs = {item["call_id"]: item["output"] for item in latest["transcript"] if "output" in item}
    assert outputs == {"call_0": "noted", "call_1": "sent hello"}
    assert len(latest["transcript"]) == 6


def test_model_of_a_continued_run_sees_what_the_run_did_beyond_the_limit_of_the_session(
    cp: SyncCheckpointer, effects: Path
) -> None:
    seen: list[str] = []

    def end(call: Any) -> list[Any]:
        seen.extend(item.get("type", item.get("role")) for item in call.input)
        return [assistant_message("Done.")]

    _run(_build_sender(effects, [[assistant_message("Hello.")]]), "Hello.", limit=1)
    for step in (_send("call_1", "one"), _send("call_2", "two")):
        _run(_build_sender(effects, [step]), limit=1)
        _approve(cp, cp.pending_tool_calls("s")[0])
    _run(_build_sender(effects, [ModelStep.respond(end)]), limit=1)
    turn = ["function_call", "function_call_output"]
    assert seen == ["user", *turn, *turn]


def test_same_call_after_its_answer_is_a_new_operation(cp: SyncCheckpointer, effects: Path) -> None:
    steps = [_send("call_1"), _send("call_2"), [assistant_message("Sent twice.")]]
    assert _run(_build_sender(effects, steps), policies=ToolPolicies()).final_output == "Sent twice."
    assert effects.read_text().split() == ["hello", "hello"]
    assert Run.objects.count() == 1


def test_error_of_a_tool_is_what_the_framework_makes_of_it(cp: SyncCheckpointer) -> None:
    calls = 0

    @function_tool
    def fail() -> str:
        """Fail."""
        nonlocal calls
        calls += 1
        raise ValueError("no such order")

    agent = Agent(
        name="a",
        model=ScriptedModel([[function_call("fail", {}, call_id="call_1")], [assistant_message("It failed.")]]),
        tools=[fail],
    )
    assert _run(agent, policies=ToolPolicies()).final_output == "It failed."
    latest = cp.load_latest("s")
    assert latest is not None
    assert latest["transcript"][2]["output"].startswith("An error occurred")
    assert ToolCall.objects.get().status == "failed"


def test_timeout_of_a_tool_is_at_the_gate(cp: SyncCheckpointer) -> None:
    @function_tool
    def fail() -> str:
        """Time out."""
        raise TimeoutError("no answer")

    agent = Agent(name="a", model=ScriptedModel([[function_call("fail", {}, call_id="call_1")]]), tools=[fail])
    with pytest.raises(ReviewRequired):
        _run(agent, policies=ToolPolicies())
    assert len(_run(agent, "Send hello.", policies=ToolPolicies()).interruptions) == 1


@pytest.mark.parametrize(
    ("continued_by", "wanted_by"),
    mark_all_but_combinations(["input", "state"], ["policy", "framework", "nobody"]),
)
def test_call_that_a_person_has_marked_as_failed_is_asked_about_again_if_it_needs_approval(
    cp: SyncCheckpointer, continued_by: str, wanted_by: str
) -> None:
    tries: list[int] = []
    policies = ToolPolicies({"send": {"requires_approval": wanted_by == "policy"}})

    def go_on(*steps: Any, state: Any = None) -> Any:
        @function_tool(needs_approval=wanted_by == "framework")
        def send() -> str:
            """Send, without an answer at first."""
            tries.append(1)
            if len(tries) == 1:
                raise TimeoutError("no answer")
            return "sent"

        agent = Agent(name="sender", model=ScriptedModel(list(steps)), tools=[send])
        given = "Send hello." if state is None else asyncio.run(RunState.from_json(agent, state))
        return _run(agent, given, policies=policies)

    def approve() -> None:
        (call,) = cp.pending_tool_calls("s")
        assert call["status"] == "awaiting_approval"
        _approve(cp, call)

    call = [function_call("send", {}, call_id="call_1")]
    if wanted_by != "nobody":
        assert go_on(call).interruptions
        approve()
    with pytest.raises(ReviewRequired):
        go_on(call)
    result = go_on()
    (interrupted,) = cp.pending_tool_calls("s")
    cp.mark_failed("s", "call_1", revision=interrupted["revision"], **ABOUT)

    def read_state() -> Any:
        return json.loads(json.dumps(result.to_state().to_json())) if continued_by == "state" else None

    end = [assistant_message("Done.")]
    if wanted_by != "nobody":
        result = go_on(end, state=read_state())
        assert len(result.interruptions) == 1
        assert len(tries) == 1
        approve()
    assert go_on(end, state=read_state()).final_output == "Done."
    assert len(tries) == 2


def test_values_are_replayed_equal(cp: SyncCheckpointer, effects: Path) -> None:
    values = [ToolOutputText(text="seen"), ToolOutputImage(image_url="https://example.org/a.png")]
    calls = 0

    @function_tool
    def look() -> Any:
        """Look."""
        nonlocal calls
        calls += 1
        return values

    def build(*steps: Any) -> Agent[Any]:
        agent = _build_sender(effects, list(steps))
        agent.tools.append(look)
        return agent

    result = _run(build([function_call("look", {}, call_id="call_0"), *_send()]))
    assert result.interruptions
    _approve(cp, cp.pending_tool_calls("s")[0])
    _run(build([assistant_message("Done.")]))
    latest = cp.load_latest("s")
    assert latest is not None
    assert calls == 1
    (output,) = [
        item["output"] for item in latest["transcript"] if item.get("call_id") == "call_0" and "output" in item
    ]
    assert [part["type"] for part in output] == ["input_text", "input_image"]


def test_handoff_continues_with_the_agent_whose_turn_it_was(cp: SyncCheckpointer, effects: Path) -> None:
    def build(first: list[Any], second: list[Any]) -> Agent[Any]:
        sender = _build_sender(effects, second)
        return Agent(name="triage", model=ScriptedModel(first), handoffs=[sender])

    result = _run(build([[function_call("transfer_to_sender", {}, call_id="call_0")]], [_send()]))
    assert len(result.interruptions) == 1
    _approve(cp, cp.pending_tool_calls("s")[0])
    result = _run(build([], [[assistant_message("Done.")]]))
    assert (result.final_output, result.last_agent.name) == ("Done.", "sender")
    assert effects.read_text().split() == ["hello"]


def test_calls_of_an_agent_that_is_a_tool_are_logged_and_closed(cp: SyncCheckpointer, effects: Path) -> None:
    inner = _build_sender(effects, [_send("inner_1"), [assistant_message("Inner is done.")]])
    tool = inner.as_tool("delegate", "Delegate.")
    steps = [[function_call("delegate", {"input": "Send."}, call_id="call_1")], [assistant_message("Done.")]]
    outer = Agent(name="outer", model=ScriptedModel(steps), tools=[tool])

    async def run() -> Any:
        use_harness()
        try:
            async with Checkpointer.open(database_url()) as checkpointer:
                session = HarnessSession("s", checkpointer)
                return await Runner.run(outer, "Send hello.", session=session, run_config=QUIET)
        finally:
            set_default_agent_runner(None)

    assert asyncio.run(run()).final_output == "Done."
    assert effects.read_text().split() == ["hello"]
    (call,) = ToolCall.objects.all()
    assert (call.tool, call.answered_version is None) == ("send", False)


def test_call_of_an_agent_that_is_a_tool_is_logged_when_a_state_continues_it(
    cp: SyncCheckpointer, effects: Path
) -> None:
    inner = _build_sender(effects, [_send("inner_1"), [assistant_message("Inner is done.")]])
    ask = [function_call("delegate", {"input": "Send."}, call_id="call_1")]
    outer = Agent(
        name="outer",
        model=ScriptedModel([ask, [assistant_message("Done.")]]),
        tools=[inner.as_tool("delegate", "Delegate.")],
    )

    async def run(given: Any) -> Any:
        use_harness(ToolPolicies({"send": {"requires_approval": True}}))
        try:
            async with Checkpointer.open(database_url()) as checkpointer:
                session = HarnessSession("s", checkpointer)
                if given != "Go.":
                    given = await RunState.from_string(outer, given)
                return await Runner.run(outer, given, session=session, run_config=QUIET)
        finally:
            set_default_agent_runner(None)

    stored = asyncio.run(run("Go.")).to_state().to_string()
    _approve(cp, cp.pending_tool_calls("s")[0])
    assert asyncio.run(run(stored)).final_output == "Done."
    assert effects.read_text().split() == ["hello"]
    (call,) = ToolCall.objects.all()
    assert (call.status, call.answered_version is None) == (CallStatus.COMPLETED, False)


@pytest.mark.parametrize("method", ["run", "run_streamed"])
def test_versions_carry_the_tokens_of_the_answers(cp: SyncCheckpointer, effects: Path, method: str) -> None:
    details: Any = {"cached_tokens": 4, "cache_write_tokens": 0}
    usage = Usage(requests=1, input_tokens=9, input_tokens_details=details, output_tokens=3, total_tokens=12)
    answers: list[Any] = [_send("call_1"), [assistant_message("Sent.")]]
    agent = _build_sender(effects, [ModelResponse(answer, usage, None) for answer in answers])
    asyncio.run(run_agent(database_url(), agent, "Go.", method=method, policies=ToolPolicies()))
    sums = {"input_tokens": 10, "output_tokens": 6, "cache_read_input_tokens": 8, "total_tokens": 24}
    assert json.loads(Checkpoint.objects.latest("version").usage or "") == sums


class _NamedModels(ModelProvider):
    """Provider of the models of agents that name them."""

    def __init__(self, **models: Model) -> None:
        self._models = models

    def get_model(self, model_name: str | None) -> Model:
        return self._models[str(model_name)]


@pytest.mark.parametrize(("is_default", "logged"), [(True, True), (False, True), (False, False)])
def test_what_an_agent_that_is_a_tool_answers_is_not_in_the_session(
    cp: SyncCheckpointer, effects: Path, is_default: bool, logged: bool
) -> None:
    inner = _build_sender(effects, [])
    inner.model = "inner"
    outer = Agent(name="outer", model="outer", tools=[inner.as_tool("delegate", "Delegate.")])
    ask = [[function_call("delegate", {"input": "Send."}, call_id="call_1")], [assistant_message("Done.")]]
    act = [_send("inner_1"), [assistant_message("Inner is done.")]]
    models = _NamedModels(outer=ScriptedModel(ask), inner=ScriptedModel(act))
    policies = ToolPolicies(None if logged else {"delegate": {"side_effects": {"read"}}})

    async def run() -> list[Any]:
        runner = use_harness(policies) if is_default else HarnessRunner(policies)
        try:
            async with Checkpointer.open(database_url()) as checkpointer:
                session = HarnessSession("s", checkpointer)
                await runner.run(outer, "Go.", session=session, run_config=replace(QUIET, model_provider=models))
                return await session.get_items()
        finally:
            set_default_agent_runner(None)

    kinds = [item.get("type", item.get("role")) for item in asyncio.run(run())]
    assert kinds == ["user", "function_call", "function_call_output", "message"]
    assert effects.read_text().split() == ["hello"]


class _MailServer(MCPServer):
    """Server with one tool, without a connection."""

    def __init__(self, sent: list[str]) -> None:
        super().__init__()
        self._sent = sent

    @property
    def name(self) -> str:
        return "mail"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, *_: Any, **__: Any) -> list[MCPTool]:
        schema = {"type": "object", "properties": {"to": {"type": "string"}}}
        return [MCPTool(name="send_mail", input_schema=schema)]

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: Any = None) -> CallToolResult:
        self._sent.append((arguments or {})["to"])
        return CallToolResult(content=[TextContent(type="text", text="sent")])

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...


def test_tools_of_mcp_servers_are_guarded(cp: SyncCheckpointer) -> None:
    sent: list[str] = []
    policies = ToolPolicies({"send_*": {"requires_approval": True}})

    def build(*steps: Any) -> Agent[Any]:
        return Agent(name="a", model=ScriptedModel(list(steps)), mcp_servers=[_MailServer(sent)])

    result = _run(build([function_call("send_mail", {"to": "bob"}, call_id="call_1")]), policies=policies)
    assert (len(result.interruptions), sent) == (1, [])
    _approve(cp, cp.pending_tool_calls("s")[0])
    assert _run(build([assistant_message("Done.")]), policies=policies).final_output == "Done."
    assert sent == ["bob"]


def test_approval_of_the_program_is_not_one_of_the_inbox(cp: SyncCheckpointer, effects: Path) -> None:
    result = _run(_build_sender(effects, [_send()]))
    agent = _build_sender(effects, [])
    state = asyncio.run(RunState.from_json(agent, result.to_state().to_json()))
    state.approve(state.get_interruptions()[0])
    with pytest.raises(ApprovalRequired):
        _run(agent, state)
    assert effects.read_text() == ""


@pytest.fixture(params=[False, True], ids=["framework", "harness"])
def stores_turns(request: pytest.FixtureRequest) -> Iterator[bool]:
    if request.param:
        use_harness()
    yield request.param
    set_default_agent_runner(None)


def test_guarded_agent_runs_with_any_runner(cp: SyncCheckpointer, effects: Path, stores_turns: bool) -> None:
    async def run(*steps: Any) -> Any:
        async with Checkpointer.open(database_url()) as checkpointer:
            session = HarnessSession("s", checkpointer)
            agent = guard_agent(_build_sender(effects, list(steps)), session, APPROVED)
            return await Runner.run(agent, "Send hello.", session=session, run_config=QUIET)

    result = asyncio.run(run(_send()))
    assert len(result.interruptions) == 1
    _approve(cp, cp.pending_tool_calls("s")[0])
    asked_again = [] if stores_turns else [_send("call_2")]
    assert asyncio.run(run(*asked_again, [assistant_message("Done.")])).final_output == "Done."
    assert effects.read_text().split() == ["hello"]


@pytest.mark.parametrize(("decide", "status"), [(_approve, "ready"), (_reject, "active"), (_respond, "active")])
def test_session_is_not_ready_to_resume_when_the_agent_has_answered_something_else_unless_a_call_is_to_start(
    cp: SyncCheckpointer, effects: Path, decide: Callable[[SyncCheckpointer, dict[str, Any]], None], status: str
) -> None:
    async def run(text: str, *steps: Any) -> None:
        async with Checkpointer.open(database_url()) as checkpointer:
            session = HarnessSession("s", checkpointer)
            agent = guard_agent(_build_sender(effects, list(steps)), session, APPROVED)
            await Runner.run(agent, text, session=session, run_config=QUIET)

    asyncio.run(run("Send hello.", _send()))
    decide(cp, cp.pending_tool_calls("s")[0])
    asyncio.run(HarnessSession("s", cp).add_items([{"role": "user", "content": "Are you there?"}]))
    assert Session.objects.get().status == "ready"
    asyncio.run(run("How are you?", [assistant_message("Fine.")]))
    assert Session.objects.get().status == status


def test_call_that_is_made_again_under_another_id_is_another_one_by_the_policy_call(
    cp: SyncCheckpointer, effects: Path
) -> None:
    policies = ToolPolicies({"send": {"requires_approval": True}}, idempotency="call")

    async def run(call_id: str) -> Any:
        async with Checkpointer.open(database_url()) as checkpointer:
            session = HarnessSession("s", checkpointer)
            agent = guard_agent(_build_sender(effects, [_send(call_id)]), session, policies)
            return await Runner.run(agent, "Send hello.", session=session, run_config=QUIET)

    asyncio.run(run("call_1"))
    _approve(cp, cp.pending_tool_calls("s")[0])
    assert [item.call_id for item in asyncio.run(run("call_2")).interruptions] == ["call_2"]
    waiting = [call["call_id"] for call in cp.pending_tool_calls("s") if call["status"] == "awaiting_approval"]
    assert (waiting, effects.read_text()) == (["call_2"], "")


def test_blocked_answer_does_not_stay(cp: SyncCheckpointer, effects: Path) -> None:
    async def block(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    agent = _build_sender(effects, [[assistant_message("A secret.")]])
    agent.output_guardrails = [OutputGuardrail(guardrail_function=block)]
    with pytest.raises(OutputGuardrailTripwireTriggered):
        _run(agent)
    latest = cp.load_latest("s")
    assert latest is not None
    assert [item["role"] for item in latest["transcript"]] == ["user"]


def test_run_without_a_session_of_this_library_is_refused(workspace: object, effects: Path) -> None:
    async def run() -> None:
        runner = use_harness()
        try:
            await runner.run(_build_sender(effects, []), "Send hello.")
        finally:
            set_default_agent_runner(None)

    with pytest.raises(InvalidInput, match="HarnessSession"):
        asyncio.run(run())
