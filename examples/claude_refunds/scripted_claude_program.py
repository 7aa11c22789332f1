"""Stand-in for the program that the Claude Agent SDK starts: it speaks the same protocol, and its model is a script.

Hooks, tools and the store of sessions are called by the SDK itself, as with the real program.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from claude_agent_sdk import Transport

Line = dict[str, Any]
#: Function that gets the lines of the session and returns the blocks of the model's next message.
Script = Callable[[Sequence[Line]], list[dict[str, Any]]]
PROJECT = "-srv-shop"
#: Prompt that the program writes itself when it continues a deferred call.
_CONTINUE = "Continue from where you left off."


class ScriptedProgram(Transport):
    """Program of one run. A call is refused unless its tool is allowed or a hook allows it, as in the real one."""

    def __init__(
        self,
        script: Script,
        session_id: str,
        *,
        history: Sequence[Line] = (),
        allowed: Sequence[str] = (),
        config: Path | None = None,
    ) -> None:
        """Create the program.

        Args:
            script: Script of the model.
            session_id: Id of the session.
            history: Lines of the session so far, as the SDK materializes them for a resume.
            allowed: Names of the tools that may run without a question.
            config: Folder of the program's files, in which it writes the transcript. None: it writes none.
        """
        self.session_id, self.lines = session_id, list(history)
        self._script, self._allowed = script, frozenset(allowed)
        self._messages: asyncio.Queue[Line | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._hooks: dict[str, list[str]] = {}
        self._playing: asyncio.Task[None] | None = None
        self._config = config
        folder = config or Path.home() / ".claude"  # where the SDK looks for the files of transcripts
        self._path = str(folder / "projects" / PROJECT / f"{session_id}.jsonl")

    # the protocol

    async def connect(self) -> None:
        return None

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        return None

    async def close(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
        self._messages.put_nowait(None)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._messages.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        for text in data.splitlines():
            message = json.loads(text)
            if message["type"] == "control_request":
                self._answer_initialize_request(message)
            elif message["type"] == "control_response":
                response = message["response"]
                self._answers.pop(response["request_id"]).set_result(response)
            elif message["type"] == "user":
                self._playing = asyncio.create_task(self._run_until_answered_or_deferred(message["message"]["content"]))

    def _answer_initialize_request(self, message: Line) -> None:
        request = message["request"]
        for event, matchers in (request.get("hooks") or {}).items():
            self._hooks[event] = [name for matcher in matchers for name in matcher["hookCallbackIds"]]
        response = {"hook_on_failure_supported": True, "hooks_applied": True}
        answer = {"subtype": "success", "request_id": message["request_id"], "response": response}
        self._messages.put_nowait({"type": "control_response", "response": answer})

    async def _send_control_request(self, **request: Any) -> Any:
        request_id = uuid.uuid4().hex
        answer = self._answers[request_id] = asyncio.get_running_loop().create_future()
        self._messages.put_nowait({"type": "control_request", "request_id": request_id, "request": request})
        response = await answer
        if response["subtype"] != "success":
            return {"error": response.get("error")}
        return response["response"]

    async def _call_hooks_and_merge_outputs(self, event: str, **fields: Any) -> Line:
        about = {"session_id": self.session_id, "transcript_path": self._path, "cwd": "/srv/shop"}
        decided: Line = {}
        for callback_id in self._hooks.get(event, ()):
            answer = await self._send_control_request(
                subtype="hook_callback",
                callback_id=callback_id,
                tool_use_id=fields.get("tool_use_id"),
                input={**about, "hook_event_name": event, **fields},
            )
            if "error" in answer and event == "PreToolUse":
                answer = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "failed"}}
            decided |= answer.get("hookSpecificOutput") or {}
        return decided

    def _record_and_mirror_transcript_line(self, **fields: Any) -> None:
        line = {
            "parentUuid": next((line["uuid"] for line in reversed(self.lines) if "uuid" in line), None),
            "isSidechain": False,
            **fields,
            "uuid": str(uuid.uuid4()),
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "cwd": "/srv/shop",
            "sessionId": self.session_id,
            "version": "2.1.330",
        }
        self.lines.append(line)
        if self._config is not None:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            with Path(self._path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        self._messages.put_nowait({"type": "transcript_mirror", "filePath": self._path, "entries": [line]})

    # the run

    async def _run_until_answered_or_deferred(self, prompt: Any) -> None:
        """Continue the call that the last run deferred, if it did, and then answer the prompt: each is a turn."""
        deferred = self._find_call_deferred_by_last_run()
        if deferred is not None:
            await self._run_turn(_CONTINUE, deferred)
        await self._run_turn(prompt, None)
        self._messages.put_nowait(None)

    async def _run_turn(self, prompt: Any, deferred: Line | None) -> None:
        stop_reason = "end_turn"
        if deferred is not None and not await self._call_tool_unless_deferred(deferred):
            stop_reason = "tool_deferred"
        else:
            self._record_and_mirror_transcript_line(type="user", message={"role": "user", "content": prompt})
        while stop_reason == "end_turn":
            blocks = self._script(self.lines)
            message_id = f"msg_{uuid.uuid4().hex}"
            for block in blocks:
                message = {"id": message_id, "role": "assistant", "model": "scripted", "content": [block]}
                self._record_and_mirror_transcript_line(type="assistant", message=message)
                self._messages.put_nowait({"type": "assistant", "message": message, "session_id": self.session_id})
            calls = [block for block in blocks if block["type"] == "tool_use"]
            if not calls:
                break
            for call in calls:
                if not await self._call_tool_unless_deferred(call):
                    stop_reason = "tool_deferred"
        await self._send_run_result(stop_reason)

    def _find_call_deferred_by_last_run(self) -> Line | None:
        """Find the call that the last run deferred: the hook is asked about it again, by the same id."""
        last = self.lines[-1] if self.lines else {}
        attachment = last.get("attachment") or {}
        if attachment.get("type") != "hook_deferred_tool":
            return None
        return {"id": attachment["toolUseID"], "name": attachment["toolName"], "input": attachment["toolInput"]}

    async def _call_tool_unless_deferred(self, call: Line) -> bool:
        """Make one call. Returns False if a hook has deferred it."""
        about = {"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}
        decided = await self._call_hooks_and_merge_outputs("PreToolUse", **about)
        decision, reason = decided.get("permissionDecision"), decided.get("permissionDecisionReason", "")
        if decision == "defer":
            names = {"toolUseID": call["id"], "toolName": call["name"], "toolInput": call["input"]}
            self._record_and_mirror_transcript_line(
                type="attachment", attachment={"type": "hook_deferred_tool", **names}
            )
            return False
        if decision == "deny":
            self._record_tool_result_line(call, f"PreToolUse:{call['name']} hook error: {reason}", is_error=True)
            return True
        if decision != "allow" and call["name"] not in self._allowed:
            why = f"Claude requested permissions to use {call['name']}, but you haven't granted it yet."
            self._record_tool_result_line(
                call,
                why,
                is_error=True,
                toolDenialKind="user-rejected",
                permissionDecision={"decision": "reject", "source": "config"},
            )
            return True
        about["tool_input"] = decided.get("updatedInput", call["input"])
        content, failed = await self._execute_tool_on_mcp_server(call["name"], about["tool_input"])
        if failed:
            error = "\n".join(block.get("text", "") for block in content)
            await self._call_hooks_and_merge_outputs("PostToolUseFailure", error=error, **about)
        else:
            changed = await self._call_hooks_and_merge_outputs("PostToolUse", tool_response=content, **about)
            content = changed.get("updatedToolOutput", content)
        self._record_tool_result_line(call, content, is_error=failed)
        return True

    async def _execute_tool_on_mcp_server(self, name: str, args: Line) -> tuple[Any, bool]:
        _, server, tool = name.split("__", 2)
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "scripted", "version": "1"},
        }
        requests: list[tuple[str, Line]] = [
            ("initialize", about),
            ("notifications/initialized", {}),
            ("tools/call", {"name": tool, "arguments": args}),
        ]
        answer: Line = {}
        for number, (method, params) in enumerate(requests):
            message: Line = {"jsonrpc": "2.0", "method": method, "params": params}
            if not method.startswith("notifications/"):
                message["id"] = number
            answer = await self._send_control_request(subtype="mcp_message", server_name=server, message=message)
        response = answer.get("mcp_response", {})
        if "result" not in response:
            return [{"type": "text", "text": str(response.get("error", answer))}], True
        return response["result"]["content"], bool(response["result"].get("isError"))

    def _record_tool_result_line(self, call: Line, content: Any, *, is_error: bool, **fields: Any) -> None:
        block: Line = {"type": "tool_result", "tool_use_id": call["id"], "content": content}
        if is_error:
            block["is_error"] = True
        self._record_and_mirror_transcript_line(
            type="user", message={"role": "user", "content": [block]}, toolUseResult=content, **fields
        )

    async def _send_run_result(self, stop_reason: str) -> None:
        if stop_reason == "end_turn":
            await self._call_hooks_and_merge_outputs("Stop", stop_hook_active=False)
        facts = {"subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False, "num_turns": 1}
        result: Line = {"type": "result", **facts, "session_id": self.session_id, "stop_reason": stop_reason}
        call = self._find_call_deferred_by_last_run()
        if stop_reason == "tool_deferred" and call is not None:
            result["deferred_tool_use"] = call
        said = [block.get("text") for block in self._find_blocks_of_newest_assistant_line()]
        self._messages.put_nowait({**result, "result": "\n".join(text for text in said if text)})

    def _find_blocks_of_newest_assistant_line(self) -> list[Line]:
        said = [line for line in self.lines if line["type"] == "assistant"]
        return said[-1]["message"]["content"] if said else []
