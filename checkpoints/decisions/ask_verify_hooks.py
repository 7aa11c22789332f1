"""Verify hooks of this process: find the one of a tool, and ask it whether an interrupted call landed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from checkpoints.calls import registry_of_running_tools
from checkpoints.calls.registry_of_running_tools import CallPlace
from checkpoints.calls.tool_result_and_verify_answer_types import (
    Answer,
    NotLanded,
    Unknown,
    interpret_verify_hook_answer,
)
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import parse_json
from checkpoints.store.checkpointer_state import CheckpointerState
from checkpoints.sync_and_async_flow_runners import Flow, Invoke

#: Timeout of a hook, in seconds.
VERIFY_TIMEOUT = 30.0


@dataclass(frozen=True)
class VerifyProbe:
    """Question to a hook: did this call, at this revision, land?"""

    call_pk: int
    target: DecisionTarget
    tool: str
    args: str
    args_digest: str
    run_id: str
    hook: Any

    @property
    def is_tool_running(self) -> bool:
        """Whether the tool of the call still runs in this process, waited for or not."""
        target = self.target
        return registry_of_running_tools.is_tool_running(
            CallPlace(self.run_id, target.session_id, self.tool, target.call_id, target.step, target.attempt)
        )


def find_verify_hook(state: CheckpointerState, session_id: str, tool: str) -> Any | None:
    """Find the verify hook of a tool of this session; None if no registry here has one.

    A registry that is bound to the session decides, the newest of several. Without one, those that are bound to no
    session do, as long as they agree. A registry of another session is never asked: tools of two agents may have the
    same name, and the hook of the wrong one would check the wrong system.
    """
    registries = [registry for registry in state.list_verify_hook_providers() if registry.knows_tool(tool)]
    for registry in registries:
        if registry.session_id == session_id:
            return registry.get_verify_hook(tool)
    hooks: list[Any] = []
    for registry in registries:
        hook = registry.get_verify_hook(tool) if registry.session_id is None else None
        if hook is not None and hook not in hooks:
            hooks.append(hook)
    return hooks[0] if len(hooks) == 1 else _build_hook_that_reports_conflict(tool) if hooks else None


def _build_hook_that_reports_conflict(tool: str) -> Callable[[object], Unknown]:
    reason = f"several registries have different verify hooks for {tool!r}, and none of them is bound to this session"
    return lambda args: Unknown(reason)


def ask_verify_hook_flow(probe: VerifyProbe) -> Flow[Answer]:
    """Ask the hook, and record nothing."""
    if digests.digest_text(probe.args) != probe.args_digest:  # the hook would be asked about another call
        return Unknown("the stored arguments of the call are damaged, so the verify hook was not asked")
    was_running = probe.is_tool_running
    began = time.monotonic()
    try:
        value: object = yield Invoke(probe.hook, positional=(parse_json(probe.args),), timeout=VERIFY_TIMEOUT)
    except Exception as error:  # an error of a hook is no answer
        # The hook itself may raise the same error much earlier, from a request that it made.
        if isinstance(error, TimeoutError) and time.monotonic() - began >= 0.9 * VERIFY_TIMEOUT:
            return Unknown(f"the verify hook gave no answer within {VERIFY_TIMEOUT:g} seconds")
        return Unknown(f"the verify hook raised {_describe_error(error)}")
    answer = interpret_verify_hook_answer(value)
    if was_running and isinstance(answer, NotLanded):
        return Unknown(
            "the verify hook found no effect, but the tool still runs in a thread of this process and may have one yet"
        )
    return answer


def _describe_error(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # `str` runs the user's code
        return type(error).__name__
