"""Runtime snapshot with every field set."""

from decimal import Decimal

from checkpoints.loop_state import RuntimeSnapshot, SubagentExecution, ToolExecution

ANSWER = {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "pay", "args": {"order": 1}}]}
FULL = RuntimeSnapshot(
    step=3,
    state="degraded",
    context={"customer": "bob", "tags": ["a", {"b": 1}]},
    llm_calls=4,
    tool_calls=5,
    started_at_s=1767323045.5,
    active_s=12.25,
    usage={"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    total_cost_usd=Decimal("0.30"),
    session_token="st",
    checkpoint_token="ct",
    pending_llm_response=ANSWER,
    tool_executions=(ToolExecution(call_id="call_0", tool="look", success=True, input_hash="a", output_hash="b"),),
    subagent_executions=(SubagentExecution(call_id="call_s", agent="helper", success=False, session_id="t"),),
    requested_model="best",
    normalized_model="best-2026",
    provider_adapter="plain",
    final_text="so far",
    final_structured={"paid": True},
)
