"""Trajectories of SWE-agent and mini-SWE-agent: one JSON object with the messages, the steps, and their outcome."""

from __future__ import annotations

import re
from typing import Any, Final

from checkpoints.importers.imported_message_and_usage import parse_usd_cost_or_none
from checkpoints.importers.provider_message_reader import convert_usage_counts
from checkpoints.importers.transcript_reader_interface_and_builder import (
    Body,
    ImportContext,
    TranscriptBuilder,
    TranscriptFormat,
    get_text_field_or_empty,
)

_SHOWN_FIELDS: Final = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "tool_call_ids", "thought", "action", "tool"}
)
#: A block in an answer of mini-SWE-agent; its languages of a command, of which the first one that occurs counts.
_MINI_BLOCK: Final = re.compile(
    r"^[ \t]*```(bash|sh|mswea_bash_command)[ \t]*\n(.*?)\n[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE
)
_MINI_LANGUAGES: Final = ("mswea_bash_command", "bash", "sh")
#: The counts of tokens that mini-SWE-agent keeps of each answer.
_MINI_USAGE: Final = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
_MINI_CACHED: Final = ("prompt_tokens_details", "cached_tokens")
#: Parts of the outcome that are stored with the session.
_OUTCOME_FIELDS: Final = ("exit_status", "model_stats", "swe_agent_version", "swe_agent_hash")
#: What the program writes before the issue in the first message, which repeats its own instructions in each session.
_ISSUE_BEGINNING: Final = re.compile(
    r"^(?:ISSUE:|<pr_description>\s*(?:Consider the following PR description:)?|(?:Please )?solve this issue:)"
    r"\s*([^\n]+)",
    re.MULTILINE | re.IGNORECASE,
)
#: Beginning of the answer to an edit that the editor did not apply.
_REJECTED_EDIT: Final = "Your proposed edit has introduced new syntax error"


class SweAgentReader:
    """Reader of trajectories. They have no times."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._builders: list[TranscriptBuilder] = []

    def add_value(self, number: int, value: Any) -> None:
        """Read a whole trajectory."""
        if not isinstance(value, dict):
            return
        parts = [] if not self._builders else [str(number)]
        builder = self._context.open_builder(self._context.choose_session_id("", *parts))
        self._builders.append(builder)
        steps = [step for step in _get_list_or_empty(value.get("trajectory")) if isinstance(step, dict)]
        history = [entry for entry in _get_list_or_empty(value.get("history")) if isinstance(entry, dict)]
        if _is_mini_trajectory(value):
            history = [
                _add_action_field_from_command_of_mini_message(entry)
                for entry in value["messages"]
                if isinstance(entry, dict)
            ]
            builder.set_context(model=_find_mini_model_name(value))
        actions: list[str] = []
        newest: object = ""
        for entry in history or _build_messages_from_trajectory_steps(steps):
            self._add_history_entry(builder, entry, actions)
            newest = entry.get("content")
        if history and steps:
            builder.add_note({"trajectory": [_omit_step_fields_repeated_in_history(step) for step in steps]})
        last = steps[-1].get("observation") if steps else None
        if actions and isinstance(last, str) and last:  # the history ends with the action
            builder.add_message({"role": "tool", "blocks": [_build_tool_result_block(actions.pop(), last)]})
            newest = last
        self._add_usage_patch_and_outcome(builder, value, actions, newest)

    def _add_history_entry(self, builder: TranscriptBuilder, entry: Body, actions: list[str]) -> None:
        """Add a message. An action without calls of its own is a call, and the next message its result."""
        role = str(entry.get("role", "system"))
        body: Body = {"role": role, "content": entry.get("content")}
        source = {name: field for name, field in entry.items() if name not in _SHOWN_FIELDS}
        is_demo = bool(entry.get("is_demo")) or entry.get("message_type") == "demonstration"
        if role == "assistant":
            body = self._build_message_and_set_open_action(entry, actions, builder.message_count)
        elif call_ids := [
            call_id
            for call_id in (*_get_list_or_empty(entry.get("tool_call_ids")), entry.get("tool_call_id"))
            if isinstance(call_id, str)
        ]:
            body = {
                "role": "tool",
                "blocks": [_build_tool_result_block(call_id, entry.get("content")) for call_id in call_ids],
            }
        elif actions and role in {"user", "tool"}:
            body = {"role": "tool", "blocks": [_build_tool_result_block(actions.pop(), entry.get("content"))]}
        elif is_demo:
            body["role"] = "system"
        if body["role"] == "user" and (
            issue := _ISSUE_BEGINNING.search(_get_text_or_first_block_or_empty(entry.get("content")))
        ):
            builder.note_title_candidate(issue[1])
        source = {**_get_dict_or_empty(body.get("source")), **source}
        response = _get_dict_or_empty(_get_dict_or_empty(entry.get("extra")).get("response"))
        usage = builder.add_usage("", convert_usage_counts(response.get("usage"), _MINI_USAGE, _MINI_CACHED))
        builder.add_message({**body, "source": source} if source else body, usage=usage or None)

    def _build_message_and_set_open_action(self, entry: Body, actions: list[str], number: int) -> Body:
        actions.clear()
        calls, action = _get_list_or_empty(entry.get("tool_calls")), entry.get("action")
        body: Body = {"role": "assistant", "content": entry.get("content")}
        source = {"thought": entry["thought"]} if isinstance(entry.get("thought"), str) else {}
        if calls:
            return {**body, "tool_calls": calls, "source": {**source, "action": action}}
        if not isinstance(action, str) or not action.strip():
            return body
        call_id = f"action-{number}"
        actions.append(call_id)
        thought = entry.get("thought") if isinstance(entry.get("thought"), str) else entry.get("content")
        tool = entry["tool"] if isinstance(entry.get("tool"), str) else action.split()[0][:200]
        call = {"kind": "tool_call", "id": call_id, "name": tool, "args": {"command": action}}
        text = [{"kind": "text", "text": thought}] if thought else []
        return {"role": "assistant", "blocks": [*text, call], "source": {"content": entry.get("content")}}

    def _add_usage_patch_and_outcome(
        self, builder: TranscriptBuilder, value: Body, actions: list[str], newest: object
    ) -> None:
        """Add the sums, and the submitted patch unless the newest message contains it."""
        info = _get_dict_or_empty(value.get("info"))
        stats = _get_dict_or_empty(info.get("model_stats"))
        tokens = {"input_tokens": stats.get("tokens_sent"), "output_tokens": stats.get("tokens_received")}
        cost = parse_usd_cost_or_none(stats.get("instance_cost", stats.get("total_cost")))
        builder.add_usage("", tokens, cost or None)
        if _contains_text_ignoring_line_ends(newest, info.get("submission")):
            builder.add_note({"info": info})
        elif isinstance(info.get("submission"), str) and info["submission"].strip():
            introduction, patch = "The patch that was submitted:\n\n", info["submission"]
            if actions:  # the last action submitted it
                body: Body = {"role": "tool", "blocks": [_build_tool_result_block(actions.pop(), introduction + patch)]}
            else:
                body = {"role": "system", "content": f"{introduction}~~~~~~diff\n{patch.rstrip()}\n~~~~~~"}
            builder.add_message({**body, "source": info})
        outcome = {name: info[name] for name in _OUTCOME_FIELDS if name in info}
        builder.facts |= {"outcome": outcome, "environment": value.get("environment", "")}

    def flush(self) -> None:
        """Write everything read so far."""
        for builder in self._builders:
            builder.flush()


def _get_dict_or_empty(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


def _get_list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _get_text_or_first_block_or_empty(content: object) -> str:
    """Return the text of a message's content, which newer versions write as a list of blocks."""
    if isinstance(content, list) and content:
        content = get_text_field_or_empty(content[0], "text")
    return content if isinstance(content, str) else ""


def _contains_text_ignoring_line_ends(whole: object, part: object) -> bool:
    """Return whether a text contains another one, apart from the ends of lines and of the texts."""
    if not isinstance(whole, str) or not isinstance(part, str) or not part.strip():
        return False
    return part.replace("\r", "").strip() in whole.replace("\r", "")


def _build_tool_result_block(call_id: str, content: Any) -> Body:
    block: Body = {"kind": "tool_result", "call_id": call_id, "content": content}
    is_rejected = isinstance(content, str) and content.startswith(_REJECTED_EDIT)
    return {**block, "is_error": True} if is_rejected else block


def _build_messages_from_trajectory_steps(steps: list[Body]) -> list[Body]:
    """Build the messages from the steps of a trajectory without a history."""
    history: list[Body] = []
    for step in steps:
        content = step.get("response", step.get("thought"))
        history.append(
            {
                "role": "assistant",
                **_omit_step_fields_repeated_in_history(step),
                "content": content,
                "thought": step.get("thought"),
                "action": step.get("action"),
            }
        )
        history.append({"role": "user", "content": step.get("observation")})
    return history


def _is_mini_trajectory(value: Body) -> bool:
    kind = value.get("trajectory_format")
    return isinstance(kind, str) and kind.startswith("mini-swe-agent") and isinstance(value.get("messages"), list)


def _add_action_field_from_command_of_mini_message(entry: Body) -> Body:
    """Name the command in an answer of mini-SWE-agent as its action, unless it is a call of its own.

    The program refuses an answer with several commands, so such an answer has no action.
    """
    content = entry.get("content")
    if entry.get("role") != "assistant" or entry.get("tool_calls") or not isinstance(content, str):
        return entry
    blocks = list(_MINI_BLOCK.finditer(content))
    commands = next(filter(None, ([each for each in blocks if each[1] == name] for name in _MINI_LANGUAGES)), [])
    if len(commands) != 1:
        return entry
    (command,) = commands
    thought = f"{content[: command.start()].rstrip()}\n{content[command.end() :].lstrip()}".strip()
    return {**entry, "action": command[2], "thought": thought, "tool": "bash"}


def _find_mini_model_name(value: Body) -> object:
    config = _get_dict_or_empty(_get_dict_or_empty(value.get("info")).get("config"))
    return _get_dict_or_empty(config.get("model")).get("model_name")


def _omit_step_fields_repeated_in_history(step: Body) -> Body:
    """Leave out what the history has too."""
    repeated = {"response", "thought", "action", "observation", "query", "messages"}
    return {name: field for name, field in step.items() if name not in repeated}


def _score_format_match(value: Any) -> int:
    if not isinstance(value, dict):
        return 0
    return 3 * (_is_mini_trajectory(value) or (isinstance(value.get("trajectory"), list) and "info" in value))


SWE_AGENT: Final = TranscriptFormat("swe-agent", "swe-agent", _score_format_match, SweAgentReader)
