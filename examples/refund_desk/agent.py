"""Loop of the agent: ask the model, run the tools it names, repeat until it calls none.

Three things make it durable: a version is saved after each answer of the model and after its tools, tools are called
through the registry, and the loop begins with `resume`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from checkpoints import ResumePoint, SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.exceptions import ReviewRequired, SessionBusy, SessionNotFound
from checkpoints.formats import load_as
from examples.refund_desk.plan_and_budget import Budget, Plan, StepStatus, Usage
from examples.refund_desk.scripted_model import (
    SYSTEM_PROMPT,
    Message,
    ScriptedModel,
    build_message,
    build_text_block,
    list_tool_calls_of_answer,
)


@dataclass
class WorkState:
    """State of the agent. Each version of the session holds it, and it is restored from one."""

    transcript: list[Message]
    plan: Plan
    budget: Budget
    usage: Usage = field(default_factory=Usage)

    @property
    def is_answered(self) -> bool:
        """True if the model has given its final answer."""
        last_message = self.transcript[-1]
        return last_message["role"] == "assistant" and not list_tool_calls_of_answer(last_message)


class RefundDesk:
    """Agent that handles one session about one order."""

    def __init__(
        self, checkpointer: SyncCheckpointer, session_id: str, tools: ToolRegistry, model: ScriptedModel, order: int
    ) -> None:
        self.checkpointer = checkpointer
        self.session_id = session_id
        self.tools = tools
        self.model = model
        self.order = order

    def run(self, limit: Decimal) -> Any:
        """Work until the session is finished, in this or another process; return its result.

        `limit` is in US dollars.
        """
        while not (point := self._start_or_resume_when_decided()).finished:
            with suppress(ReviewRequired):  # a tool could not determine its outcome: back to the gate
                self._run_turns_and_finish_session(self._restore_or_create_work_state(point, limit), point)
        return point.result

    def _start_or_resume_when_decided(self) -> ResumePoint:
        """Acquire the session and wait at the gate until everything is decided."""
        while True:
            try:
                return self.checkpointer.resume(self.session_id, self.tools, wait=True)
            except SessionNotFound:
                self.checkpointer.start_session(self.session_id, self._format_customer_request(), agent="refund-desk")
            except SessionBusy:  # the previous process has not been detected as lost yet
                time.sleep(1)

    def _format_customer_request(self) -> str:
        return f"Order {self.order} arrived with a cracked shade. I would like my money back, please."

    def _restore_or_create_work_state(self, point: ResumePoint, limit: Decimal) -> WorkState:
        """Restore the state from the newest version, or create the initial one."""
        if not point.version:
            opening_messages = [
                build_message("system", build_text_block(SYSTEM_PROMPT)),
                build_message("user", build_text_block(self._format_customer_request())),
            ]
            return WorkState(opening_messages, Plan.create_for_order(self.order), Budget(limit))
        return WorkState(
            point.transcript,
            load_as(Plan, point.plan),
            Budget(limit, Decimal(point.budget_spent_usd)),
            load_as(Usage, point.usage),
        )

    def _run_turns_and_finish_session(self, work: WorkState, point: ResumePoint) -> None:
        answer, settled_results = point.pending_response, point.replayable
        while not work.is_answered:
            if answer is None and work.budget.is_exhausted:
                self.checkpointer.finish_session(self.session_id, "failed", {"error": "The budget is used up."})
                return
            self._run_unsettled_calls_and_save(work, answer or self._ask_model_and_save_answer(work), settled_results)
            answer, settled_results = None, {}
        outcome = {
            "refunded": work.plan.is_step_of_tool_done("refund_card"),
            "customer_told": work.plan.is_step_of_tool_done("send_email"),
        }
        self.checkpointer.finish_session(self.session_id, "completed", {"order": self.order, **outcome})

    def _ask_model_and_save_answer(self, work: WorkState) -> Message:
        """Ask the model and save its answer before acting on it, so that it is not asked again after a crash."""
        answer = self.model.generate_answer(work.transcript)
        work.usage.add_usage(answer.usage)
        work.budget.add_usage_cost(answer.usage)
        work.transcript.append(answer.message)
        for call in list_tool_calls_of_answer(answer.message):
            work.plan.mark_step(call["name"], StepStatus.IN_PROGRESS)
        if list_tool_calls_of_answer(answer.message):
            self._save_version(work, "post_llm", {"pending_llm_response": answer.message})
        else:
            self._save_version(work, "run_terminal")
        return answer.message

    def _run_unsettled_calls_and_save(
        self, work: WorkState, answer: Message, settled_results: dict[str, ToolResult]
    ) -> None:
        """Run the calls of `answer`, except for those that an earlier process or a person has settled."""
        for call in list_tool_calls_of_answer(answer):
            result = settled_results.get(call["id"]) or self.tools.dispatch(call["name"], call["args"], call["id"])
            work.transcript.append(build_message("tool", _build_tool_result_block(result)))
            work.plan.mark_step(call["name"], StepStatus.FAILED if result.is_error else StepStatus.DONE)
        if list_tool_calls_of_answer(answer):
            self._save_version(work, "post_tool_batch")

    def _save_version(self, work: WorkState, phase: str, payload: dict[str, Any] | None = None) -> None:
        self.checkpointer.save_checkpoint(
            self.session_id,
            work.transcript,
            asdict(work.plan),
            work.budget.spent,
            phase=phase,
            usage=asdict(work.usage),
            payload=payload,
        )


def _build_tool_result_block(result: ToolResult) -> dict[str, Any]:
    return {
        "kind": "tool_result",
        "call_id": result.call_id,
        "content": result.content,
        "is_error": result.is_error,
    }
