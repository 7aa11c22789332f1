"""Hooks: each call passes the log, the gate defers it, and a decision is what the next run does."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from claude_agent_sdk import InMemorySessionStore, ResultMessage, fork_session_via_store

from checkpoints import SyncCheckpointer, ToolPolicies
from checkpoints.adapters.claude import READING_TOOLS, HarnessSessionStore, find_or_await_transcript_lines, tool_hooks
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.exceptions import InvalidInput
from checkpoints.models import Run, Session, ToolCall
from checkpoints.tools.idempotency import IdempotencyPolicy
from examples.claude_refunds.agent import LOOK_UP, POLICIES, QUESTION, REFUND, SESSION_ID, STORED_ID, run_agent
from examples.claude_refunds.scripted_claude_program import PROJECT
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, INSIDE_EFFECT
from tests.adapters.claude import agents
from tests.adapters.claude.transcripts import load
from tests.conftest import Open, StartChild
from tests.support.exhaustive_mode import mark_all_but_combinations, mark_all_but_each
from tests.support.processes import database_url


@pytest.fixture
def store(cp: SyncCheckpointer) -> HarnessSessionStore:
    return HarnessSessionStore(cp)


def run(store: HarnessSessionStore, effects: Path, **options: Any) -> ResultMessage:
    return asyncio.run(run_agent(store, effects, **options))


def decide(cp: SyncCheckpointer, kind: str, *values: Any) -> None:
    (call,) = cp.pending_tool_calls(STORED_ID)
    about = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
    getattr(cp, kind)(STORED_ID, call["call_id"], *values, **about)


def lines(effects: Path) -> list[str]:
    return effects.read_text().splitlines() if effects.exists() else []


# a process that dies


@pytest.mark.parametrize(
    ("moment", "decision"),
    [
        (BEFORE_EFFECT, ("mark_failed",)),
        (BEFORE_EFFECT, ("approve_rerun",)),
        (INSIDE_EFFECT, ("confirm_landed", "refunded 40 for order 17")),
        (AFTER_EFFECT, ("confirm_landed", "refunded 40 for order 17")),
    ],
)
def test_a_killed_agent_asks_and_has_one_effect(
    cp: SyncCheckpointer,
    store: HarnessSessionStore,
    start_child: StartChild,
    effects: Path,
    moment: str,
    decision: tuple[str, ...],
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=moment)
    assert child.died_by() == signal.SIGKILL
    landed = lines(effects)
    assert len(landed) == (moment != BEFORE_EFFECT)
    for _ in range(2):  # without a decision it waits again
        result = run(store, effects)
        assert result.stop_reason == "tool_deferred"
        assert result.deferred_tool_use is not None
        assert result.deferred_tool_use.name == REFUND
        assert not cp.store.list_owned_sessions()  # a decision may be carried out by any process
    decide(cp, *decision)
    result = run(store, effects)
    assert result.result is not None
    assert result.result.endswith("refunded 40 for order 17")
    assert lines(effects) == ["17 40"]
    assert not ToolCall.objects.filter(tool=REFUND, status="completed", answered_version=None).exists()
    assert not Run.objects.filter(status="running").exists()


def test_a_replayed_call_is_a_new_one_after_the_model_has_read_its_result(
    cp: SyncCheckpointer, store: HarnessSessionStore, start_child: StartChild, effects: Path
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT)
    assert child.died_by() == signal.SIGKILL
    run(store, effects)
    decide(cp, "confirm_landed", "refunded 40 for order 17")
    run(store, effects)
    run(store, effects, prompt=QUESTION)  # the same question again: a new refund
    assert lines(effects) == ["17 40", "17 40"]


# a fork


class LinesOfFork(InMemorySessionStore):
    """Store that reads from another one, and keeps what is appended."""

    def __init__(self, origin: HarnessSessionStore) -> None:
        super().__init__()
        self.lines: list[Any] = []
        self.load = origin.load  # type: ignore[method-assign]

    async def append(self, key: Any, entries: list[Any]) -> None:
        self.lines += entries


def fork_as_program(lines: list[Any], fork: str) -> list[list[Any]]:
    """Return the batches in which Claude Code writes the lines of a fork, without the name of its origin but in those
    of the agent."""
    copied = [
        {**line, "sessionId": fork, **({"requestSessionId": SESSION_ID} if line["type"] == "assistant" else {})}
        for line in lines
    ]
    return [[{"type": "mode", "mode": "normal", "sessionId": fork}], copied]


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_fork_that_a_run_makes_asks_about_the_call_in_which_its_origin_died(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, tmp_path: Path, is_stored: bool
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT)
    assert child.died_by() == signal.SIGKILL
    store, fork = HarnessSessionStore(cp), "0d9c6c1e-0000-4000-8000-000000000018"
    key: Any = {"project_key": PROJECT, "session_id": fork}
    batches = fork_as_program(asyncio.run(store.load({**key, "session_id": SESSION_ID})), fork)  # type: ignore[arg-type]
    path = tmp_path / PROJECT / f"{fork}.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(json.dumps(line) for batch in batches for line in batch))

    async def append() -> None:
        for batch in batches:
            await store.append(key, batch)

    if is_stored:
        asyncio.run(append())
    fields: dict[str, Any] = {
        "tool": REFUND,
        "args": {"order": 17, "amount": 40},
        "session_id": fork,
        "transcript_path": str(path),
    }
    assert asyncio.run(Hooks(cp, POLICIES).call("PreToolUse", "a", **fields))[0] == "defer"
    (call,) = cp.pending_tool_calls(f"{PROJECT}/{fork}")
    assert call["reason"] == "forked"
    if not is_stored:
        asyncio.run(append())
    assert asyncio.run(store.load(key)) == [line for batch in batches for line in batch]
    row = Session.objects.get(session_id=f"{PROJECT}/{fork}")
    assert row.forked_from == Session.objects.get(session_id=STORED_ID)


@pytest.mark.parametrize("situation", ["deferred", "late file", "late file and notes", "fork of a fork"])
def test_a_fork_is_recognised_before_the_program_has_written_who_it_was_forked_from(
    cp: SyncCheckpointer,
    start_child: StartChild,
    effects: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    situation: str,
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT)
    assert child.died_by() == signal.SIGKILL
    store, fork, middle = HarnessSessionStore(cp), *(f"0d9c6c1e-0000-4000-8000-0000000000{n}" for n in (18, 19))
    lines: Any = asyncio.run(store.load(agents.RUN_KEY))
    folder = tmp_path / PROJECT  # where the SDK writes the session that the program resumes, and the program the fork
    folder.mkdir()
    call: dict[str, Any] = {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "b"}]}}
    notes, copied = fork_as_program([*lines, call], fork)
    origin = SESSION_ID
    if situation == "fork of a fork":  # it has no message of its own, and a call that died
        origin = middle
        asyncio.run(store.append({"project_key": PROJECT, "session_id": middle}, fork_as_program(lines, middle)[1]))
    if situation == "late file and notes":
        asyncio.run(store.append({"project_key": PROJECT, "session_id": fork}, notes))
    deferral = {"type": "attachment", "attachment": {"type": "hook_deferred_tool", "toolUseID": "b"}}
    (folder / f"{origin}.jsonl").write_text("\n".join(map(json.dumps, [*lines, deferral])))
    path = folder / f"{fork}.jsonl"

    waited = list[float]()

    def write_file_late(seconds: float) -> None:
        waited.append(seconds)
        if sum(waited) > 8:  # a program on a busy machine
            path.write_text("\n".join(map(json.dumps, [*notes, *copied])))

    monkeypatch.setattr(find_or_await_transcript_lines, "time", SimpleNamespace(sleep=write_file_late))

    async def ask() -> Any:
        fields: dict[str, Any] = {"tool": REFUND, "args": {"order": 17, "amount": 40}, "session_id": fork}
        if situation != "deferred":
            fields["prompt_id"] = "1"
        return await Hooks(store, POLICIES).call("PreToolUse", "b", **fields, transcript_path=str(path))

    assert asyncio.run(ask())[0] == "defer"
    (pending,) = cp.pending_tool_calls(f"{PROJECT}/{fork}")
    assert pending["reason"] == "forked"
    forked_from = Session.objects.get(session_id=f"{PROJECT}/{fork}").forked_from
    assert forked_from == Session.objects.get(session_id=f"{PROJECT}/{origin}")
    if situation == "late file and notes":
        assert load(store, {"project_key": PROJECT, "session_id": fork}) == notes


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_fork_asks_about_the_call_in_which_its_origin_died(
    cp: SyncCheckpointer,
    open_checkpointer: Open,
    start_child: StartChild,
    effects: Path,
    tmp_path: Path,
    is_stored: bool,
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT)
    assert child.died_by() == signal.SIGKILL
    store = HarnessSessionStore(cp)
    copied = store if is_stored else LinesOfFork(store)  # not stored: the program stores them at the end of the turn
    fork = asyncio.run(fork_session_via_store(copied, SESSION_ID, directory="/srv/shop")).session_id
    path = tmp_path / PROJECT / f"{fork}.jsonl"
    if isinstance(copied, LinesOfFork):
        path.parent.mkdir()
        path.write_text("\n".join(map(json.dumps, copied.lines)))
    fields = {"tool": REFUND, "args": {"order": 17, "amount": 40}, "session_id": fork, "transcript_path": str(path)}

    def ask(call_id: str) -> Any:
        return asyncio.run(Hooks(open_checkpointer(), POLICIES).call("PreToolUse", call_id, **fields))

    assert ask("a")[0] == "defer"
    (call,) = cp.pending_tool_calls(f"{PROJECT}/{fork}")
    assert call["reason"] == "forked"
    about: dict[str, Any] = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
    cp.confirm_landed(f"{PROJECT}/{fork}", call["call_id"], "refunded 40 for order 17", **about)
    decision, reason = ask("b")
    assert decision == "deny"
    assert reason.endswith("refunded 40 for order 17")
    assert Session.objects.get(session_id=f"{PROJECT}/{fork}").forked_from == Session.objects.get(session_id=STORED_ID)
    assert run(store, effects).stop_reason == "tool_deferred"  # the origin has its own decision


def test_a_fork_makes_answered_calls_again(cp: SyncCheckpointer, store: HarnessSessionStore, effects: Path) -> None:
    run(store, effects)
    fork = asyncio.run(fork_session_via_store(store, SESSION_ID, directory="/srv/shop")).session_id
    fields = {"tool": REFUND, "args": {"order": 17, "amount": 40}, "session_id": fork}
    assert asyncio.run(Hooks(store, POLICIES).call("PreToolUse", "a", **fields)) == (None, "")
    tools = (
        ToolCall.objects.filter(session__session_id=f"{PROJECT}/{fork}").order_by("pk").values_list("tool", flat=True)
    )
    assert list(tools) == [REFUND, LOOK_UP, REFUND]


# a person decides


@pytest.mark.parametrize(
    ("decision", "said", "made", "idempotency"),
    mark_all_but_combinations(
        [
            (("approve_call",), "refunded 40 for order 17", ["17 40"]),
            (("edit_call", {"order": 17, "amount": 20}), "refunded 20 for order 17", ["17 20"]),
            (("reject_call", "Not this one."), "PreToolUse:mcp__shop__refund hook error: Not this one.", []),
            (("respond_call", "Paid by hand."), "Continue with this result: Paid by hand.", []),
        ],
        ["unanswered", "call"],
    ),
)
def test_a_call_that_needs_approval_waits_for_it(
    cp: SyncCheckpointer,
    store: HarnessSessionStore,
    effects: Path,
    decision: tuple[Any, ...],
    said: str,
    made: list[str],
    idempotency: IdempotencyPolicy,
) -> None:
    policies = ToolPolicies(
        {LOOK_UP: {"side_effects": {"read"}}, REFUND: {"requires_approval": True}}, idempotency=idempotency
    )
    # The program itself does not allow the tool: the approval of a person does.
    result = run(store, effects, policies=policies, allowed=[LOOK_UP])
    assert result.stop_reason == "tool_deferred"
    assert lines(effects) == []
    if decision[0] == "edit_call":
        decide(cp, *decision)
        decision = ("approve_call",)
    decide(cp, *decision)
    result = run(store, effects, policies=policies, allowed=[LOOK_UP])
    assert result.result is not None
    assert result.result.endswith(said)
    assert lines(effects) == made


@pytest.mark.parametrize(
    ("decision", "status"),
    [(("approve_call",), "ready"), (("reject_call", "Not this one."), "active"), (("respond_call", "Paid."), "active")],
)
def test_a_session_is_not_ready_to_resume_when_the_agent_has_answered_something_else_unless_a_call_is_to_start(
    cp: SyncCheckpointer, store: HarnessSessionStore, effects: Path, decision: tuple[Any, ...], status: str
) -> None:
    policies = ToolPolicies({LOOK_UP: {"side_effects": {"read"}}, REFUND: {"requires_approval": True}})
    hooks = tool_hooks(store, policies, gate="deny")
    key: Any = {"project_key": PROJECT, "session_id": SESSION_ID}
    about = {"timestamp": "2026-01-01T10:00:00Z", "sessionId": SESSION_ID}

    def say(role: str, text: str, uuid: str) -> None:
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        asyncio.run(store.append(key, [{**about, "type": role, "uuid": uuid, "message": message}]))  # type: ignore[typeddict-item]

    async def ask() -> Any:
        return await agents.call_hook(hooks, "PreToolUse", "a", REFUND, tool_input={"order": 17, "amount": 40})

    say("user", QUESTION, "1")
    assert asyncio.run(ask())["hookSpecificOutput"]["permissionDecision"] == "deny"
    say("assistant", "A person has to decide.", "2")
    assert Session.objects.get(session_id=STORED_ID).status == "needs_review"
    decide(cp, *decision)
    say("user", "How are you?", "3")
    assert Session.objects.get(session_id=STORED_ID).status == "ready"
    say("assistant", "Fine.", "4")
    assert Session.objects.get(session_id=STORED_ID).status == status


# a run without trouble


def test_a_run_logs_what_mutates_and_shows_all(cp: SyncCheckpointer, store: HarnessSessionStore, effects: Path) -> None:
    assert run(store, effects).result == "refunded 40 for order 17"
    calls = {call.tool: call for call in ToolCall.objects.all()}
    assert (calls[LOOK_UP].side_effects, calls[LOOK_UP].status) == ("imported", "completed")
    refund = calls[REFUND]
    assert (refund.side_effects, refund.status, refund.sentence) == ("mutate", "completed", "Refund 40 for order 17")
    assert json.loads(refund.result or "") == "refunded 40 for order 17"
    assert refund.answered_version is not None
    loaded = cp.load_latest(STORED_ID)
    assert loaded is not None
    roles = [message["role"] for message in loaded["transcript"]]
    assert roles == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert Session.objects.get().owner is None
    assert run(store, effects).result == "refunded 40 for order 17"  # it has nothing to do
    assert lines(effects) == ["17 40"]
    assert run(store, effects, prompt=QUESTION).result == "refunded 40 for order 17"
    assert lines(effects) == ["17 40"] * 2


def test_a_call_that_the_rules_of_the_program_refuse_did_not_happen(
    store: HarnessSessionStore, effects: Path, tmp_path: Path
) -> None:
    result = run(store, effects, allowed=[LOOK_UP], config=tmp_path)
    assert "haven't granted it" in (result.result or "")
    assert ToolCall.objects.get(tool=REFUND).status == "failed"
    assert run(store, effects, config=tmp_path, prompt=QUESTION).result == "refunded 40 for order 17"
    assert lines(effects) == ["17 40"]


# single hooks


class Hooks:
    """Hooks that are called one by one, as the program calls them."""

    def __init__(self, checkpointer: Any, policies: ToolPolicies | None = None, **options: Any) -> None:
        self.events = tool_hooks(checkpointer, policies, **options)

    async def call(self, event: str, call_id: str, args: Any = None, tool: str = "Bash", **fields: Any) -> Any:
        fields = {"tool_input": args or {}, **fields}
        answer = await agents.call_hook(self.events, event, call_id, tool, **fields)
        decided = answer.get("hookSpecificOutput", {})
        return decided.get("permissionDecision"), decided.get("permissionDecisionReason", "")


def test_equal_calls_of_one_run_are_different_operations(cp: SyncCheckpointer) -> None:
    async def work() -> None:
        hooks = Hooks(cp)
        for call_id in ("a", "b"):  # at the same time
            assert await hooks.call("PreToolUse", call_id, {"command": "make"}) == (None, "")
        for call_id in ("b", "a"):
            await hooks.call("PostToolUse", call_id, tool_response={"stdout": call_id})
        assert await hooks.call("PreToolUse", "c", {"command": "make"}) == (None, "")
        await hooks.call("PostToolUse", "c", tool_response="done")
        await hooks.call("Stop", "")

    asyncio.run(work())
    stored = {call.call_id: json.loads(call.result or "null") for call in ToolCall.objects.all()}
    assert stored == {"a": '{"stdout":"a"}', "b": '{"stdout":"b"}', "c": "done"}
    assert not cp.store.list_owned_sessions()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_replay_is_over_once_the_transcript_has_its_result(
    cp: SyncCheckpointer, open_checkpointer: Open, is_restarted: bool
) -> None:
    async def before(hooks: Hooks) -> None:
        await hooks.call("PreToolUse", "a", {"command": "make"})
        await hooks.call("PostToolUse", "a", tool_response="built")
        await hooks.call("Stop", "")

    async def after(store: HarnessSessionStore, hooks: Hooks) -> list[Any]:
        answers = [await hooks.call("PreToolUse", "b", {"command": "make"})]
        await hooks.call("Stop", "")
        call = {"type": "tool_use", "id": "b", "name": "Bash", "input": {"command": "make"}}
        result = {"type": "tool_result", "tool_use_id": "b", "content": answers[0][1], "is_error": True}
        said = [("assistant", call), ("user", result)]
        lines: Any = [
            {"type": role, "uuid": role, "message": {"id": role, "role": role, "content": [block]}}
            for role, block in said
        ]
        if is_restarted:  # another process stores the result than the call
            await store.append(agents.RUN_KEY, lines[:1])
            store = HarnessSessionStore(open_checkpointer())
            hooks = Hooks(store)
            await store.load(agents.RUN_KEY)
            await store.append(agents.RUN_KEY, lines[1:])
        else:
            await store.append(agents.RUN_KEY, lines)
        return [*answers, await hooks.call("PreToolUse", "c", {"command": "make"})]

    asyncio.run(before(Hooks(cp)))  # the process ends before the transcript is stored
    store = HarnessSessionStore(open_checkpointer())
    replayed, again = asyncio.run(after(store, Hooks(store)))
    assert replayed[0] == "deny"
    assert replayed[1].endswith("built")
    assert again == (None, "")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"error": "Exit code 1"}, "failed"),
        ({"error": "Exit code 1", "is_interrupt": True}, "interrupted"),
        ({"error": "MCP error -32001: Request timed out"}, "interrupted"),
        ({"error": "Command failed with no output"}, "interrupted"),
    ],
)
def test_a_failure_is_an_outcome_unless_the_effect_may_have_happened(
    cp: SyncCheckpointer, fields: dict[str, Any], status: str
) -> None:
    async def work() -> Any:
        hooks = Hooks(cp)
        await hooks.call("PreToolUse", "a", {"command": "make"})
        await hooks.call("PostToolUseFailure", "a", **fields)
        await hooks.call("Stop", "")
        return await hooks.call("PreToolUse", "b", {"command": "make"})

    decision, _ = asyncio.run(work())
    assert ToolCall.objects.get(call_id="a").status == status
    assert decision == ("defer" if status == "interrupted" else None)


@pytest.mark.parametrize(
    "later",
    [
        {"prompt_id": "2"},  # the turn was interrupted, or the program died and was resumed from its own file
        {"transcript_path": f"/srv/resumed/projects/-srv-shop/{SESSION_ID}.jsonl"},  # it was resumed from the store
        {"prompt_id": "1", "call_id": "a"},  # it was resumed after a deferred call, twice
    ],
)
@pytest.mark.parametrize("has_new_hooks", [False, True])
def test_a_call_whose_turn_ended_without_an_outcome_is_asked_about(
    cp: SyncCheckpointer, later: dict[str, Any], has_new_hooks: bool
) -> None:
    async def work() -> Any:
        hooks = Hooks(cp)
        assert await hooks.call("PreToolUse", "a", {"command": "make"}, prompt_id="1") == (None, "")
        after = Hooks(cp) if has_new_hooks else hooks
        return await after.call("PreToolUse", **{"call_id": "b", "args": {"command": "make"}, **later})

    assert asyncio.run(work())[0] == "defer"
    (call,) = cp.pending_tool_calls(STORED_ID)
    assert (call["call_id"], call["reason"]) == ("a", "ambiguous_error")
    assert not cp.store.list_owned_sessions()


def test_a_subagent_in_the_background_goes_on_while_the_main_agent_gets_a_prompt(cp: SyncCheckpointer) -> None:
    async def work() -> None:
        hooks = Hooks(cp)
        assert await hooks.call("PreToolUse", "a", agent_id="a1", prompt_id="1") == (None, "")
        assert await hooks.call("PreToolUse", "b", {"command": "make"}, prompt_id="2") == (None, "")
        await hooks.call("PostToolUse", "b", tool_response="made", prompt_id="2")
        await hooks.call("Stop", "", prompt_id="2")
        await hooks.call("PostToolUse", "a", tool_response="done", agent_id="a1", prompt_id="2")
        await hooks.call("SubagentStop", "", agent_id="a1", prompt_id="2")

    asyncio.run(work())
    assert {call.call_id: call.status for call in ToolCall.objects.all()} == {"a": "completed", "b": "completed"}
    assert not cp.store.list_owned_sessions()


def _write_denial(path: Path, **fields: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "a", "content": "Rejected.", "is_error": True}
    path.write_text(json.dumps({"type": "user", "message": {"content": [block]}, "toolDenialKind": "x", **fields}))


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"permissionDecision": {"decision": "reject"}}, "failed"),
        ({"toolDenialBeforeRun": True}, "failed"),
        ({}, "interrupted"),  # an interrupt while the tool ran
    ],
)
@pytest.mark.parametrize("prompt_id", mark_all_but_each(2, ["1", "2"]))
def test_a_call_that_the_program_marks_as_rejected_may_have_happened_unless_the_rules_refused_it(
    cp: SyncCheckpointer, tmp_path: Path, fields: dict[str, Any], status: str, prompt_id: str
) -> None:
    path = tmp_path / PROJECT / f"{SESSION_ID}.jsonl"

    async def work() -> None:
        hooks = Hooks(cp)
        await hooks.call("PreToolUse", "a", prompt_id="1", transcript_path=str(path))
        path.parent.mkdir()
        _write_denial(path, **fields)
        await hooks.call("Stop", "", prompt_id=prompt_id, transcript_path=str(path))

    asyncio.run(work())
    assert ToolCall.objects.get().status == status
    assert not cp.store.list_owned_sessions()


def test_the_program_may_write_a_refusal_after_it_has_called_the_hook_at_the_end_of_the_turn(
    cp: SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / PROJECT / f"{SESSION_ID}.jsonl"

    async def work() -> None:
        hooks = Hooks(cp)
        await hooks.call("PreToolUse", "a", transcript_path=str(path))
        path.parent.mkdir()
        path.write_text("")
        refusal = {"permissionDecision": {"decision": "reject"}}
        asyncio.get_running_loop().call_later(0.1, lambda: _write_denial(path, **refusal))
        await hooks.call("Stop", "", transcript_path=str(path))

    asyncio.run(work())
    assert ToolCall.objects.get().status == "failed"
    assert not cp.store.list_owned_sessions()


def test_a_tool_that_reads_is_not_logged(cp: SyncCheckpointer) -> None:
    assert asyncio.run(Hooks(cp).call("PreToolUse", "a", tool="Read")) == (None, "")
    assert asyncio.run(Hooks(cp).call("PostToolUse", "a", tool="Read", tool_response="text")) == (None, "")
    assert not Session.objects.exists()
    assert POLICIES.logs_calls("Write")
    assert not ToolPolicies(READING_TOOLS).logs_calls("Grep")


def test_a_call_that_cannot_be_logged_is_denied(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    other = open_checkpointer()
    other.start_session(STORED_ID)
    decision, reason = asyncio.run(Hooks(cp).call("PreToolUse", "a"))
    assert decision == "deny"
    assert "could not be logged" in reason
    assert not ToolCall.objects.exists()


def test_a_program_that_cannot_defer_calls_gets_a_denial(cp: SyncCheckpointer) -> None:
    policies = ToolPolicies({"Bash": {"requires_approval": True}})
    decision, reason = asyncio.run(Hooks(cp, policies, gate="deny").call("PreToolUse", "a"))
    assert decision == "deny"
    assert "approv" in reason
    with pytest.raises(InvalidInput, match="is not a gate"):
        tool_hooks(cp, gate="ask")  # type: ignore[arg-type]


def test_a_subagent_has_its_calls_in_its_own_session(cp: SyncCheckpointer) -> None:
    async def work() -> None:
        hooks = Hooks(cp)
        await hooks.call("PreToolUse", "a", agent_id="a1")
        await hooks.call("PostToolUse", "a", tool_response="done", agent_id="a1")
        await hooks.call("SubagentStop", "", agent_id="a1")

    asyncio.run(work())
    call = ToolCall.objects.get()
    assert (call.session.session_id, call.status) == (f"{STORED_ID}/agent-a1", "completed")


def test_a_subagent_continues_the_call_in_which_another_one_died(
    cp: SyncCheckpointer, open_checkpointer: Open, start_child: StartChild
) -> None:
    assert start_child(agents.die_in_subagent, url=database_url()).died_by() == signal.SIGKILL
    make = {"command": "make"}

    async def turn() -> list[Any]:
        hooks = Hooks(open_checkpointer())
        answers = [await hooks.call("PreToolUse", name, make, agent_id=name) for name in ("b1", "b2")]
        if answers[1][0] is None:
            await hooks.call("PostToolUse", "b2", tool_response="built again", agent_id="b2")
        await hooks.call("SubagentStop", "", agent_id="b2")
        await hooks.call("Stop", "")
        return answers

    assert asyncio.run(Hooks(open_checkpointer()).call("PreToolUse", "c"))[0] == "defer"  # of the main agent
    waiting = asyncio.run(turn())
    assert [decision for decision, _ in waiting] == ["deny", "deny"]  # a deferred call would end a subagent silently
    assert all("in the review queue" in reason for _, reason in waiting)
    assert not Run.objects.filter(status="running").exists()
    (call,) = cp.pending_tool_calls(f"{STORED_ID}/agent-a1")
    about: dict[str, Any] = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
    cp.confirm_landed(f"{STORED_ID}/agent-a1", call["call_id"], "built", **about)
    replayed, new = asyncio.run(turn())
    assert replayed[0] == "deny"
    assert replayed[1].endswith("Continue with this result: built")
    assert new == (None, "")
    assert ToolCall.objects.get(call_id="a").answered_version is not None
    assert not Run.objects.filter(status="running").exists()


def test_a_subagent_continues_no_call_by_the_policy_call(
    cp: SyncCheckpointer, open_checkpointer: Open, start_child: StartChild
) -> None:
    assert start_child(agents.die_in_subagent, url=database_url()).died_by() == signal.SIGKILL
    by_call = ToolPolicies(READING_TOOLS, idempotency="call")
    assert asyncio.run(Hooks(open_checkpointer(), by_call).call("PreToolUse", "c"))[0] == "defer"  # of the main agent
    (call,) = cp.pending_tool_calls(f"{STORED_ID}/agent-a1")
    about: dict[str, Any] = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
    cp.confirm_landed(f"{STORED_ID}/agent-a1", call["call_id"], "built", **about)

    async def turn() -> Any:
        hooks = Hooks(open_checkpointer(), by_call)
        answer = await hooks.call("PreToolUse", "b", {"command": "make"}, agent_id="b")
        await hooks.call("PostToolUse", "b", tool_response="built again", agent_id="b")
        await hooks.call("SubagentStop", "", agent_id="b")
        await hooks.call("Stop", "")
        return answer

    assert asyncio.run(turn()) == (None, "")
    assert ToolCall.objects.get(call_id="b").session.session_id == f"{STORED_ID}/agent-b"
    assert ToolCall.objects.get(call_id="a").answered_version is None


def test_a_process_with_an_old_transcript_makes_no_call(
    store: HarnessSessionStore, open_checkpointer: Open, effects: Path
) -> None:
    async def ask(other: HarnessSessionStore) -> Any:
        return await Hooks(other, POLICIES).call("PreToolUse", "a", {"order": 17, "amount": 40}, REFUND)

    run(store, effects)
    other = HarnessSessionStore(open_checkpointer())
    asyncio.run(other.load(agents.RUN_KEY))
    run(store, effects, prompt=QUESTION)  # meanwhile another process makes the same call, and ends
    decision, reason = asyncio.run(ask(other))
    assert decision == "deny"
    assert "version" in reason
    asyncio.run(other.load(agents.RUN_KEY))
    assert asyncio.run(ask(other)) == (None, "")


def test_lines_that_the_process_itself_stores_meanwhile_do_not_make_its_transcript_old(
    store: HarnessSessionStore, monkeypatch: pytest.MonkeyPatch, effects: Path
) -> None:
    run(store, effects)
    claims, read_latest_version = (
        SessionClaims.get_for_client(store.sync_checkpointer),
        store._load_latest_version_number,
    )

    def store_line_first_if_nobody_prevents_it(session_id: str) -> int:
        if not claims._get_session_lock(session_id).locked():
            line: Any = {"type": "user", "uuid": "next", "message": {"role": "user", "content": "Go on."}}
            asyncio.run(store.append(agents.RUN_KEY, [line]))
        return read_latest_version(session_id)

    monkeypatch.setattr(store, "_load_latest_version_number", store_line_first_if_nobody_prevents_it)
    assert asyncio.run(Hooks(store, POLICIES).call("PreToolUse", "a", {"order": 18, "amount": 1}, REFUND)) == (None, "")
