"""Agent with a scripted model that uses every writing operation of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from checkpoints import ResumePoint, SyncCheckpointer, ToolRegistry, exceptions
from tests.crash.simulated_world import said_by, toolbox
from tests.support.processes import append_line

T = TypeVar("T")
Messages = list[dict[str, Any]]

Model = list[list[dict[str, Any]]]

#: What the model says each time it is asked: the calls it wants. An empty answer is the last.
WITH_TOOLS: Model = [
    [
        {"id": "call_1", "tool": "look_up", "args": {"order": 17}},
        {"id": "call_2", "tool": "charge", "args": {"order": 17}},
        {"id": "call_3", "tool": "charge", "args": {"order": 18}},
    ],
    [
        {"id": "call_1", "tool": "mail", "args": {"order": 17}},
        {"id": "call_2", "tool": "ship", "args": {"order": 17}},
    ],
    [],
]
WITH_APPROVAL: Model = [[{"id": "call_1", "tool": "refund", "args": {"order": 19}}], []]
PRICE = 0.25  # of one answer, in dollars


def act_with_tools(url: str, session_id: str, path: str) -> None:
    _act(url, session_id, path, WITH_TOOLS)


def act_with_approval(url: str, session_id: str, path: str) -> None:
    _act(url, session_id, path, WITH_APPROVAL)


def _act(url: str, session_id: str, path: str, model: Model) -> None:
    """Start or resume the session, and run it to its end."""
    with SyncCheckpointer(url) as cp:
        registry = toolbox(path)
        point = persistently(lambda: begin(cp, session_id, registry))
        if not point.finished:
            Loop(cp, registry, session_id, path, model, point).run()


def begin(cp: SyncCheckpointer, session_id: str, registry: ToolRegistry) -> ResumePoint:
    try:
        return cp.resume(session_id, registry)
    except exceptions.SessionNotFound:
        cp.start_session(session_id, "Where is order 17?", agent="clerk")
        return cp.resume(session_id, registry)


def persistently(work: Callable[[], T]) -> T:
    """Repeat the work after a lost connection, as a long-running agent would."""
    for _ in range(5):
        try:
            return work()
        except exceptions.StorageUnavailable:
            continue
    return work()


class Loop:
    """Loop of model and tools that saves a version before and after the tools run."""

    def __init__(
        self,
        cp: SyncCheckpointer,
        registry: ToolRegistry,
        session_id: str,
        path: str,
        model: Model,
        point: ResumePoint,
    ) -> None:
        self.cp, self.registry, self.session_id, self.path, self.model = cp, registry, session_id, path, model
        self.transcript: Messages = point.transcript or [message("m0", "user", text="Where is order 17?")]
        self.pending = point.pending_response
        self.known = dict(point.replayable)

    def run(self) -> None:
        while (calls := self.ask()) is not None:
            results = [self.answered(call) for call in calls]
            self.transcript.append(message(f"m{len(self.transcript)}", "tool", results=results))
            if self.turn == 1:
                self.book()
            self.save("post_tool_batch")
            self.pending = None
        self.compact()
        self.finish()

    @property
    def turn(self) -> int:
        """Return the number of model answers."""
        return sum(each["role"] == "assistant" for each in self.transcript)

    def ask(self) -> list[dict[str, Any]] | None:
        """Return the calls of the pending answer, or of a new answer that is saved first."""
        if self.pending is None:
            if self.transcript[0]["id"] == "summary" or self.turn == len(self.model) - 1:
                return None
            calls = self.model[self.turn]
            self.transcript.append(message(f"m{len(self.transcript)}", "assistant", calls=calls))
            self.pending = {"calls": calls}
            self.save("post_llm", payload={"pending_llm_response": self.pending})
        return list(self.pending["calls"])

    def answered(self, call: dict[str, Any]) -> dict[str, Any]:
        known = self.known.pop(call["id"], None)
        result = known or persistently(lambda: self.registry.dispatch(call["tool"], call["args"], call["id"]))
        return {"kind": "tool_result", "call_id": call["id"], "text": result.content, "is_error": result.is_error}

    def book(self) -> None:
        """Log a call manually, and make one that only reads."""
        for tool, effects in (("audit", "read"), ("book", "mutate")):
            args, key = {"order": 17}, f"{tool} of {self.session_id}"
            try:
                persistently(lambda: self.log_intent(tool, args, key, effects))  # noqa: B023 - called at once
            except exceptions.CallAlreadySettled:
                continue
            if effects == "mutate":
                append_line(self.path, f"{tool} {args['order']}")
            persistently(lambda: self.log_result(tool, said_by(tool, args)))  # noqa: B023

    def log_intent(self, tool: str, args: dict[str, Any], key: str, effects: str) -> None:
        self.cp.record_tool_call_issued(self.session_id, tool, tool, args, key, side_effects=(effects,))

    def log_result(self, call_id: str, text: str) -> None:
        self.cp.record_tool_call_result(self.session_id, call_id, text, True)

    def save(self, phase: str, **more: Any) -> None:
        spent, tokens = PRICE * self.turn, 100 * self.turn
        persistently(
            lambda: self.cp.save_checkpoint(
                self.session_id,
                self.transcript,
                {"turn": self.turn},
                spent,
                phase=phase,
                usage={"input_tokens": tokens, "output_tokens": self.turn},
                **more,
            )
        )

    def compact(self) -> None:
        """Compact the transcript to one message, and append the last one."""
        if self.transcript[0]["id"] != "summary":
            self.transcript = [message("summary", "user", text="Order 17 was handled."), *self.transcript[-1:]]
            self.save("turn")
        if self.transcript[-1]["id"] != "last":
            version = (self.cp.load_latest(self.session_id) or {})["version"]
            last = message("last", "assistant", text="All done.")
            persistently(
                lambda: self.cp.append_checkpoint(
                    self.session_id, [last], expected_version=version, budget_spent_usd=PRICE * len(self.model)
                )
            )

    def finish(self) -> None:
        try:
            persistently(lambda: self.cp.finish_session(self.session_id, "completed", {"orders": [17, 18, 19]}))
        except exceptions.SessionFinished:
            return


def message(message_id: str, role: str, **content: Any) -> dict[str, Any]:
    blocks = [
        *({"kind": "text", "text": text} for text in [content.get("text")] if text),
        *({"kind": "tool_call", **call} for call in content.get("calls", ())),
        *content.get("results", ()),
    ]
    return {"id": message_id, "role": role, "created_at": "2026-01-02T03:04:05+00:00", "blocks": blocks}
