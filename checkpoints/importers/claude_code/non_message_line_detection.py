"""Lines with which Claude Code describes itself: they are stored, and are no messages of the conversation.

A message is what a person, the model, a tool, a hook or a server wrote, and every file that the model was given. What
the program says to itself, or says in every session, is none: its own state, the tools and skills that it offers, the
machine, the date, counters and reminders.
"""

from __future__ import annotations

from typing import Any, Final

Line = dict[str, Any]

#: Types of lines that are records.
RECORD_TYPES: Final = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-resumed",
        "api-request-shape",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
        "atis-latch",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "continued-in",
        "cost-state",
        "custom-title",
        "data-flow-incomplete",
        "data-flow-records",
        "derived-from",
        "dev-mods",
        "ended-by-model",
        "file-history-delta",
        "file-history-snapshot",
        "fork-context-ref",
        "frame-link",
        "history-suppression",
        "hybrid-organization",
        "isolation-latch",
        "last-prompt",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "memory-mode",
        "mode",
        "observer-ref",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "rate_limit_event",
        "relocated",
        "repl-mode",
        "result",
        "resume-head-vouch",
        "session-owner",
        "speculation-accept",
        "stream_event",
        "summary",
        "tag",
        "task-summary",
        "teleported-from",
        "tools-used",
        "worktree-state",
    }
)
#: Subtypes of lines of the type `system` that are records.
_SYSTEM_RECORD_SUBTYPES: Final = frozenset(
    {
        "background_tasks_changed",
        "bridge_state",
        "bridge_status",
        "commands_changed",
        "file_snapshot",
        "hook_progress",
        "hook_started",
        "init",
        "session_metadata",
        "session_state_changed",
        "session_title_changed",
        "shell_cwd",
        "status",
        "stop_hook_summary",
        "task_progress",
        "task_updated",
        "thinking_tokens",
        "turn_duration",
        "turn_starting",
    }
)
#: Types of attachments that are records.
_RECORD_ATTACHMENT_TYPES: Final = frozenset(
    {
        # the state of the program
        "advisor_stripped",
        "command_permissions",
        "credential_org",
        "deferred_tools_record",
        "prompt_render_point",
        "prompt_snapshot",
        "session_cron_carry",
        "thinking_drop",
        "thinking_stripped",
        "tool_offer_record",
        "tool_results_cut",
        "whole_texts_withdrawn",
        # what it offers, and where it runs
        "agent_listing_delta",
        "date",
        "date_change",
        "deferred_tools_delta",
        "environment",
        "language",
        "mcp_dropped_tools_delta",
        "model",
        "output_style",
        "remote_session_change",
        "session_context",
        "skill_listing",
        "tool_search_usage_reminder",
        # counters and reminders
        "attention_budget",
        "bash_output_audience_note",
        "batching_reminder",
        "batching_reminder_sent",
        "budget_usd",
        "context_efficiency",
        "elapsed_time_reminder",
        "first_week",
        "output_limit_note",
        "output_token_usage",
        "prefix_delta",
        "proactivity",
        "read_truncation_notice",
        "secondary_reminder",
        "secondary_reminder_sent",
        "silent_turn_reminder",
        "task_reminder",
        "thread_state",
        "todo_reminder",
        "token_usage",
        "total_tokens_reminder",
        "ultra_effort_enter",
        "ultra_effort_exit",
        "ultrathink_effort",
        "widget_context_hint",
        "workflow_keyword_request",
        "workflow_size_guideline_change",
    }
)
#: Types of lines that may be messages.
MESSAGE_TYPES: Final = frozenset({"attachment", "system", "user", "assistant"})


def is_record_line(line: Line) -> bool:
    """Return whether a line is a record of the program.

    A line of an unknown type is one if it has no place in the conversation: the program gives a `uuid` to all lines
    that have, and only the session to the others.
    """
    kind = line.get("type")
    if not isinstance(kind, str) or not kind:
        return False
    if kind == "system":
        return _is_one_of(line.get("subtype"), _SYSTEM_RECORD_SUBTYPES)
    if kind == "attachment":
        attachment = line.get("attachment")
        return isinstance(attachment, dict) and _is_one_of(attachment.get("type"), _RECORD_ATTACHMENT_TYPES)
    if kind in MESSAGE_TYPES:
        return False
    return kind in RECORD_TYPES or (
        isinstance(line.get("sessionId"), str) and not {"uuid", "message", "content"} & line.keys()
    )


def is_known_line_type(kind: str) -> bool:
    """Return whether this library knows lines of a type."""
    return kind in RECORD_TYPES or kind in MESSAGE_TYPES


def _is_one_of(value: object, names: frozenset[str]) -> bool:
    return isinstance(value, str) and value in names
