"""Rollouts of Codex: one line for each item of the model's conversation, and events beside them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from checkpoints.importers.codex_rollout_fields import (
    CopiedHistory,
    RunningTokenTotals,
    extract_prompt_after_editor_context_or_empty,
    find_started_session_and_call_ids_or_empty,
    get_subagent_role_or_empty_if_main_agent,
    is_text_inserted_by_program,
    read_command_duration_of_output_or_none,
)
from checkpoints.importers.imported_message_and_usage import TRANSCRIPT_START, parse_iso_or_unix_time_or_none
from checkpoints.importers.imported_session_and_run import make_valid_session_id
from checkpoints.importers.openai_responses import read_single_item_as_exchange_or_none, score_item_match
from checkpoints.importers.transcript_reader_interface_and_builder import (
    Body,
    ImportContext,
    TranscriptBuilder,
    TranscriptFormat,
    get_text_field_or_empty,
)

_LINE_TYPES: Final = frozenset(
    {
        "compacted",
        "event_msg",
        "ghost_snapshot",
        "inter_agent_communication",
        "inter_agent_communication_metadata",
        "response_item",
        "session_meta",
        "token_usage_record",
        "turn_context",
        "world_state",
    }
)
#: Events whose text the items have too; of a file without items, they are the messages.
_TEXT_EVENTS: Final = {
    "user_message": ("user", "message"),
    "agent_message": ("assistant", "message"),
    "agent_reasoning": ("assistant", "text"),
}


class CodexReader:
    """Reader of one rollout."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._builder: TranscriptBuilder | None = None
        self._totals = RunningTokenTotals()
        self._id: object = None
        self._copied = CopiedHistory({}, {})
        self._events: list[tuple[str, str, Any]] = []
        #: Times and tools of the calls without a result, by call id.
        self._issued: dict[str, datetime] = {}
        self._tools: dict[str, str] = {}
        #: Key of the last message, of those before each turn, and of the one that the next message follows if that is
        #: not the last one.
        self._last = TRANSCRIPT_START
        self._before_turns: list[str] = []
        self._after: str | None = None

    def add_value(self, number: int, value: Any) -> None:
        """Read a line: an item becomes a message, everything else a fact or a note."""
        line = value if isinstance(value, dict) else {}
        payload = line.get("payload")
        kind = get_text_field_or_empty(line, "type")
        if not isinstance(payload, dict):  # the lines of early versions are the items themselves
            kind, payload = ("session_meta" if _is_header_of_old_format(line) else "response_item"), line
        is_header = kind == "session_meta" and self._builder is None
        builder = self._get_or_open_builder(line, payload if is_header else {})
        match kind:
            case "session_meta" if is_header or payload.get("id") == self._id:  # others are copied from the parent
                self._set_session_context(builder, payload)
            case "turn_context":
                self._set_turn_context(builder, payload)
            case "response_item":
                self._add_item(builder, payload, line)
                return
            case "compacted":
                self._add_compaction(builder, payload, line)
                return
            case "event_msg":
                self._apply_event(builder, payload, line)
            case _ if kind not in _LINE_TYPES:
                builder.report.unknown[f"line {kind}"] += 1
        builder.add_note(line)

    def _get_or_open_builder(self, line: Body, header: Body) -> TranscriptBuilder:
        if self._builder is None:
            role = get_subagent_role_or_empty_if_main_agent(header)
            agent, labels = (f"codex/{role}", ("codex", "subagent")) if role else ("", ())
            session_id = self._context.choose_session_id(header.get("id"))
            self._builder = self._context.open_builder(
                session_id, agent=agent, labels=labels, has_positional_keys=False, requires_same_first_message=True
            )
            self._id, self._copied = header.get("id"), CopiedHistory(line, header)
            if self._copied.parent_id and role:
                self._builder.origin.parent_session_id = make_valid_session_id(self._copied.parent_id)
            elif self._copied.parent_id:
                self._builder.facts["forked_from"] = self._copied.parent_id
        return self._builder

    def _set_session_context(self, builder: TranscriptBuilder, meta: Body) -> None:
        git = meta.get("git")
        builder.set_context(
            cwd=meta.get("cwd"),
            program_version=meta.get("cli_version"),
            git_branch=git.get("branch") if isinstance(git, dict) else None,
        )

    def _set_turn_context(self, builder: TranscriptBuilder, turn: Body) -> None:
        sandbox = turn.get("sandbox_policy")
        mode = sandbox.get("mode", sandbox.get("type")) if isinstance(sandbox, dict) else sandbox
        names = [name for name in (turn.get("approval_policy"), mode) if isinstance(name, str)]
        builder.set_context(model=turn.get("model"), cwd=turn.get("cwd"), permission_mode=", ".join(names))

    def _add_item(self, builder: TranscriptBuilder, item: Body, line: Body) -> None:
        exchange = read_single_item_as_exchange_or_none(item)
        if exchange is None:
            builder.report.unknown[f"item {item.get('type', item.get('record_type', 'without a type'))}"] += 1
            builder.add_note(item)
            return
        if exchange.unknown:
            builder.report.unknown.update(exchange.unknown)
        for body in exchange.messages:
            self._add_message(builder, item, body, line.get("timestamp"))
        self._note_call_that_started_subagent(builder, item, line)
        builder.interrupted = False

    def _add_message(self, builder: TranscriptBuilder, item: Body, body: Body, timestamp: object) -> None:
        """Add a message. Prompts of persons, and tasks from another agent, begin a turn."""
        is_task = get_text_field_or_empty(item, "type") == "agent_message"
        is_prompt = is_task or (body.get("role") == "user" and not is_text_inserted_by_program(_get_first_text(body)))
        role = {} if is_prompt or body.get("role") != "user" else {"role": "system"}
        if is_prompt:
            builder.note_title_candidate(extract_prompt_after_editor_context_or_empty(_get_first_text(body)))
            self._before_turns.append(self._last if self._after is None else self._after)
        at = parse_iso_or_unix_time_or_none(timestamp)
        self._last = builder.add_message(
            {**body, **role},
            at=at,
            after=self._after,
            begins_turn=is_prompt,
            times=self._note_call_or_find_result_times(item, at),
        )
        self._after = None

    def _note_call_or_find_result_times(self, item: Body, at: datetime | None) -> dict[str, datetime]:
        """Note when a call was made, or return when it ended if its result states how long it took.

        Call and result are often written at one time, after both. Codex rounds the duration to tenths of a second, so
        of one that is zero only the order is known: such a call has one time for its start and its end.
        """
        call_id = get_text_field_or_empty(item, "call_id")
        if at is None or not call_id:
            return {}
        if not get_text_field_or_empty(item, "type").endswith("_output"):
            self._issued[call_id], self._tools[call_id] = at, get_text_field_or_empty(item, "name")
            return {}
        issued_at, seconds = self._issued.pop(call_id, at), read_command_duration_of_output_or_none(item.get("output"))
        return {} if seconds is None else {call_id: issued_at + timedelta(seconds=seconds)}

    def _add_compaction(self, builder: TranscriptBuilder, payload: Body, line: Body) -> None:
        text = payload.get("message")
        replacement_history = payload.get("replacement_history")
        blocks = [builder.build_compaction_block(), {"kind": "text", "text": text if isinstance(text, str) else ""}]
        body = {"role": "system", "blocks": blocks, "source": payload}
        at = parse_iso_or_unix_time_or_none(line.get("timestamp"))
        self._last = builder.add_message(body, at=at, after=TRANSCRIPT_START, begins_turn=False)
        self._before_turns, self._after = [], None
        for item in replacement_history if isinstance(replacement_history, list) else ():
            if isinstance(item, dict):
                self._add_item(builder, item, line)

    def _apply_event(self, builder: TranscriptBuilder, event: Body, line: Body) -> None:
        kind = get_text_field_or_empty(event, "type")
        if kind == "token_count" and isinstance(event.get("info"), dict):
            growth = self._totals.update_and_return_growth(event["info"])
            if not self._copied.includes_line(line):
                builder.add_usage("", growth)
        elif kind == "turn_aborted":
            builder.interrupted = True
        elif kind == "thread_rolled_back":
            self._continue_before_rolled_back_turns(event.get("num_turns"))
        elif kind == "thread_name_updated":
            builder.note_title_candidate(event.get("thread_name"), "given")
        elif kind in _TEXT_EVENTS and builder.message_count == 0:
            role, name = _TEXT_EVENTS[kind]
            self._events.append((role, get_text_field_or_empty(event, name), line.get("timestamp")))
        else:
            self._note_call_that_started_subagent(builder, event, line)

    def _continue_before_rolled_back_turns(self, number: object) -> None:
        """Let the next message follow what was before the last turns; they remain in earlier versions."""
        if isinstance(number, int) and number > 0 and self._before_turns:
            position = max(len(self._before_turns) - number, 0)
            self._after = self._before_turns[position]
            del self._before_turns[position:]

    def _note_call_that_started_subagent(self, builder: TranscriptBuilder, event: Body, line: Body) -> None:
        """Note which call started which subagent; what a fork has copied, its parent has started."""
        session, call_id = find_started_session_and_call_ids_or_empty(event, self._tools)
        if session and call_id and not self._copied.includes_line(line):
            builder.facts.setdefault("subagents", {}).setdefault(make_valid_session_id(session), call_id)

    def flush(self) -> None:
        """Write everything read so far."""
        builder = self._builder
        if builder is None:
            return
        if builder.message_count == 0:
            for role, text, timestamp in self._events:
                builder.note_title_candidate(
                    extract_prompt_after_editor_context_or_empty(text) if role == "user" else ""
                )
                builder.add_message({"role": role, "content": text}, at=parse_iso_or_unix_time_or_none(timestamp))
        self._events = []
        builder.flush()


def _get_first_text(body: Body) -> str:
    content = body.get("content")
    return (
        get_text_field_or_empty(content[0], "text")
        if isinstance(content, list) and content
        else content
        if isinstance(content, str)
        else ""
    )


def _is_header_of_old_format(line: Body) -> bool:
    return "instructions" in line and "timestamp" in line and "type" not in line


def _score_format_match(value: Any) -> int:
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("payload"), dict) and isinstance(value.get("type"), str):
        return 3 * (value["type"] in _LINE_TYPES)
    if _is_header_of_old_format(value):
        return 500
    return 1 if "record_type" in value or ("type" in value and score_item_match(value)) else 0


CODEX: Final = TranscriptFormat("codex", "codex", _score_format_match, CodexReader)
