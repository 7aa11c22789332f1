"""Programs in processes of their own."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from checkpoints import Checkpointer
from checkpoints.adapters.claude import HarnessSessionStore, tool_hooks
from examples.claude_refunds.agent import SESSION_ID, run_agent

KEY: Any = {"project_key": "-srv-shop", "session_id": "0f0e0d0c-1111-4222-8333-444455556666"}

RUN_KEY: Any = {"project_key": "-srv-shop", "session_id": SESSION_ID}


def write_lines(url: str, name: str, count: int) -> None:
    """Append lines of which every process has the first one."""

    async def write() -> None:
        async with HarnessSessionStore.open(url) as store:
            for uuid in ("same", *(f"{name}{number}" for number in range(count))):
                await store.append(KEY, [{"type": "user", "uuid": uuid}])

    asyncio.run(write())


def die_in_tool(url: str, effects: str, moment: str) -> None:
    """Run the agent until it kills itself."""

    async def run() -> None:
        async with HarnessSessionStore.open(url) as store:
            await run_agent(store, Path(effects), moment)

    asyncio.run(run())


def call_hook(events: Any, event: str, call_id: str, tool: str = "Bash", **fields: Any) -> Any:
    """Call a hook as the program does, and return an awaitable answer."""
    path = f"/home/.claude/projects/-srv-shop/{SESSION_ID}.jsonl"
    about = {"session_id": SESSION_ID, "transcript_path": path, "hook_event_name": event, "tool_name": tool}
    hook: Any = events[event][0].hooks[0]
    return hook({**about, "tool_input": {}, "tool_use_id": call_id, **fields}, call_id, {"signal": None})


def die_in_subagent(url: str) -> None:
    """Die in a call of a subagent."""

    async def run() -> None:
        async with Checkpointer.open(url) as checkpointer:
            await call_hook(tool_hooks(checkpointer), "PreToolUse", "a", tool_input={"command": "make"}, agent_id="a1")
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(run())
