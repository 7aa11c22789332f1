"""Agent loop that saves a version at every phase, in this process or in children that die."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from checkpoints import ResumePoint, SyncCheckpointer, ToolRegistry
from checkpoints.loop_state import (
    PostLlm,
    PostToolBatch,
    PreLlm,
    PreToolBatch,
    RunStarted,
    RunTerminal,
    RuntimeSnapshot,
    StepStarted,
)
from tests.support.processes import append_line, die

Answer = dict[str, Any]
#: What the model says, turn by turn.
TURNS: list[Answer] = [
    {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "pay", "args": {"order": 1}}]},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "call_2", "name": "pay", "args": {"order": 2}},
            {"id": "call_3", "name": "pay", "args": {"order": 3}},
        ],
    },
    {"role": "assistant", "content": "all paid"},
]
QUESTION = {"role": "user", "content": "Pay everything"}
COST = 0.25
#: Every place in the loop where it may die, in order.
POINTS = [
    "run_started",
    *[
        f"{point} {step}"
        for step in (1, 2)
        for point in ("step_started", "pre_llm", "asked", "post_llm", "pre_tool_batch", "tools", "post_tool_batch")
    ],
    "step_started 3",
    "pre_llm 3",
    "asked 3",
    "post_llm 3",
    "run_terminal",
]


class AgentLoop:
    """Loop that asks the model, runs tools, and saves at each phase. It calls `at` with the name of each point."""

    def __init__(self, cp: SyncCheckpointer, effects: str, at: Callable[[str], None] = lambda point: None) -> None:
        self.cp = cp
        self.effects = effects
        self.at = at
        self.registry = ToolRegistry(checkpointer=cp, session_id="s")
        self.registry.tool(name="pay")(self._pay)
        self.transcript: list[dict[str, Any]] = [QUESTION]
        self.snapshot = RuntimeSnapshot()

    def _pay(self, order: int) -> str:
        append_line(self.effects, f"pay {order}")
        return f"paid {order}"

    def start(self) -> Any:
        self.cp.start_session("s", "Pay everything")
        self.cp.save_phase("s", RunStarted(agent_name="payer"), transcript=self.transcript)
        self.at("run_started")
        return self._run(None)

    def resume(self) -> Any:
        return self.go_on(self.cp.resume("s", self.registry))

    def go_on(self, point: ResumePoint) -> Any:
        if point.finished:
            return point.result
        self.transcript = point.transcript
        self.snapshot = point.snapshot or RuntimeSnapshot()
        return self._run(point.pending_response)

    def _run(self, answer: Answer | None) -> Any:
        while True:
            if answer is None:
                answer = self._ask()
            self.transcript.append(answer)
            if "tool_calls" not in answer:
                return self._end(answer["content"])
            self._tools(answer)
            answer = None

    def _ask(self) -> Answer:
        step = self.snapshot.llm_calls + 1
        self.snapshot = replace(self.snapshot, step=step, pending_llm_response=None)
        self.cp.save_phase("s", StepStarted(), snapshot=self.snapshot, transcript=self.transcript)
        self.at(f"step_started {step}")
        self.cp.save_phase("s", PreLlm(model="m"))
        self.at(f"pre_llm {step}")
        append_line(self.effects, f"ask {step}")
        answer = TURNS[step - 1]
        self.at(f"asked {step}")
        self.snapshot = replace(
            self.snapshot,
            llm_calls=self.snapshot.llm_calls + 1,
            total_cost_usd=COST * (self.snapshot.llm_calls + 1),
            usage={"total_tokens": 100 * (self.snapshot.llm_calls + 1)},
            pending_llm_response=answer,
        )
        self.cp.save_phase("s", PostLlm(model="m"), snapshot=self.snapshot)
        self.at(f"post_llm {step}")
        return answer

    def _tools(self, answer: Answer) -> None:
        step = self.snapshot.step
        self.cp.save_phase("s", PreToolBatch(tool_call_count=len(answer["tool_calls"])))
        self.at(f"pre_tool_batch {step}")
        for call in answer["tool_calls"]:
            result = self.registry.dispatch(call["name"], call["args"], call["id"])
            self.transcript.append({"role": "tool", "tool_call_id": call["id"], "content": result.content})
            self.at(f"tools {step}")
        self.snapshot = replace(self.snapshot, tool_calls=self.snapshot.tool_calls + len(answer["tool_calls"]))
        self.snapshot = replace(self.snapshot, pending_llm_response=None)
        self.cp.save_phase("s", PostToolBatch(), snapshot=self.snapshot, transcript=self.transcript)
        self.at(f"post_tool_batch {step}")

    def _end(self, text: str) -> Any:
        result = {"text": text, "asked": self.snapshot.llm_calls, "paid": self.snapshot.tool_calls}
        end = RunTerminal(state="completed", terminal_result=result, final_text=text)
        self.cp.save_phase("s", end, transcript=self.transcript)
        self.at("run_terminal")
        self.cp.finish_session("s", "completed", result)
        return result


# in child processes


def die_at(url: str, effects: str, point: str, resume: bool = False) -> Any:
    """Start or resume the loop, and die at a point of it."""

    def at(passed: str) -> None:
        if passed == point:
            die()

    loop = AgentLoop(SyncCheckpointer.open(url), effects, at)
    return loop.resume() if resume else loop.start()


def resume_run(url: str, run_id: str) -> list[Any]:
    """Resume a run by its id in a process that has only the database."""
    with SyncCheckpointer.open(url) as cp:
        point = cp.resume_run(run_id)
        assert point.run is not None
        assert point.snapshot is not None
        return [str(point.run.resumed_from_id), point.version, point.snapshot.llm_calls, point.budget_spent_usd]
