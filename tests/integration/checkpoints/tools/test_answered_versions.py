"""Versions that contain results of calls, and their effect on the policy `unanswered` and the others."""

import logging
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer, SyncWriteBehind, Tool, ToolRegistry, ToolResult
from checkpoints.calls import intent_log
from checkpoints.exceptions import InvalidInput, StorageUnavailable
from checkpoints.loop_state.phase_details import PostToolBatch
from checkpoints.models import ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import lose_run, start_session
from tests.integration.checkpoints.tools.shell_agent import (
    TEST,
    ShellAgent,
    answer,
    answered,
    ask,
    contents,
    dispatch,
    save,
)

# versions that come and go


@pytest.mark.parametrize(("version", "runs"), [(1, False), (2, True)])
def test_fork_inherits_the_answers_of_its_version(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent, version: int, runs: bool
) -> None:
    tools = shell.tools(start_session(cp))
    transcript = save(cp, [], *dispatch(tools, "call_0", args={"command": "ls"}))
    save(cp, transcript, *dispatch(tools, "call_1"))
    cp.fork_session("s", "fork", version=version)
    forker = open_checkpointer()
    forker.start_session("fork")
    (result,) = dispatch(shell.tools(forker, "fork"), "fork_1")

    assert (result.replayed, answered("fork")[:2]) == (not runs, [1, 1] if runs else [1, None])
    assert dispatch(shell.tools(forker, "fork"), "fork_2", args={"command": "ls"})[0].replayed is False


def test_new_operations_of_a_fork_differ_from_inherited_ones(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    """Fork and origin share version 1, and both number their operations from there."""
    tools = shell.tools(start_session(cp))
    save(cp, [], *dispatch(tools, "call_0"))
    dispatch(tools, "call_1")
    cp.fork_session("s", "fork", version=1)
    forker = open_checkpointer()
    forker.start_session("fork")

    results = dispatch(shell.tools(forker, "fork"), "fork_1", "fork_2")
    assert [(result.content, result.replayed) for result in results] == [
        ("make test #2", True),
        ("make test #3", False),
    ]


def test_deleted_version_answers_no_call(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    transcript = save(cp, [], *dispatch(tools, "call_1"))
    save(cp, transcript, *dispatch(tools, "call_2"))
    cp.delete_checkpoint("s", 2)

    assert answered() == [1, None]
    assert [result.replayed for result in dispatch(tools, "new_1", "new_2")] == [True, False]


def test_compacted_result_stays_an_answer(cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    cp.save_checkpoint("s", [{"role": "user", "content": "what was said, in short"}], None, 0)

    assert dispatch(shell.tools(lose_run(open_checkpointer)), "call_2")[0].replayed is False


def test_edited_transcript_answers_no_call_of_a_later_turn(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    """The id is reused while the old result of that id is still in the edited transcript."""
    tools = shell.tools(start_session(cp))
    transcript = save(cp, [{"role": "user", "content": "test"}], *dispatch(tools, "call_1"))
    dispatch(tools, "call_1")
    cp.save_checkpoint("s", transcript[1:], None, 0)

    assert answered() == [1, None]
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "new_1")[0].replayed is True


def test_edited_transcript_with_a_new_result_answers(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    transcript = save(cp, [{"role": "user", "content": "test"}], *dispatch(tools, "call_1"))
    (result,) = dispatch(tools, "call_2")
    save(cp, transcript[1:], result)

    assert answered() == [1, 2]


def test_compaction_may_replace_the_result_of_an_id(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    (result,) = dispatch(tools, "call_1")
    save(cp, [{"role": "user", "content": "what was said, in short"}], result)

    assert (answered(), dispatch(tools, "call_1")[0].replayed) == ([1, 2], False)


def test_exported_session_keeps_its_answers(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent, tmp_path: Path
) -> None:
    tools = shell.tools(start_session(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    dispatch(tools, "call_2")
    cp.close()
    with open_checkpointer() as other:
        other.export_session("s", tmp_path / "s.jsonl")
        other.delete_session("s")
        other.import_session(tmp_path / "s.jsonl")
        other.resume("s")
        results = dispatch(shell.tools(other), "new_1", "new_2")

    assert [(result.content, result.replayed) for result in results] == [
        ("make test #2", True),
        ("make test #3", False),
    ]


def test_appended_results_are_answers(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    for version in range(3):
        (result,) = dispatch(tools, "call_1")
        assert result.replayed is False
        cp.append_checkpoint("s", [ask("call_1"), *answer(result)], expected_version=version)

    assert answered() == [1, 2, 3]


def test_result_appended_without_a_run_is_an_answer(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    (result,) = dispatch(shell.tools(start_session(cp)), "call_1")
    cp.close()
    other = open_checkpointer()
    other.append_checkpoint("s", [ask("call_1"), *answer(result)], expected_version=0)
    other.start_session("s")

    assert (answered(), dispatch(shell.tools(other), "call_2")[0].replayed) == ([1], False)


def test_consecutive_handles_of_a_session(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    """Each request of a web application takes the session and releases it."""
    tools = shell.tools(cp)
    for turn in range(3):
        with cp.session("s", registry=tools) as session:
            results = [session.dispatch("bash", TEST, call_id) for call_id in ("call_1", "call_2")]
            session.append([ask("call_1", "call_2"), *answer(*results)])
        assert contents(results) == [f"make test #{2 * turn + 1}", f"make test #{2 * turn + 2}"]


def test_many_results_in_one_save_are_answers(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    """The results are more than one statement can take."""
    (result,) = dispatch(shell.tools(start_session(cp)), "call_1")
    save(cp, [{"role": "user", "content": str(number)} for number in range(100)], result)

    assert answered() == [1]


def test_snapshots_written_behind_are_answers(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    with SyncWriteBehind(cp) as behind:
        transcript: list[dict[str, Any]] = []
        for turn in range(3):
            (result,) = dispatch(tools, "call_1")
            assert result.content == f"make test #{turn + 1}"
            for part in ([ask("call_1")], answer(result)):
                transcript = [*transcript, *part]
                behind.save_checkpoint("s", transcript, None, 0, step=turn)

    assert None not in answered()


def test_results_in_the_transcript_of_a_phase_are_answers(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    (result,) = dispatch(tools, "call_1")
    cp.save_phase("s", PostToolBatch(), transcript=[ask("call_1"), *answer(result)])

    assert (answered(), dispatch(tools, "call_1")[0].replayed) == ([1], False)


def test_dispatch_error_releases_its_operation(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is asked again in the same run, after an error unrelated to the call."""
    dispatch(shell.tools(start_session(cp)), "call_1")
    taker = lose_run(open_checkpointer)
    tools = shell.tools(taker)
    with monkeypatch.context() as patch:
        patch.setattr(intent_log, "issue_call_or_find_live_call", unavailable)
        with pytest.raises(StorageUnavailable):
            dispatch(tools, "new_1")

    assert [result.replayed for result in dispatch(tools, "new_2", "new_1")] == [True, False]


def unavailable(*_: object, **__: object) -> None:
    raise StorageUnavailable("The database is away.", may_have_happened=False)


# the other policies


def test_policy_once_reports_an_earlier_answer(
    cp: SyncCheckpointer, effects: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tools = ShellAgent(effects, "once").tools(start_session(cp))
    first, again = dispatch(tools, "call_1", "call_2")
    assert (again.replayed, again.answered_before, caplog.messages) == (True, False, [])

    save(cp, [], first)
    late = dispatch(tools, "call_3", "call_4")
    assert late == [ToolResult(result.call_id, first.content, replayed=True, answered_before=True) for result in late]
    (record,) = [record for record in caplog.records if record.name.startswith("checkpoints")]
    assert (record.levelno, "'unanswered'" in record.message, "'call'" in record.message) == (
        logging.WARNING,
        True,
        True,
    )


def test_chosen_policy_logs_no_warning(cp: SyncCheckpointer, effects: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "checkpoints")
    tools = ShellAgent(effects, idempotency="once").tools(start_session(cp))
    save(cp, [], *dispatch(tools, "call_1"))
    dispatch(tools, "call_2")

    assert [record.levelno for record in caplog.records if "call_2" in record.message] == [logging.INFO]


def test_changed_policy_keeps_open_calls(cp: SyncCheckpointer, open_checkpointer: Open, effects: Path) -> None:
    dispatch(ShellAgent(effects, "once").tools(start_session(cp)), "call_1")

    assert dispatch(ShellAgent(effects).tools(lose_run(open_checkpointer)), "new_1")[0].replayed is True


def test_tool_uses_its_policy_or_that_of_the_registry(cp: SyncCheckpointer, effects: Path) -> None:
    tools = ToolRegistry(checkpointer=start_session(cp), session_id="s", idempotency="call")
    tools.tool(name="default")(lambda: "")
    tools.tool(name="own", idempotency="once")(lambda: "")
    for tool in ("default", "own"):
        tools.dispatch(tool, {}, f"{tool}_1")

    assert dict(ToolCall.objects.values_list("tool", "key_policy")) == {"default": "call", "own": "once"}


def test_explicit_key_has_no_policy_and_never_matches(
    cp: SyncCheckpointer, open_checkpointer: Open, shell: ShellAgent
) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "bash", TEST, "its own key")
    cp.record_tool_call_result("s", "call_1", "logged", True)

    assert ToolCall.objects.get().key_policy == ""
    assert dispatch(shell.tools(lose_run(open_checkpointer)), "new_1")[0].replayed is False


def test_result_of_a_manually_logged_call_is_an_answer(cp: SyncCheckpointer) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "bash", TEST, "its own key")
    cp.record_tool_call_result("s", "call_1", "logged", True)
    save(cp, [], ToolResult("call_1", "logged"))

    assert answered() == [1]


def test_workflow_steps_are_never_matched_or_answered(cp: SyncCheckpointer, shell: ShellAgent) -> None:
    tools = shell.tools(start_session(cp))
    cp.workflow("s", "w").step("test", tools.tools["bash"], "make test")
    save(cp, [], ToolResult("w/test", "a message that names it"))

    assert (answered(), ToolCall.objects.get().key_policy) == ([None], "step")
    assert dispatch(tools, "call_1")[0].content == "make test #2"


@pytest.mark.parametrize("policy", ["args", "arguments", None, 3, ["once"]], ids=repr)
def test_unknown_policy_is_refused_at_registration(policy: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        ToolRegistry(idempotency=policy)
    assert "'once'" in refused.value.detail
    if policy is not None:
        with pytest.raises(InvalidInput):
            ToolRegistry().tool(idempotency=policy)(lambda: "")
        with pytest.raises(InvalidInput):
            ToolRegistry([Tool("bash", lambda: "", idempotency=policy)])


def test_unanswered_requires_a_session() -> None:
    with pytest.raises(InvalidInput):
        ToolRegistry().tool(idempotency="unanswered", scope="workspace")(lambda: "")
    with pytest.raises(InvalidInput):
        ToolRegistry(idempotency="unanswered").tool(scope="workspace")(lambda: "")
    ToolRegistry(idempotency="unanswered").tool(scope="workspace", idempotency="once")(lambda: "")
