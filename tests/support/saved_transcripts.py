"""Functions that save sessions as agents do, for processes that `Site.run` starts."""

import contextlib
from typing import Any

from checkpoints import SyncCheckpointer, ToolRegistry, exceptions
from tests.support import processes

#: Name of a tool that is as long as names can be.
LONG_TOOL = "order_" + "badge" * 15


def save_transcript(database: str, texts: list[str]) -> None:
    """Save a version of the session `live-transcript` that has the texts as messages."""
    roles = "assistant", "user", "assistant"
    messages = [{"id": f"m{number}", "role": roles[number], **_as_blocks(text)} for number, text in enumerate(texts)]
    with SyncCheckpointer.open(database) as checkpointer:
        checkpointer.start_session("live-transcript", "Tell me more")
        checkpointer.save_checkpoint("live-transcript", messages, None, 0)


def save_tall_transcript(
    database: str, title: str, prompt_every: int, count: int, last_lines: int, is_running: bool = False
) -> None:
    """Save `count` messages of 30 lines, of which each `prompt_every`-th is a prompt; the last one has `last_lines`.

    With `is_running`, the run says that it has saved them and goes on until it is killed.
    """
    messages = [
        {
            "id": f"m{number}",
            "role": "user" if number % prompt_every == 0 else "assistant",
            **_as_blocks("\n\n".join(f"Line {line}" for line in range(last_lines if number == count - 1 else 30))),
        }
        for number in range(count)
    ]
    checkpointer = SyncCheckpointer.open(database)
    checkpointer.start_session(title.replace(" ", "-"), title)
    checkpointer.save_checkpoint(title.replace(" ", "-"), messages, None, 0)
    if is_running:
        processes.send_to_parent("saved")
        processes.wait_for_parent()
    checkpointer.close()


def save_long_output(database: str) -> None:
    """Save a session in which the agent thinks, and then runs a command with an output of 60 lines."""
    output = "\n".join(f"Line {number}" for number in range(60))
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Run it"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Which command?"}]},
        {"role": "assistant", "content": [_as_tool_use("Bash", {"command": "make report"})]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": output}]},
        {"role": "assistant", "content": "\n\n".join(f"Line {number}" for number in range(30))},
    ]
    with SyncCheckpointer.open(database) as checkpointer:
        checkpointer.start_session("long-output", "A long output")
        checkpointer.save_checkpoint("long-output", messages, None, 0)


def save_search_without_a_result(database: str) -> None:
    """Save the session `open-search`, in which a search that is not logged has no result."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Where is it?"},
        {"role": "assistant", "content": [_as_tool_use("Grep", {"pattern": "lamp"})]},
    ]
    with SyncCheckpointer.open(database) as checkpointer:
        checkpointer.start_session("open-search", "An open search")
        checkpointer.save_checkpoint("open-search", messages, None, 0)


def save_long_names(database: str) -> None:
    """Save a session whose names are as long as names can be, with a call that needs two approvals."""
    registry = ToolRegistry()

    @registry.tool(name=LONG_TOOL, requires_approval=True, approvals=2, decide_within=3000)
    def order(number: str) -> str:
        return number

    with SyncCheckpointer(database) as checkpointer:
        try:
            with checkpointer.session("s" + "x" * 254, "Word" * 50, agent="agent" * 14, registry=registry) as session:
                session.append([{"role": "user", "content": "W" * 300}])
                session.dispatch(LONG_TOOL, {"number": "N" * 400}, call_id="c" * 255)
        except exceptions.ApprovalRequired:
            pass


def save_failed_calls(database: str) -> None:
    """Save three failed calls of a tool with a long name, and one of another tool."""
    registry = ToolRegistry()

    @registry.tool(name=LONG_TOOL)
    @registry.tool(name="charge_card")
    def refuse(number: int) -> str:
        raise ValueError("The printer has no paper.")

    with (
        SyncCheckpointer(database) as checkpointer,
        checkpointer.session("failed-calls", "Print four badges", agent="badge-desk", registry=registry) as session,
    ):
        for number, tool in enumerate((LONG_TOOL, LONG_TOOL, LONG_TOOL, "charge_card")):
            with contextlib.suppress(ValueError):
                session.dispatch(tool, {"number": number}, call_id=f"toolu_{number}")


def _as_tool_use(name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": name, "input": args}


def _as_blocks(text: str) -> dict[str, Any]:
    return {"blocks": [{"kind": "text", "text": text}]}
