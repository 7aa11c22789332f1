"""The loop of the agent: ask the model, run the tools it names, again until it has nothing more to do.

What makes it durable is what it says to the checkpointer: a version after each answer of the model and one after its
tools, tools called through the registry, and `resume` at the beginning.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from checkpoints import ResumePoint, SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.exceptions import ReviewRequired, SessionBusy, SessionNotFound
from checkpoints.serde import load_as
from examples.refund_desk.model import SYSTEM_PROMPT, Message, ScriptedModel, message, text, tool_calls
from examples.refund_desk.plan import Budget, Plan, StepStatus, Usage


@dataclass
class Work:
    """Everything the agent knows. It is what a version of the session holds, and it is rebuilt from one."""

    transcript: list[Message]
    plan: Plan
    budget: Budget
    usage: Usage = field(default_factory=Usage)

    @property
    def answered(self) -> bool:
        """Whether the model has said its last word."""
        last = self.transcript[-1]
        return last["role"] == "assistant" and not tool_calls(last)


class RefundDesk:
    """One session of the agent, about one order."""

    def __init__(
        self, checkpointer: SyncCheckpointer, session_id: str, tools: ToolRegistry, model: ScriptedModel, order: int
    ) -> None:
        self.checkpointer = checkpointer
        self.session_id = session_id
        self.tools = tools
        self.model = model
        self.order = order

    def run(self, limit: Decimal) -> Any:
        """Work until the session is finished, whoever began it; return its result. `limit` is in US dollars."""
        while not (point := self._resume()).finished:
            with suppress(ReviewRequired):  # a tool could not say whether it happened: back to the gate
                self._work(self._restored(point, limit), point)
        return point.result

    def _resume(self) -> ResumePoint:
        """Own the session and wait at the gate until everything is decided."""
        while True:
            try:
                return self.checkpointer.resume(self.session_id, self.tools, wait=True)
            except SessionNotFound:
                self.checkpointer.start_session(self.session_id, self._request(), agent="refund-desk")
            except SessionBusy:  # the process before this one has not been missed yet
                time.sleep(1)

    def _request(self) -> str:
        return f"Order {self.order} arrived with a cracked shade. I would like my money back, please."

    def _restored(self, point: ResumePoint, limit: Decimal) -> Work:
        """The work as the newest version has it; where there is none yet, as it begins."""
        if not point.version:
            opening = [message("system", text(SYSTEM_PROMPT)), message("user", text(self._request()))]
            return Work(opening, Plan.for_order(self.order), Budget(limit))
        return Work(
            point.transcript,
            load_as(Plan, point.plan),
            Budget(limit, Decimal(point.budget_spent_usd)),
            load_as(Usage, point.usage),
        )

    def _work(self, work: Work, point: ResumePoint) -> None:
        answer, settled = point.pending_response, point.replayable
        while not work.answered:
            if answer is None and work.budget.exhausted:
                self.checkpointer.finish_session(self.session_id, "failed", {"error": "The budget is used up."})
                return
            self._run_tools(work, answer or self._ask(work), settled)
            answer, settled = None, {}
        done = {"refunded": work.plan.done("refund_card"), "customer_told": work.plan.done("send_email")}
        self.checkpointer.finish_session(self.session_id, "completed", {"order": self.order, **done})

    def _ask(self, work: Work) -> Message:
        """Ask the model, and keep its answer before anything is done about it: it will not be asked this again."""
        answer = self.model.answer(work.transcript)
        work.usage.add(answer.usage)
        work.budget.charge(answer.usage)
        work.transcript.append(answer.message)
        for call in tool_calls(answer.message):
            work.plan.mark(call["name"], StepStatus.IN_PROGRESS)
        if tool_calls(answer.message):
            self._save(work, "post_llm", {"pending_llm_response": answer.message})
        else:
            self._save(work, "run_terminal")
        return answer.message

    def _run_tools(self, work: Work, answer: Message, settled: dict[str, ToolResult]) -> None:
        """Run the calls of `answer`, except for those that an earlier process or a person has settled."""
        for call in tool_calls(answer):
            result = settled.get(call["id"]) or self.tools.dispatch(call["name"], call["args"], call["id"])
            work.transcript.append(message("tool", _as_block(result)))
            work.plan.mark(call["name"], StepStatus.FAILED if result.is_error else StepStatus.DONE)
        if tool_calls(answer):
            self._save(work, "turn")

    def _save(self, work: Work, phase: str, payload: dict[str, Any] | None = None) -> None:
        self.checkpointer.save_checkpoint(
            self.session_id,
            work.transcript,
            asdict(work.plan),
            work.budget.spent,
            phase=phase,
            usage=asdict(work.usage),
            payload=payload,
        )


def _as_block(result: ToolResult) -> dict[str, Any]:
    return {
        "kind": "tool_result",
        "call_id": result.call_id,
        "content": result.content,
        "is_error": result.is_error,
    }
