"""Agents whose program is Claude Code itself, with a model that is a script."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from checkpoints.adapters.claude import HarnessSessionStore, tool_hooks
from examples.claude_refunds.agent import LOOK_UP, POLICIES, REFUND, build_tool_server
from examples.kill_and_decision_helpers import AFTER_EFFECT
from tests.support.claude_program import find_program_path

SESSION_ID = "0d9c6c1e-0000-4000-8000-000000000017"


@dataclass(frozen=True)
class Place:
    """Place of an agent: the address of its model, and its folders."""

    model: str
    effects: str
    cwd: str
    home: str

    def build_environment(self) -> dict[str, str]:
        """Build the variables of the program, which reaches nothing outside of this machine."""
        return {
            "ANTHROPIC_BASE_URL": self.model,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": f"{self.home}/.claude",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "HOME": self.home,
            "HTTP_PROXY": "http://127.0.0.1:9",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        }


async def run_turn(store: HarnessSessionStore, place: Place, prompt: str, die: Any = None, **options: Any) -> Any:
    """Run the program for one prompt, and return the result of the first turn; `die` is called inside the refund."""
    about = ClaudeAgentOptions(
        session_store=store,
        session_store_flush="eager",
        hooks=tool_hooks(store, POLICIES),
        mcp_servers={"shop": build_tool_server(Path(place.effects), die or (lambda moment: None))},
        allowed_tools=[LOOK_UP, REFUND],
        cwd=place.cwd,
        cli_path=find_program_path(),
        setting_sources=[],
        env=place.build_environment(),
        **options,
    )
    results = [each async for each in query(prompt=prompt, options=about) if isinstance(each, ResultMessage)]
    return results[0]


def die_after_refund(url: str, place: dict[str, str]) -> None:
    """Run the agent until it kills itself and its program after the refund.

    A program without its agent would get errors from its tools, and ask the model for the next call for minutes.
    """

    def die(moment: str) -> None:
        if moment == AFTER_EFFECT:
            os.killpg(0, signal.SIGKILL)

    async def run() -> None:
        async with HarnessSessionStore.open(url) as store:
            await run_turn(store, Place(**place), "Please refund order 17.", die, session_id=SESSION_ID)

    os.setpgid(0, 0)
    asyncio.run(run())


def kill_program(moment: str) -> None:
    """Kill the program after the refund; this process lives on."""
    if moment == AFTER_EFFECT:
        for task in Path("/proc/self/task").iterdir():
            for child in (task / "children").read_text().split():
                if str(find_program_path()) in Path(f"/proc/{child}/cmdline").read_text():
                    os.kill(int(child), signal.SIGKILL)


def encode_place(place: Place) -> dict[str, str]:
    """Return a place as the arguments of another process."""
    return asdict(place)
