"""Interrupts of a graph as calls in the review queue, and the decisions about them as answers for the graph.

The requests of `HumanInTheLoopMiddleware`, batched and per call, and older `HumanInterrupt`s are calls of their tools.
Any other `interrupt(value)` is a call of the tool `interrupt` with the value as its argument. The gates of this library
are calls already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.types import Interrupt

from checkpoints.adapters.langgraph.langchain_messages_to_transcript import convert_to_json_value
from checkpoints.enums import APPROVAL_KINDS, DecisionKind, KeyPolicy
from checkpoints.exceptions import InvalidInput
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from checkpoints.store.call_intent_and_outcome_types import CallIntent
from checkpoints.tools.foreign_tool_guard import ToolPolicies
from checkpoints.tools.run_call_and_record_outcome import build_call_intent_of_tool

#: Types of the interrupts by which a guarded call waits for a person.
GATE_TYPES = frozenset({"review_required", "approval_required"})
_PLAIN_POLICIES = ToolPolicies({INTERRUPT_TOOL: {"side_effects": {"read"}, "requires_approval": True}})
#: Decision of `HumanInTheLoopMiddleware` for each decision of a person; an approval of changed arguments is an edit.
_DECISIONS = {DecisionKind.APPROVE: "approve", DecisionKind.REJECT: "reject", DecisionKind.RESPOND: "respond"}
#: Decision that each field of `HumanInterruptConfig` allows, and the type of the `HumanResponse` that stands for it.
_OLDER_FIELDS = {"allow_accept": "approve", "allow_edit": "edit", "allow_ignore": "reject", "allow_respond": "respond"}
#: Fields that may hold the question of a plain interrupt, the likeliest first; maximum length of a sentence from one.
_QUESTION_FIELDS = ("question", "query", "prompt", "message", "instruction", "text", "description", "title")
_LONGEST_QUESTION = 500
_OLDER_TYPES = {"approve": "accept", "edit": "edit", "reject": "ignore", "respond": "response"}


#: Name and arguments of a call that a request is about, and its description.
_Action = tuple[str, dict[str, Any], object]


@dataclass(frozen=True)
class Request:
    """Call that an interrupt asks about. `call_id` is None where the interrupt does not name it."""

    key: str
    call_id: str | None
    tool: str
    args: dict[str, Any]
    description: str = ""
    allowed: Sequence[str] | None = None


def list_interrupts_not_by_guard(value: object) -> list[Interrupt]:
    """List the interrupts in a value that a task wrote to the channel of interrupts, without this library's gates."""
    interrupts = [item for item in value if isinstance(item, Interrupt)] if isinstance(value, list | tuple) else []
    return [each for each in interrupts if not is_guard_interrupt(each)]


def is_guard_interrupt(interrupt: Interrupt) -> bool:
    """Return whether a guarded call waits by this interrupt."""
    value = interrupt.value
    return isinstance(value, dict) and value.get("type") in GATE_TYPES and "session_id" in value


def is_interrupt_for_batch_of_calls(interrupt: Interrupt) -> bool:
    """Return whether this is a request for several calls, answered by position."""
    value = interrupt.value
    return isinstance(value, dict) and isinstance(value.get("action_requests"), list)


def identifies_calls_by_name_and_arguments(interrupt: Interrupt) -> bool:
    """Return whether this is a request whose calls are found by name and arguments in the messages of the agent."""
    return is_interrupt_for_batch_of_calls(interrupt) or _list_human_interrupts_or_none(interrupt) is not None


def _list_human_interrupts_or_none(interrupt: Interrupt) -> list[dict[str, Any]] | None:
    """List the `HumanInterrupt`s in a value, which is one or a list of them; None if it is something else."""
    value = interrupt.value
    items = value if isinstance(value, list | tuple) else [value]
    return list(items) if items and all(map(_matches_human_interrupt_schema, items)) else None


def _matches_human_interrupt_schema(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    action, options = item.get("action_request"), item.get("config")
    return (
        isinstance(action, dict)
        and isinstance(action.get("action"), str)
        and isinstance(action.get("args"), dict)
        and isinstance(options, dict)
        and any(options.get(name) for name in _OLDER_FIELDS)
    )


def get_idempotency_key_prefix(interrupt: Interrupt) -> str:
    """Return the beginning of the keys of the calls that an interrupt asks about."""
    return f"{INTERRUPT_KEY_PREFIX}{interrupt.id}:"


def list_call_requests(interrupt: Interrupt, messages: object = ()) -> list[Request]:
    """List the calls that an interrupt asks about.

    Args:
        interrupt: The interrupt.
        messages: Messages of the agent. Batched and older requests name their calls by name and arguments alone; their
            ids are those of the last message that calls tools.
    """
    prefix, value = get_idempotency_key_prefix(interrupt), interrupt.value
    if is_interrupt_for_batch_of_calls(interrupt):
        actions = [
            (str(action.get("name")), action.get("args") or {}, action.get("description"))
            for action in value["action_requests"]
        ]
        return _build_requests(prefix, actions, _list_allowed_decisions(value, actions), messages)
    older = _list_human_interrupts_or_none(interrupt)
    if older is not None:
        actions = [
            (item["action_request"]["action"], item["action_request"]["args"], item.get("description"))
            for item in older
        ]
        allowed = [[kind for name, kind in _OLDER_FIELDS.items() if item["config"].get(name)] for item in older]
        return _build_requests(prefix, actions, allowed, messages)
    if isinstance(value, dict) and value.get("type") == "tool_approval" and isinstance(value.get("args"), dict):
        return [
            Request(
                f"{prefix}0",
                str(value.get("tool_call_id")),
                str(value.get("name")),
                convert_to_json_value(value["args"]),
                str(value.get("description") or ""),
                _read_decision_types_of_schema_or_none(interrupt.response_schema),
            )
        ]
    return [
        Request(
            f"{prefix}0",
            interrupt.id,
            INTERRUPT_TOOL,
            {"value": convert_to_json_value(value)},
            _find_question_text_or_empty(value),
        )
    ]


def _find_question_text_or_empty(value: object) -> str:
    """Return the text in which a plain interrupt asks: its value, or a field of it; empty if it has none."""
    texts = [value.get(name) for name in _QUESTION_FIELDS] if isinstance(value, dict) else [value]
    question = next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")
    return question if len(question) <= _LONGEST_QUESTION else f"{question[:_LONGEST_QUESTION]}…"


def _read_decision_types_of_schema_or_none(schema: object) -> list[str] | None:
    """Read the types of decisions that the JSON Schema of an answer has; None if it does not name them."""
    if not isinstance(schema, dict):
        return None
    mapping = (schema.get("discriminator") or {}).get("mapping")
    if isinstance(mapping, dict):
        return list(mapping)
    only = ((schema.get("properties") or {}).get("type") or {}).get("const")
    return [only] if isinstance(only, str) else None


def _list_allowed_decisions(value: Mapping[str, Any], actions: Sequence[_Action]) -> list[Sequence[str] | None]:
    """List the decisions that the configuration of a batched request allows about each call; None if it names none."""
    allowed = {
        str(config.get("action_name")): config.get("allowed_decisions")
        for config in value.get("review_configs") or []
        if isinstance(config, dict)
    }
    return [allowed.get(name) for name, _, _ in actions]


def _build_requests(
    prefix: str, actions: Sequence[_Action], allowed: Sequence[Sequence[str] | None], messages: object
) -> list[Request]:
    """Build the requests of actions, with the ids of the calls of the last message that calls tools."""
    answers = [item for item in reversed(messages) if isinstance(item, AIMessage)] if isinstance(messages, list) else []
    calls = list(answers[0].tool_calls) if answers else []
    requests: list[Request] = []
    for (name, args, description), decisions in zip(actions, allowed, strict=True):
        call = next((call for call in calls if (call["name"], call["args"]) == (name, args)), None)
        if call is not None:
            calls.remove(call)
        call_id, text = None if call is None else call["id"], str(description or "")
        requests.append(
            Request(f"{prefix}{len(requests)}", call_id, name, convert_to_json_value(args), text, decisions)
        )
    return requests


def build_approval_intent(request: Request, policies: ToolPolicies, version: int | None) -> CallIntent:
    """Build the intent of a call that a person has to approve. `version` is the one with the messages of the graph.

    Raises what `ToolPolicies.build_tool` raises; `InvalidInput` if the interrupt allows none of the known decisions.
    """
    is_plain = (
        request.tool == INTERRUPT_TOOL and request.call_id is not None and not policies.knows_tool(INTERRUPT_TOOL)
    )
    kinds = tuple(kind.value for kind in APPROVAL_KINDS if kind in (request.allowed or ()))
    if request.allowed is not None and not kinds:
        raise InvalidInput(
            f"The interrupt about {request.tool!r} allows only the decisions {list(request.allowed)}. "
            f"None of them is one of {[kind.value for kind in APPROVAL_KINDS]}."
        )
    wanted = _PLAIN_POLICIES if is_plain else policies.require_approval(request.tool)
    tool = wanted.build_tool(request.tool, print)
    stored = to_canonical_json(request.args, "args")
    call_id = request.call_id or request.key.removeprefix(INTERRUPT_KEY_PREFIX)
    intent = build_call_intent_of_tool(tool, request.args, stored, KeyPolicy.UNANSWERED, request.key, call_id, version)
    sentence = intent.sentence or _get_description_or_empty_if_default(request)
    return CallIntent(
        **{
            **{name: getattr(intent, name) for name in CallIntent.__dataclass_fields__},
            "sentence": sentence,
            "allowed_decisions": kinds,
            "policy": None if request.tool == INTERRUPT_TOOL else KeyPolicy.UNANSWERED,
        }
    )


def _get_description_or_empty_if_default(request: Request) -> str:
    """Return the description that the agent's author wrote; the default one repeats the name and the arguments."""
    return "" if f"\n\nTool: {request.tool}\nArgs: " in request.description else request.description


def build_resume_value_of_interrupt(interrupt: Interrupt, calls: Mapping[str, tuple[ToolCall, DecisionKind]]) -> Any:
    """Build the value that resumes an interrupt.

    Args:
        interrupt: The interrupt.
        calls: Its calls and what people have decided about them, by key.

    Raises:
        InvalidInput: The graph does not accept a decision.
    """
    requests = list_call_requests(interrupt)
    if requests[0].tool == INTERRUPT_TOOL and requests[0].call_id == interrupt.id:
        return _build_answer_to_plain_interrupt(*calls[requests[0].key])
    decisions = [_build_decision_for_graph(request, *calls[request.key]) for request in requests]
    if _list_human_interrupts_or_none(interrupt) is not None:
        return [_build_human_response(decision) for decision in decisions]
    return {"decisions": decisions} if is_interrupt_for_batch_of_calls(interrupt) else decisions[0]


def _build_human_response(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Build the `HumanResponse` that stands for a decision. One that ignores a request has no message."""
    edited = decision.get("edited_action")
    args = {"action": edited["name"], "args": edited["args"]} if edited else None
    if decision["type"] == "respond":
        args = decision["message"]
    return {"type": _OLDER_TYPES[decision["type"]], "args": args}


def _build_answer_to_plain_interrupt(call: ToolCall, kind: DecisionKind) -> Any:
    if kind == DecisionKind.RESPOND:
        return call.result_text
    if kind == DecisionKind.REJECT:
        return False
    return parse_json(call.args).get("value") if call.has_changed_args else True


def _build_decision_for_graph(request: Request, call: ToolCall, kind: DecisionKind) -> dict[str, Any]:
    is_edited = kind == DecisionKind.APPROVE and call.has_changed_args
    type_ = "edit" if is_edited else _DECISIONS[kind]
    if request.allowed is not None and type_ not in request.allowed:
        raise InvalidInput(
            f"The graph accepts {', '.join(request.allowed)} for {request.tool}, and the decision is {type_}. "
            "Withdraw the decision on its decision page, and decide again."
        )
    if is_edited:
        return {"type": type_, "edited_action": {"name": call.tool, "args": parse_json(call.args)}}
    return {"type": type_} if kind == DecisionKind.APPROVE else {"type": type_, "message": call.result_text or ""}
