"""Environment of the scripted agent: a file of effects, tools that write to it, and decisions made by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkpoints import Landed, NotLanded, SyncCheckpointer, ToolRegistry, exceptions
from tests.support.processes import append_line

PEOPLE = ("alice", "bob")


def effects(path: str) -> list[str]:
    """Return all effects in order."""
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def said_by(tool: str, args: dict[str, Any]) -> str:
    """Return the result of a tool, as the tool or a person who has seen its effect gives it."""
    return f"{tool} done for order {args['order']}"


def line(tool: str, args: dict[str, Any]) -> str:
    """The effect of a tool."""
    return f"{tool} {args['order']}"


def toolbox(path: str) -> ToolRegistry:
    """Tools of every kind: reading, mutating, with a hook, with two approvals, failing plainly, failing ambiguously."""
    registry = ToolRegistry()

    def act(tool: str, order: int) -> str:
        append_line(path, line(tool, {"order": order}))
        return said_by(tool, {"order": order})

    def was_mailed(args: dict[str, Any]) -> Landed | NotLanded:
        return Landed(said_by("mail", args)) if line("mail", args) in effects(path) else NotLanded()

    @registry.tool(side_effects={"read"})
    def look_up(order: int) -> str:
        return f"order {order}: two books"

    @registry.tool
    def charge(order: int) -> str:
        return act("charge", order)

    @registry.tool(requires_approval=True, approvals=2)
    def refund(order: int) -> str:
        return act("refund", order)

    @registry.tool(verify=was_mailed)
    def mail(order: int) -> str:
        act("mail", order)
        raise TimeoutError("no answer from the mail server")

    @registry.tool
    def ship(order: int) -> str:
        raise ValueError(f"order {order} has no address")

    return registry


def decide(url: str, session_id: str, path: str) -> None:
    """Decide about pending calls according to their effects: confirm those that happened, re-run the others."""
    cp = SyncCheckpointer(url)
    for call in cp.pending_tool_calls(session_id):
        for person in PEOPLE:
            _decide(cp, session_id, call["call_id"], person, path)


def _decide(cp: SyncCheckpointer, session_id: str, call_id: str, person: str, path: str) -> None:
    """Record the decision of one person, if the call still needs it."""
    pending = [call for call in cp.pending_tool_calls(session_id) if call["call_id"] == call_id]
    for call in pending:
        args = {"order": int("".join(filter(str.isdigit, call["args_json"])))}
        named: dict[str, Any] = {"actor": person, "reason": "I have looked.", "revision": call["revision"]}
        try:
            if call["status"] == "awaiting_approval":
                cp.approve_call(session_id, call_id, **named)
            elif line(call["tool_name"], args) in effects(path):
                cp.confirm_landed(session_id, call_id, said_by(call["tool_name"], args), **named)
            else:
                cp.approve_rerun(session_id, call_id, **named)
        except exceptions.SecondPersonRequired:
            continue


def observe(url: str, session_id: str, path: str) -> dict[str, Any]:
    """Return everything that must be equal at the end, whatever crashes happened."""
    from checkpoints.models import Session, ToolCall

    cp = SyncCheckpointer(url)
    latest = cp.load_latest(session_id) or {}
    session = Session.objects.using(cp.store.using).get(session_id=session_id)
    calls = ToolCall.objects.using(cp.store.using).filter(session=session).order_by("pk")
    versions = range(1, session.latest_version + 1)
    return {
        "effects": sorted(effects(path)),
        "status": session.status,
        "result": session.result,
        "owner": session.owner_id,
        **{name: latest[name] for name in ("transcript", "plan", "budget_spent_usd", "usage", "version", "phase")},
        "versions": [[message["id"] for message in cp.load(session_id, number)["transcript"]] for number in versions],
        "totals": [str(session.budget_spent_usd), session.total_tokens, session.message_count],
        "calls": {call.call_id: [call.tool, call.status, call.result_text] for call in calls},
        "open": cp.pending_tool_calls(session_id),
    }


def observe_replays(url: str, session_id: str, path: str) -> dict[str, Any]:
    """The same, and how often a call was made again and the constraint on its key had to stand in its way. A resume
    says what has happened, so an agent that listens to it never comes as far as that."""
    from checkpoints.models import ToolCall

    end = observe(url, session_id, path)
    using = SyncCheckpointer(url).store.using
    return {
        **end,
        "refused": sum(
            call.replay_count for call in ToolCall.objects.using(using).filter(session__session_id=session_id)
        ),
    }
