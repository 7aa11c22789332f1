"""Narration of a session's events, in plain lines from its audit trail and decisions."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, RunStatus
from checkpoints.models import AuditEvent, Decision, Session, ToolCall
from examples.demo.demo_session_folder import DemoSession

_SETTLED_LINES = {
    DecisionKind.PROBE_LANDED: "it happened. Settled without a person; it is not done again",
    DecisionKind.PROBE_NOT_LANDED: "it did not happen. Settled without a person; the agent does it now",
}


@dataclass
class EventNarrator:
    """Narrator that prints each event of one session once.

    `address` is the site's URL without a trailing slash, or empty.
    """

    stage: DemoSession
    say: Callable[[str], None]
    address: str = ""
    _printed_events: set[tuple[str, int]] = field(default_factory=set)

    def print_new_events(self) -> None:
        """Print the events since the last call."""
        session = self.stage.load_session_or_none()
        if session is None:
            return
        rows: list[AuditEvent | Decision] = [*AuditEvent.objects.filter(session=session)]
        rows += Decision.objects.filter(session=session).select_related("tool_call")
        for row in sorted(rows, key=lambda row: row.created_at):
            event_key = (type(row).__name__, row.pk)
            if event_key not in self._printed_events:
                self._printed_events.add(event_key)
                line = (
                    self._format_decision(row)
                    if isinstance(row, Decision)
                    else self._format_audit_event_or_empty(session, row)
                )
                if line:
                    self.say(line)

    def skip_past_events(self) -> None:
        """Mark all past events as printed."""
        say, self.say = self.say, lambda _line: None
        self.print_new_events()
        self.say = say

    def print_kill(self, pid: int, by: str) -> None:
        """Print that a signal ended the agent's process."""
        session = self.stage.load_session_or_none()
        running_call = ToolCall.objects.filter(session=session, status=CallStatus.ISSUED).first() if session else None
        location = f" inside {running_call.tool}. Nobody knows whether that happened" if running_call else ""
        self.say(f"The agent (pid {pid}) was killed by {by}{location}.")

    def _format_audit_event_or_empty(self, session: Session, event: AuditEvent) -> str:
        details: dict[str, Any] = json.loads(event.details)
        match event.kind:
            case AuditKind.RUN_STARTED if event.actor == "run 1":
                return f"The agent starts (pid {details['pid']}): {session.title}"
            case AuditKind.RUN_STARTED:
                return f"A new process (pid {details['pid']}) takes {session.session_id} over, as {event.actor}."
            case AuditKind.CALL_INTERRUPTED:
                return f"The outcome of {details['tool']} is unknown. The tool’s own check, its verify hook, is asked."
            case AuditKind.SESSION_NEEDS_REVIEW:
                return f"The session pauses until a person decides.{self._format_decision_link(session)}"
            case AuditKind.SESSION_FINISHED:
                link = self._format_link("Read it here", f"/sessions/{session.pk}/")
                return f"{session.session_id} is {details['status']}.{link}"
        return ""

    def _format_decision_link(self, session: Session) -> str:
        call = ToolCall.objects.filter(session=session, status=CallStatus.INTERRUPTED).order_by("-pk").first()
        if not call:
            return ""
        evidence = f"\n{'':10}What really happened is in the ledger: {self.stage.ledger}"
        return self._format_link("Decide here", f"/review/calls/{call.pk}/") + evidence

    def _format_link(self, words: str, path: str) -> str:
        """Format a link as a line of its own, under the text of the line before it."""
        return f"\n{'':10}{words}: {self.address}{path}" if self.address else ""

    def _format_decision(self, decision: Decision) -> str:
        tool = decision.tool_call.tool
        if decision.kind == DecisionKind.PROBE_UNKNOWN:
            return f"The tool’s own check of {tool} cannot tell: {decision.reason}."
        if decision.actor_kind == ActorKind.HOOK:
            return f"The tool’s own check of {tool} says: {_SETTLED_LINES[DecisionKind(decision.kind)]}."
        return f"{decision.actor} decided on {tool}: {DecisionKind(decision.kind).label}. The session goes on."


def is_waiting_for_person(session: Session) -> bool:
    """Return True if a process waits at the gate and its verify hooks have run."""
    return session.owner is not None and session.owner.status == RunStatus.WAITING
