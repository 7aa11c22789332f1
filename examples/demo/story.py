"""What happens to a session, told in plain lines from what the database says happened."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, RunStatus
from checkpoints.models import AuditEvent, Decision, Session, ToolCall
from examples.demo.stages import Stage

_SETTLED = {
    DecisionKind.PROBE_LANDED: "it happened. Settled without a person; it is not done again",
    DecisionKind.PROBE_NOT_LANDED: "it did not happen. Settled without a person; the agent does it now",
}


@dataclass
class Story:
    """Tells of one stage, each event once. `address` is the site's, without a slash at the end; empty without one."""

    stage: Stage
    say: Callable[[str], None]
    address: str = ""
    _told: set[tuple[str, int]] = field(default_factory=set)

    def tell(self) -> None:
        """Say what is new since the last time."""
        session = self.stage.session()
        if session is None:
            return
        rows: list[AuditEvent | Decision] = [*AuditEvent.objects.filter(session=session)]
        rows += Decision.objects.filter(session=session).select_related("tool_call")
        for row in sorted(rows, key=lambda row: row.created_at):
            name = (type(row).__name__, row.pk)
            if name not in self._told:
                self._told.add(name)
                line = self._decision(row) if isinstance(row, Decision) else self._event(session, row)
                if line:
                    self.say(line)

    def skip(self) -> None:
        """Count what has happened so far as told."""
        say, self.say = self.say, lambda _line: None
        self.tell()
        self.say = say

    def killed(self, pid: int, by: str) -> None:
        """The agent's process ended by a signal."""
        session = self.stage.session()
        running = ToolCall.objects.filter(session=session, status=CallStatus.ISSUED).first() if session else None
        where = f" inside {running.tool}. Nobody knows whether that happened" if running else ""
        self.say(f"The agent (pid {pid}) was killed by {by}{where}.")

    def _event(self, session: Session, event: AuditEvent) -> str:
        details: dict[str, Any] = json.loads(event.details)
        match event.kind:
            case AuditKind.RUN_STARTED if event.actor == "run 1":
                return f"The agent starts (pid {details['pid']}): {session.title}"
            case AuditKind.RUN_STARTED:
                return f"A new process (pid {details['pid']}) takes {session.session_id} over, as {event.actor}."
            case AuditKind.CALL_INTERRUPTED:
                return f"The outcome of {details['tool']} is unknown. Its own probe is asked."
            case AuditKind.SESSION_NEEDS_REVIEW:
                return f"The session pauses until a person decides.{self._where(session)}"
            case AuditKind.SESSION_FINISHED:
                read = self._link("Read it here", f"/sessions/{session.pk}/")
                return f"{session.session_id} is {details['status']}.{read}"
        return ""

    def _where(self, session: Session) -> str:
        call = ToolCall.objects.filter(session=session, status=CallStatus.INTERRUPTED).order_by("-pk").first()
        return self._link("Decide here", f"/review/calls/{call.pk}/") if call else ""

    def _link(self, words: str, path: str) -> str:
        """A line of its own, under the text of the line before it."""
        return f"\n{'':10}{words}: {self.address}{path}" if self.address else ""

    def _decision(self, made: Decision) -> str:
        tool = made.tool_call.tool
        if made.kind == DecisionKind.PROBE_UNKNOWN:
            return f"The probe of {tool} cannot tell: {made.reason}."
        if made.actor_kind == ActorKind.HOOK:
            return f"The probe of {tool} says: {_SETTLED[DecisionKind(made.kind)]}."
        return f"{made.actor} decided on {tool}: {DecisionKind(made.kind).label}. The session goes on."


def waits_for_a_person(session: Session) -> bool:
    """Whether a process stands at the gate and its probes have had their say."""
    return session.owner is not None and session.owner.status == RunStatus.WAITING
