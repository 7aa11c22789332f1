"""Guarded tools of agents: approvals in the inbox, interrupts of the agent, and replays that are equal."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.multiagent import GraphBuilder, Swarm
from strands.multiagent.base import Status
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import EventLoopException
from strands.types.tools import ToolContext

from checkpoints import Checkpointer, SyncCheckpointer, ToolPolicies
from checkpoints.adapters.strands import Harness, HarnessSessionRepository, SessionConflict
from checkpoints.exceptions import InvalidInput, SessionBusy
from checkpoints.models import Run, ToolCall
from checkpoints.tools.idempotency import IdempotencyPolicy
from examples.strands_refunds.agent import ScriptedModel
from tests.conftest import Open
from tests.support.exhaustive_mode import mark_all_but_combinations
from tests.support.processes import database_url

ASKS = ToolPolicies({"pay": {"requires_approval": True, "sentence": "Pay {amount}"}})
ABOUT: Any = {"actor": "alice", "reason": "It is due."}


class _CallOnce(ScriptedModel):
    """Model that makes one call, and then says what came of it."""

    def __init__(self, name: str, args_json: str = "{}") -> None:
        super().__init__()
        self._call = (name, args_json)

    def _choose_next_calls_and_text(self, messages: Any) -> tuple[list[tuple[str, str]], str]:
        last = messages[-1]["content"][0].get("toolResult")
        return ([self._call], "") if last is None else ([], f"{last['status']}: {last['content']}")


def _build(cp: SyncCheckpointer | Checkpointer, tools: list[Any], model: Any, policies: ToolPolicies | None) -> Agent:
    repository = HarnessSessionRepository(cp)
    manager = RepositorySessionManager("s", repository)
    plugins = [Harness("s", repository, policies)]
    return Agent(model, tools=tools, session_manager=manager, plugins=plugins, callback_handler=None)


class _Payments:
    """Payments of one test; each agent is one of another process."""

    def __init__(self, cp: SyncCheckpointer) -> None:
        self.cp = cp
        self.paid: list[str] = []

    def build_agent(self, policies: ToolPolicies | None = ASKS) -> Agent:
        @tool
        def pay(amount: str) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        return _build(self.cp, [pay], _CallOnce("pay", '{"amount": "12.50"}'), policies)

    def go_on(self, policies: ToolPolicies | None = ASKS) -> str:
        responses = Harness("s", self.cp).build_responses()
        assert len(responses) == 1
        return str(self.build_agent(policies)(responses)).strip()


def _approve(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.approve_call("s", call["call_id"], revision=call["revision"], **ABOUT)


def _edit(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.edit_call("s", call["call_id"], {"amount": "7.00"}, revision=call["revision"], **ABOUT)
    for edited in cp.pending_tool_calls("s"):
        cp.approve_call("s", call["call_id"], revision=edited["revision"], **{**ABOUT, "actor": "bob"})


def _reject(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.reject_call("s", call["call_id"], "Not this month.", revision=call["revision"], **ABOUT)


def _respond(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.respond_call("s", call["call_id"], "It was paid by hand.", revision=call["revision"], **ABOUT)


@pytest.mark.parametrize(
    ("decide", "paid", "says", "idempotency"),
    mark_all_but_combinations(
        [
            (_approve, ["12.50"], "success: [{'text': 'paid 12.50'}]"),
            (_edit, ["7.00"], "success: [{'text': 'paid 7.00'}]"),
            (_reject, [], "error: [{'text': 'Not this month.'}]"),
            (_respond, [], "success: [{'text': 'It was paid by hand.'}]"),
        ],
        ["unanswered", "call"],
    ),
)
def test_each_decision_of_a_person_continues_the_agent(
    cp: SyncCheckpointer,
    decide: Callable[[SyncCheckpointer, dict[str, Any]], None],
    paid: list[str],
    says: str,
    idempotency: IdempotencyPolicy,
) -> None:
    payments = _Payments(cp)
    policies = ToolPolicies({"pay": {"requires_approval": True}}, idempotency=idempotency)
    result = payments.build_agent(policies)("Pay.")
    assert result.stop_reason == "interrupt"
    (interrupt,) = result.interrupts
    assert interrupt.reason["type"] == "approval_required"
    assert not Run.objects.filter(status="running").exists()
    (call,) = cp.pending_tool_calls("s")
    assert (call["call_id"], call["status"]) == (interrupt.reason["calls"][0]["call_id"], "awaiting_approval")
    decide(cp, call)
    assert payments.go_on(policies) == says
    assert payments.paid == paid
    assert not ToolCall.objects.filter(answered_version=None).exists()
    assert Harness("s", cp).build_responses() == []


def test_response_that_a_program_gives_itself_is_no_decision(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp)
    agent = payments.build_agent()
    for _ in range(3):
        result = agent(Harness("s", cp).build_responses() or "Pay.")
        assert result.stop_reason == "interrupt"
    assert payments.paid == []
    assert ToolCall.objects.count() == 1


def test_tool_that_only_reads_is_not_logged(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp)
    payments.build_agent(ToolPolicies({"p*": {"side_effects": {"read"}}}))("Pay.")
    assert payments.paid == ["12.50"]
    assert ToolCall.objects.count() == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_replayed_result_is_equal(workspace: object, is_async: bool) -> None:
    returned = {"status": "success", "content": [{"json": {"a": [1, 2.5, None]}}, {"text": "b"}]}
    runs: list[int] = []

    @tool
    def act() -> dict[str, Any]:
        """Act."""
        runs.append(1)
        return returned

    async def play() -> list[str]:
        said = []
        async with Checkpointer.open(database_url()) as checkpointer:
            for _ in range(2):  # without a session manager the turn is lost each time, and its calls are in the log
                client = checkpointer if is_async else checkpointer.sync
                agent = Agent(_CallOnce("act"), tools=[act], plugins=[Harness("s", client)], callback_handler=None)
                said.append(str(await agent.invoke_async("Do it.")).strip())
        return said

    first, replayed = asyncio.run(play())
    assert first == replayed == f"success: {returned['content']}"
    assert len(runs) == 1


def test_failed_tool_is_logged_as_failed_and_one_that_timed_out_is_at_the_gate(cp: SyncCheckpointer) -> None:
    errors: list[Exception] = [ValueError("no such account"), TimeoutError("no answer")]

    @tool
    def act() -> str:
        """Act."""
        raise errors[0]

    said = str(_build(cp, [act], _CallOnce("act"), None)("Do it."))
    assert "no such account" in said
    assert ToolCall.objects.get().status == "failed"
    del errors[0]
    assert _build(cp, [act], _CallOnce("act"), None)("Do it.").stop_reason == "interrupt"
    assert set(ToolCall.objects.values_list("status", flat=True)) == {"failed", "interrupted"}


def test_session_of_another_run_ends_the_invocation_before_the_tool_runs(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    other, runs = open_checkpointer(), list[int]()

    @tool
    def act() -> str:
        """Act."""
        runs.append(1)
        return "done"

    other.start_session("s")
    agent = Agent(_CallOnce("act"), tools=[act], plugins=[Harness("s", cp)], callback_handler=None)
    with pytest.raises(EventLoopException) as caught:
        agent("Do it.")
    assert isinstance(caught.value.original_exception, SessionBusy)
    assert runs == []


def test_call_that_another_process_has_made_meanwhile_is_refused(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    payments, others = _Payments(cp), _Payments(open_checkpointer())
    agent = payments.build_agent(policies=None)

    def let_another_process_continue(_: BeforeToolCallEvent[Any]) -> None:
        assert str(others.build_agent(policies=None)()).strip() == "success: [{'text': 'paid 12.50'}]"

    agent.hooks.add_callback(BeforeToolCallEvent, let_another_process_continue)
    with pytest.raises(EventLoopException) as caught:
        agent("Pay it.")
    assert isinstance(caught.value.original_exception, SessionConflict)
    assert (payments.paid, others.paid) == ([], ["12.50"])


def test_interrupt_of_the_tool_itself_pauses_its_call(cp: SyncCheckpointer) -> None:
    @tool(context=True)
    def act(tool_context: ToolContext) -> str:
        """Act."""
        return f"answered {tool_context.interrupt('colour', reason='Which colour?')}"

    agent = _build(cp, [act], _CallOnce("act"), None)
    result = agent("Do it.")
    (interrupt,) = result.interrupts
    assert interrupt.name == "colour"
    said = agent([{"interruptResponse": {"interruptId": interrupt.id, "response": "blue"}}])
    assert "answered blue" in str(said)
    assert list(ToolCall.objects.order_by("attempt").values_list("status", flat=True)) == ["failed", "completed"]


def test_direct_call_is_guarded_and_releases_the_session(cp: SyncCheckpointer) -> None:
    runs: list[int] = []

    @tool
    def act() -> str:
        """Act."""
        runs.append(1)
        return "done"

    agent = Agent(_CallOnce("act"), tools=[act], plugins=[Harness("s", cp)], callback_handler=None)
    assert [agent.tool.act()["content"] for _ in range(2)] == [[{"text": "done"}]] * 2
    assert len(runs) == ToolCall.objects.count() == 1  # no answer of the agent has had the first result
    assert not Run.objects.filter(status="running").exists()


def test_client_of_a_server_is_refused(workspace: object) -> None:
    with SyncCheckpointer("http://127.0.0.1:9", token="x") as remote, pytest.raises(InvalidInput):
        Harness("s", remote)


class _FailAfterCall(_CallOnce):
    """Model that makes one call and is not reached with its result, once."""

    def __init__(self, failures: list[Exception]) -> None:
        super().__init__("pay", '{"amount": "1"}')
        self._failures = failures

    def _choose_next_calls_and_text(self, messages: Any) -> tuple[list[tuple[str, str]], str]:
        if self._failures and "toolResult" in messages[-1]["content"][0]:
            raise self._failures.pop()
        return super()._choose_next_calls_and_text(messages)


@pytest.mark.parametrize("fails", [False, True], ids=["runs twice", "fails after a call"])
def test_equal_calls_of_the_nodes_of_a_graph_are_operations_of_their_own(cp: SyncCheckpointer, fails: bool) -> None:
    paid: list[str] = []
    failures: list[Exception] = [ConnectionError("no answer")] if fails else []

    @tool
    def pay(amount: str) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def run() -> Any:
        """Run the graph as a process of its own does: it continues what is stored, or starts again."""
        repository = HarnessSessionRepository(cp)
        builder = GraphBuilder()
        for name in ("first", "second"):
            model = _FailAfterCall(failures if name == "second" else [])
            plugins = [Harness("s", repository)]
            agent = Agent(model, name=name, agent_id=name, tools=[pay], plugins=plugins, callback_handler=None)
            builder.add_node(agent, name)
        builder.add_edge("first", "second")
        builder.set_entry_point("first")
        builder.set_max_node_executions(9)
        builder.set_session_manager(RepositorySessionManager("s", repository))
        return builder.build()("Pay.")

    if fails:
        with pytest.raises(EventLoopException, match="no answer"):
            run()
        assert len(paid) == 2
    run()
    assert len(paid) == 2  # the call of a node that runs again is replayed, under a new call id
    if not fails:
        run()
        assert len(paid) == 4
    assert not ToolCall.objects.filter(answered_version=None).exists()


@pytest.mark.parametrize("kind", ["graph", "swarm"])
def test_interrupted_graph_or_swarm_continues_in_another_process(cp: SyncCheckpointer, kind: str) -> None:
    paid: list[str] = []

    @tool
    def pay(amount: str) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def run() -> Any:
        repository = HarnessSessionRepository(cp)
        harness, manager = Harness("s", repository, ASKS), RepositorySessionManager("s", repository)
        model = _CallOnce("pay", '{"amount": "40 EUR"}')
        agent = Agent(model, name="payer", tools=[pay], plugins=[harness], callback_handler=None)
        multi_agent: Any
        if kind == "swarm":
            multi_agent = Swarm([agent], session_manager=manager)
        else:
            builder = GraphBuilder().set_session_manager(manager).set_max_node_executions(9)
            builder.add_node(agent, "payer")
            multi_agent = builder.build()
        return multi_agent(harness.build_responses(multi_agent.id) or "Pay.")

    assert run().status == Status.INTERRUPTED
    (call,) = cp.pending_tool_calls("s")
    cp.approve_call("s", call["call_id"], revision=call["revision"], **ABOUT)
    assert run().status == Status.COMPLETED
    assert paid == ["40 EUR"]
    assert not ToolCall.objects.filter(answered_version=None).exists()


def test_graph_that_dies_after_it_was_resumed_continues_with_its_task(cp: SyncCheckpointer) -> None:
    paid: list[str] = []

    @tool
    def pay(amount: str) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def run(*, dies: bool = False) -> Any:
        repository = HarnessSessionRepository(cp)
        if dies:
            _die_after_next_graph_state(repository)
        harness, builder = Harness("s", repository, ASKS), GraphBuilder()
        for name in ("first", "second"):
            model = _CallOnce("pay", f'{{"amount": "{name}"}}')
            agent = Agent(model, name=name, agent_id=name, tools=[pay], plugins=[harness], callback_handler=None)
            builder.add_node(agent, name)
        builder.add_edge("first", "second")
        builder.set_max_node_executions(9).set_session_manager(RepositorySessionManager("s", repository))
        graph = builder.build()
        return graph(harness.build_responses(graph.id) or "Pay.")

    def approve() -> None:
        (call,) = cp.pending_tool_calls("s")
        cp.approve_call("s", call["call_id"], revision=call["revision"], **ABOUT)

    assert run().status == Status.INTERRUPTED
    approve()
    with pytest.raises(_Died):
        run(dies=True)  # the first node has ended
    assert run().status == Status.INTERRUPTED
    assert paid == ["first"]
    approve()
    assert run().status == Status.COMPLETED
    assert paid == ["first", "second"]
    assert not ToolCall.objects.filter(answered_version=None).exists()


def test_agent_that_dies_before_it_stores_that_its_interrupt_is_over_has_its_results_once(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp)
    payments.build_agent()("Pay.")
    (call,) = cp.pending_tool_calls("s")
    cp.approve_call("s", call["call_id"], revision=call["revision"], **ABOUT)

    agent = payments.build_agent()
    repository = agent._session_manager.session_repository  # type: ignore[union-attr, attr-defined]
    create = repository.create_message

    def create_and_die(*args: Any) -> None:
        create(*args)
        repository.create_message = repository.update_agent = _die  # type: ignore[method-assign]
        raise _Died

    repository.create_message = create_and_die
    with pytest.raises(_Died):
        agent(Harness("s", repository).build_responses())

    agent = payments.build_agent()
    repository = agent._session_manager.session_repository  # type: ignore[union-attr, attr-defined]
    agent(Harness("s", repository).build_responses() or None)
    assert payments.paid == ["12.50"]
    kinds = [next(iter(block)) for message in agent.messages for block in message["content"]]
    assert kinds == ["text", "toolUse", "toolResult", "text"]


class _Died(BaseException):
    """End of a process."""


def _die(*_: Any) -> None:
    raise _Died


def _die_after_next_graph_state(repository: HarnessSessionRepository) -> None:
    update, is_dead = repository.update_multi_agent, False

    def update_and_die(*args: Any) -> None:
        nonlocal is_dead
        if not is_dead:
            update(*args)
        is_dead = True
        raise _Died

    repository.update_multi_agent = update_and_die  # type: ignore[method-assign, assignment]
