"""Hooks for the tools of the Claude Agent SDK: each call passes the log, and the gate ends the run as a deferred call.

The two hooks around a call are the two ends of one guarded call: `PreToolUse` waits until the guard lets it run, and
`PostToolUse` or `PostToolUseFailure` gives the guard its outcome.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeVar

from claude_agent_sdk import HookMatcher

from checkpoints.adapters.claude import (
    calls_between_hooks,
    create_session_of_sdk_fork,
    find_or_await_transcript_lines,
    transcript_keys,
)
from checkpoints.adapters.claude.calls_between_hooks import (
    CallBetweenHooks,
    CallFailed,
    CallRefused,
    CallsBetweenHooks,
    OutcomeUnknown,
    Turn,
)
from checkpoints.adapters.claude.readable_transcript_writer import AGENT_NAME, FRAMEWORK
from checkpoints.adapters.claude.session_store import HarnessSessionStore
from checkpoints.adapters.claude.subagent_session_claims_and_repeated_calls import SubagentSessionClaims
from checkpoints.adapters.claude.transcript_keys import TranscriptKey
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.sync_or_async_client import run_on_thread
from checkpoints.async_client import Checkpointer
from checkpoints.calls.tool_result_and_verify_answer_types import ToolResult
from checkpoints.calls.value_codec import ValueCodec
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import ApprovalRequired, CheckpointerClosed, CheckpointsError, InvalidInput, ReviewRequired
from checkpoints.formats.stored_result_sentence import build_stored_result_sentence
from checkpoints.models import Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sync_client import SyncCheckpointer
from checkpoints.tools.foreign_tool_guard import ToolPolicies, aguard
from checkpoints.tools.tool import ToolOptions

T = TypeVar("T")
Output = dict[str, Any]

#: Tools of Claude Code that only read, or whose effects are those of other calls.
READING_TOOLS: Final[dict[str, ToolOptions]] = {
    name: {"side_effects": {"read"}}
    for name in (
        "Agent",
        "AskUserQuestion",
        "ExitPlanMode",
        "Glob",
        "Grep",
        "LS",
        "NotebookRead",
        "Read",
        "Skill",
        "Task",
        "TodoWrite",
        "ToolSearch",
        "WebFetch",
        "WebSearch",
    )
}
#: Seconds after which the program gives up waiting for a hook, and blocks the call.
_HOOK_TIMEOUT: Final = 600.0
#: Errors after which it is not known whether the effect happened, by the texts that MCP and Claude Code give them.
_UNKNOWN_OUTCOME: Final = re.compile(
    r"time[d ]?.?out|connection (?:closed|reset|error)|econnreset|socket hang up|abort|interrupt|-32000|-32001"
    r"|^command failed with no output$|^$",  # an exception without a text, such as that of a timeout of asyncio
    re.IGNORECASE,
)
#: Seconds between two looks into the file of a transcript, and the number of looks, for lines that are being written.
_RESULT_POLL_INTERVAL: Final = 0.05
_RESULT_POLLS: Final = 60
_TURN_ENDED: Final = "The turn ended, and nobody reported the outcome of the call."
_PRE, _POST, _FAILURE = "PreToolUse", "PostToolUse", "PostToolUseFailure"


def tool_hooks(
    checkpointer: HarnessSessionStore | SyncCheckpointer | Checkpointer,
    policies: ToolPolicies | None = None,
    *,
    agent: str = "",
    gate: Literal["defer", "deny"] = "defer",
) -> dict[Any, list[HookMatcher]]:
    """Return hooks that guard the tools of an agent.

        options = ClaudeAgentOptions(session_store=store, hooks=tool_hooks(store, policies))

    A call of a tool with side effects claims its session and is logged before it runs. A call that has happened is
    denied, with its stored result as reason. If a person has to decide first, the session is released and the run ends
    with the call deferred; resumed after the decision, the call continues as was decided. A call
    of a subagent is denied then.

    Args:
        checkpointer: Store of the sessions, or a client.
        policies: Options of tools by patterns of their names. None: those of `READING_TOOLS` read, every other mutates.
        agent: Name of the agent of new sessions, for lists and filters. Empty: `claude-code`.
        gate: What a call gets that waits for a person. `deny` is for programs that cannot defer calls: the model reads
            that it waits.

    Returns:
        Value for `hooks` of `ClaudeAgentOptions`.

    Raises:
        InvalidInput: `gate` is none, or the client is one of a server over HTTP.
    """
    hooks = _ToolHooks(checkpointer, policies or ToolPolicies(READING_TOOLS), agent, gate)
    matcher = partial(HookMatcher, timeout=_HOOK_TIMEOUT)
    return {
        _PRE: [matcher(hooks=[hooks.log_intent_or_deny_call], on_failure="block")],
        _POST: [matcher(hooks=[hooks.log_outcome_after_call])],
        _FAILURE: [matcher(hooks=[hooks.log_outcome_after_call])],
        "Stop": [matcher(hooks=[hooks.log_refused_calls_and_release_session])],
        "SubagentStop": [matcher(hooks=[hooks.log_refused_calls_and_release_session])],
    }


class _ToolHooks:
    """Hooks of one agent, and the calls that run now."""

    def __init__(
        self,
        checkpointer: HarnessSessionStore | SyncCheckpointer | Checkpointer,
        policies: ToolPolicies,
        agent: str,
        gate: Literal["defer", "deny"],
    ) -> None:
        if gate not in {"defer", "deny"}:
            raise InvalidInput(f"{gate!r} is not a gate. Use 'defer' or 'deny'.")
        if isinstance(checkpointer, HarnessSessionStore):
            agent = agent or checkpointer.agent
            checkpointer.exclude_calls_logged_by_hooks(policies)
            self._transcripts: HarnessSessionStore | None = checkpointer
            checkpointer = checkpointer.checkpointer
        else:
            self._transcripts = None
        self._client = checkpointer
        sync = self._client.sync if isinstance(self._client, Checkpointer) else self._client
        self._sync = sync
        self._policies, self._gate = policies, gate
        policies.register_verify_hooks(sync)
        description = NewSessionFields(agent=agent or AGENT_NAME, labels=[AGENT_NAME], framework=FRAMEWORK)
        self._subagent_calls = SubagentSessionClaims(sync, SessionClaims.get_for_client(sync), description, policies)
        self._codec = ValueCodec(_encode_value_as_json, _decode_logged_json_value, _get_result_text_or_value)
        self._calls = CallsBetweenHooks.get_for_client(sync)

    # hooks

    async def log_intent_or_deny_call(self, hook: Any, tool_use_id: str | None, context: Any) -> Output:
        """Log the intent of a call, or answer it from the log."""
        name, args = hook["tool_name"], hook["tool_input"]
        if not self._policies.logs_calls(name):
            return {}
        try:
            key = transcript_keys.get_transcript_key_of_hook(hook)
            call_id = str(tool_use_id or hook.get("tool_use_id") or name)
            await self._end_calls_of_past_turns_and_release_sessions(key, hook, call_id)
            await self._create_missing_forks(key, hook, call_id)
            turn = calls_between_hooks.get_turn_of_hook(hook)
            return await self._start_guarded_call_and_build_permission(key, name, args, call_id, turn)
        except CheckpointsError as error:
            return _build_permission_output("deny", f"The call was not made, because it could not be logged: {error}")

    async def _create_missing_forks(self, key: TranscriptKey, hook: Any, call_id: str) -> None:
        """Create the sessions of a fork before its first call: its lines may be stored at the end of the turn only."""
        for agent in dict.fromkeys((replace(key, subpath=""), key)):
            if not await self._run_blocking(partial(self._is_session_missing_or_unused, agent)):
                continue
            origin = await asyncio.to_thread(
                create_session_of_sdk_fork.find_origin_session_id_in_files_or_none,
                hook,
                agent,
                call_id if agent == key else "",
            )
            if origin is None:
                continue
            create = (
                partial(create_session_of_sdk_fork.create_forked_session_if_missing, self._sync.store)
                if self._transcripts is None
                else self._transcripts.create_forked_session_if_missing
            )
            await self._run_blocking(partial(create, agent, origin))

    def _is_session_missing_or_unused(self, key: TranscriptKey) -> bool:
        store = self._sync.store
        if store.find_owned_session(key.session_id) is not None:
            return False
        sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id)
        with database_operation(store.using, writes=False):
            found = sessions.filter(session_id=key.session_id).values_list("latest_version", "forked_from_id").first()
        return found is None or (found[0] == 0 and found[1] is None)

    async def _start_guarded_call_and_build_permission(
        self, key: TranscriptKey, name: str, args: dict[str, Any], call_id: str, turn: Turn
    ) -> Output:
        call = CallBetweenHooks(turn)
        self._calls.add_call(key, call_id, call)
        task = asyncio.create_task(self._run_guarded_call(key, name, args, call_id, call))
        call.set_guarding_task(task)
        ends: set[asyncio.Future[Any]] = {task, call.started}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if call.started.done():
            return self._allow_if_approved_by_person(name, args, call.started.result())
        self._calls.pop_call_or_none(key, call_id)
        try:
            result = task.result()
        except (ReviewRequired, ApprovalRequired) as gate:
            await self._run_blocking(partial(self._subagent_calls.release_sessions_of_agent, key))
            # A deferred call ends a subagent without a word, and the run of the main agent goes on.
            return _build_permission_output("deny" if key.subpath else self._gate, str(gate))
        return _build_permission_output("deny", _format_replayed_result(result))

    async def _run_guarded_call(
        self, key: TranscriptKey, name: str, args: dict[str, Any], call_id: str, call: CallBetweenHooks
    ) -> ToolResult:
        session_id = await self._run_blocking(partial(self._choose_and_claim_session_for_call, key, name, args))
        try:
            return await aguard(
                self._client,
                session_id,
                name,
                args,
                call_id,
                call.mark_started_and_wait_for_outcome,
                policies=self._policies,
                codec=self._codec,
            )
        finally:
            # A client that was closed meanwhile has no claims.
            with suppress(CheckpointerClosed):
                await self._run_blocking(partial(self._subagent_calls.end_call_claim, key, session_id))

    def _choose_and_claim_session_for_call(self, key: TranscriptKey, name: str, args: dict[str, Any]) -> str:
        is_claimed = self._sync.store.find_owned_session(key.root_session_id) is not None
        session_id = self._subagent_calls.claim_sessions_and_choose_one_to_log_call(key, name, args)
        if self._transcripts is not None and not is_claimed:
            try:
                self._transcripts.require_no_newer_version(key.root_session_id)
            except CheckpointsError:
                self._subagent_calls.end_call_claim(key, session_id)
                self._subagent_calls.release_sessions_of_agent(key)
                raise
        return session_id

    def _allow_if_approved_by_person(self, name: str, args: dict[str, Any], decided: dict[str, Any]) -> Output:
        """Return no opinion, so that the rules of the program apply, unless a person has approved the call."""
        if decided != args:
            return _build_permission_output(
                "allow", "A person approved the call with other arguments.", updatedInput=decided
            )
        if self._policies.find_options(name).get("requires_approval"):
            return _build_permission_output("allow", "A person approved the call.")
        return {}

    async def log_outcome_after_call(self, hook: Any, tool_use_id: str | None, context: Any) -> Output:
        """Log the outcome of a call."""
        key = transcript_keys.get_transcript_key_of_hook(hook)
        call = self._calls.pop_call_or_none(key, str(tool_use_id or hook.get("tool_use_id")))
        if call is not None:
            await call.set_outcome_and_wait_until_logged(_build_value_or_error(hook))
        return {}

    async def log_refused_calls_and_release_session(self, hook: Any, tool_use_id: str | None, context: Any) -> Output:
        """Release the session at the end of a turn. Calls that the program refused have not happened."""
        key = transcript_keys.get_transcript_key_of_hook(hook)
        await self._end_calls_of_past_turns_and_release_sessions(key, hook)
        waiting = self._calls.collect_call_ids(key)
        for call_id, denial in (await _poll_transcript_file_for_denials_by_call_id(hook, waiting)).items():
            call = self._calls.pop_call_or_none(key, call_id) if denial is not None else None
            if call is not None:
                await call.set_outcome_and_wait_until_logged(denial)
        await self._run_blocking(partial(self._subagent_calls.release_sessions_of_agent, key, closes_calls=True))
        return {}

    async def _end_calls_of_past_turns_and_release_sessions(
        self, key: TranscriptKey, hook: Any, call_id: str = ""
    ) -> None:
        """Log what is known about calls whose turn has ended without their outcome, and release their sessions."""
        ended = self._calls.pop_calls_of_ended_turns(key, calls_between_hooks.get_turn_of_hook(hook), call_id)
        if not ended:
            return
        denials = await asyncio.to_thread(_map_answered_call_ids_to_denial_or_none, hook, {name for _, name in ended})
        for (_, name), call in ended.items():
            await call.set_outcome_and_wait_until_logged(denials.get(name) or OutcomeUnknown(_TURN_ENDED))
        for agent in {of for of, _ in ended} | {replace(key, subpath="")}:
            await self._run_blocking(partial(self._subagent_calls.release_sessions_of_agent, agent))

    async def _run_blocking(self, work: Callable[[], T]) -> T:
        return await run_on_thread(self._client, work)


def _build_permission_output(decision: str, reason: str, **more: Any) -> Output:
    fields = {"hookEventName": _PRE, "permissionDecision": decision, "permissionDecisionReason": reason, **more}
    return {"hookSpecificOutput": fields}


def _format_replayed_result(result: ToolResult) -> str:
    if result.is_error:
        return result.content or "A person rejected the call."
    return build_stored_result_sentence(result.content)


def _build_value_or_error(hook: Any) -> Any:
    """Return the value of a call, or the exception that stands for its failure."""
    if hook.get("hook_event_name") != _FAILURE:
        return hook.get("tool_response")
    error = str(hook.get("error", ""))
    return OutcomeUnknown(error) if hook.get("is_interrupt") or _UNKNOWN_OUTCOME.search(error) else CallFailed(error)


async def _poll_transcript_file_for_denials_by_call_id(hook: Any, call_ids: set[str]) -> dict[str, Exception | None]:
    """Find the results of calls in the file of the transcript, whose last lines are written after the hook is called.

    Returns what `_map_answered_call_ids_to_denial_or_none` returns, without the calls that have no result after a
    while.
    """
    results: dict[str, Exception | None] = {}
    for number in range(_RESULT_POLLS):
        if call_ids <= results.keys() or not find_or_await_transcript_lines.find_transcript_path(hook).exists():
            break
        await asyncio.sleep(_RESULT_POLL_INTERVAL if number else 0)
        results = await asyncio.to_thread(_map_answered_call_ids_to_denial_or_none, hook, call_ids)
    return results


def _map_answered_call_ids_to_denial_or_none(hook: Any, call_ids: set[str]) -> dict[str, Exception | None]:
    """Read the results of calls from the file of the transcript.

    Returns for each call that has one what its outcome is if the program did not make the call, or not to its end, and
    else None.
    """
    results: dict[str, Exception | None] = {}
    for line in find_or_await_transcript_lines.iterate_transcript_lines_containing(hook, *call_ids):
        try:
            found = {block["tool_use_id"]: str(block.get("content", "")) for block in line["message"]["content"]}
        except (AttributeError, KeyError, TypeError):
            continue
        results |= {
            name: _parse_denial_of_line_or_none(line, reason) for name, reason in found.items() if name in call_ids
        }
    return results


def _parse_denial_of_line_or_none(line: dict[str, Any], reason: str) -> Exception | None:
    """Return what a line says about the outcome of a call; None if it has its result."""
    if "toolDenialKind" not in line:
        return None
    decision = line.get("permissionDecision")
    is_refused = isinstance(decision, dict) and decision.get("decision") == "reject"
    # An interrupt marks a call that it stops as rejected, too, without a decision.
    return CallRefused(reason) if is_refused or line.get("toolDenialBeforeRun") is True else OutcomeUnknown(reason)


def _encode_value_as_json(value: Any) -> tuple[str, bytes]:
    return "json", json.dumps(value).encode()


def _decode_logged_json_value(encoded: tuple[str, bytes]) -> Any:
    return json.loads(encoded[1])


def _get_result_text_or_value(value: Any) -> Any:
    """Return the text of a result: that of its blocks if it has some."""
    blocks = value.get("content") if isinstance(value, dict) else value
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        return value
    texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
    return "\n".join(texts) if texts and len(texts) == len(blocks) else value
