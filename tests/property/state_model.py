"""Model of one session and its calls in memory: which operations are allowed in which state.

Each method says what has to come of one action: it changes the model and returns the outcome, or returns the name of
the error that refuses the action and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from checkpoints.decisions.decide import RULES
from checkpoints.enums import (
    DISPATCHABLE_SESSION_STATUSES,
    FINISHED_SESSION_STATUSES,
    LIVE_CALL_STATUSES,
    UNDECIDED_CALL_STATUSES,
    WITHDRAWABLE_KINDS,
    CallStatus,
    DecisionKind,
    SessionStatus,
)

#: What an action can come to, beside the errors of the library, which have their class names.
RUNS, REPLAYS, WAITS, DONE = "runs", "replays", "waits", "done"


@dataclass(frozen=True)
class Operation:
    """One thing an agent may want: a tool, its arguments and therefore its key."""

    tool: str
    order: int
    approvals: int = 1
    asks_first: bool = False

    @property
    def args(self) -> dict[str, int]:
        return {"order": self.order}


OPERATIONS = (
    Operation("pay", 1),
    Operation("pay", 2),
    Operation("ship", 3, approvals=2, asks_first=True),
    Operation("mail", 4, approvals=1, asks_first=True),
)


@dataclass
class Attempt:
    """One row of the call log."""

    operation: Operation
    step: int
    call_id: str
    number: int
    run: int
    status: CallStatus
    args: dict[str, int]
    revision: int = 1
    #: Revisions that a final decision was made on, and what single people have said since.
    decided: list[int] = field(default_factory=list)
    voices: list[tuple[DecisionKind, str]] = field(default_factory=list)
    #: Kind of what a single person has said at a revision.
    votes: dict[int, DecisionKind] = field(default_factory=dict)
    #: Who has changed the arguments.
    editors: set[str] = field(default_factory=set)
    #: Kind of the last final decision, and whether a run has used what it gave the agent.
    in_force: DecisionKind | None = None
    used: bool = False
    #: Whether it was interrupted because its run was declared lost, which tells a person nothing new about it.
    lost: bool = False

    @property
    def place(self) -> tuple[int, str, int]:
        return self.step, self.call_id, self.number

    def become(self, status: CallStatus) -> None:
        self.status = status
        self.revision += 1


@dataclass
class Decided:
    """A decision as it is tried."""

    kind: DecisionKind
    actor: str
    revision: int
    permitted: bool = True
    reasoned: bool = True
    order: int = 0


@dataclass
class Model:
    """The session."""

    status: SessionStatus = SessionStatus.ACTIVE
    version: int = 0
    runs: int = 0
    owner: int | None = None
    owner_lives: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    decisions: int = 0
    late_results: int = 0
    #: How often each operation was started, and how often it could be at most.
    started: Counter[Operation] = field(default_factory=Counter)
    allowed: Counter[Operation] = field(default_factory=lambda: Counter(dict.fromkeys(OPERATIONS, 1)))

    @property
    def finished(self) -> bool:
        return self.status in FINISHED_SESSION_STATUSES

    def with_status(self, *statuses: CallStatus) -> list[Attempt]:
        return [each for each in self.attempts if each.status in statuses]

    # ownership

    def take(self, *, takeover: bool) -> str:
        if self.finished:
            return "SessionFinished"
        if self.owner is not None and self.owner_lives and not takeover:
            return "SessionBusy"
        self._interrupt_orphans(lost=True)
        self.runs += 1
        self.owner, self.owner_lives = self.runs, True
        return DONE

    def give_up(self, *, lost: bool) -> None:
        """The run is over, found `lost` or by its own will: nobody reports any more what it had issued."""
        self._interrupt_orphans(lost=lost)
        self.owner = None

    def _interrupt_orphans(self, *, lost: bool) -> None:
        for orphan in self.with_status(CallStatus.ISSUED):
            orphan.become(CallStatus.INTERRUPTED)
            orphan.lost = lost
            self.status = SessionStatus.NEEDS_REVIEW

    def pass_gate(self) -> str:
        if not self.with_status(*UNDECIDED_CALL_STATUSES):
            self.status = SessionStatus.ACTIVE
            for attempt in self.attempts:
                attempt.used = True
            return DONE
        self.owner = None
        return "ReviewRequired" if self.with_status(CallStatus.INTERRUPTED) else "ApprovalRequired"

    def finish(self, status: SessionStatus) -> str:
        if status != SessionStatus.CANCELLED:
            if self.with_status(CallStatus.ISSUED):
                return "CallInProgress"
            if self.with_status(*UNDECIDED_CALL_STATUSES):
                return "ReviewRequired"
        for running in self.with_status(CallStatus.ISSUED):
            running.become(CallStatus.INTERRUPTED)
        self.status, self.owner = status, None
        return DONE

    # calls

    def begin(self, operation: Operation, call_id: str) -> tuple[str, Attempt | None]:
        """A dispatch, up to the moment when the tool runs."""
        live = next((each for each in self.with_status(*LIVE_CALL_STATUSES) if each.operation == operation), None)
        named = [each for each in self.attempts if (each.step, each.call_id) == (self.version, call_id)]
        last = max(named, key=lambda each: each.number, default=None)
        if self.status in DISPATCHABLE_SESSION_STATUSES and not operation.asks_first:
            self.status = SessionStatus.ACTIVE
        if any(each.operation != operation for each in named):
            return "CallConflict", None
        if live is None and last is not None and last.status == CallStatus.REJECTED:
            last.used = True
            return REPLAYS, last
        if live is not None and live.status in _STANDING:
            live.used = live.used or _STANDING[live.status] == REPLAYS
            return _STANDING[live.status], live
        if self.with_status(CallStatus.INTERRUPTED):
            return "ReviewRequired", None
        if live is not None and live.status == CallStatus.APPROVED:
            live.become(CallStatus.ISSUED)
            live.run = self.runs
            return self._starts(live)
        number, args = (1 if last is None else last.number + 1), operation.args
        if live is None and operation.asks_first:
            self._new(operation, call_id, number, args, CallStatus.AWAITING_APPROVAL)
            self.status = SessionStatus.NEEDS_REVIEW
            return "ApprovalRequired", None
        if live is not None:
            live.become(CallStatus.SUPERSEDED)
            args = live.args
        if self.status in DISPATCHABLE_SESSION_STATUSES:
            self.status = SessionStatus.ACTIVE
        return self._starts(self._new(operation, call_id, number, args, CallStatus.ISSUED))

    def _new(
        self, operation: Operation, call_id: str, number: int, args: dict[str, int], status: CallStatus
    ) -> Attempt:
        self.attempts.append(Attempt(operation, self.version, call_id, number, self.runs, status, args))
        return self.attempts[-1]

    def _starts(self, attempt: Attempt) -> tuple[str, Attempt]:
        self.started[attempt.operation] += 1
        return RUNS, attempt

    def end(self, attempt: Attempt, run: int, status: CallStatus) -> str:
        """The tool has come to an end in the run that started it."""
        if self.owner != run or attempt.run != run or attempt.status != CallStatus.ISSUED:
            self.late_results += 1
            return "LateResultRefused"
        attempt.become(status)
        if status == CallStatus.FAILED:
            self.allowed[attempt.operation] += 1
        if status == CallStatus.INTERRUPTED:
            self.status = SessionStatus.NEEDS_REVIEW
            return "ReviewRequired"
        return DONE

    # decisions

    def decide(self, attempt: Attempt, tried: Decided) -> str:
        rule = RULES[tried.kind]
        if not tried.permitted:
            return "NotPermitted"
        if not tried.reasoned:
            return "ReasonRequired"
        abandoned = self._is_abandoned(attempt)
        stale = self._refuse_by_revision(attempt, tried, rule.before, abandoned=abandoned)
        if stale:
            return stale
        if rule.goes_on and self.finished:
            return "SessionFinished"
        if tried.kind == DecisionKind.APPROVE and attempt.operation.approvals > 1 and tried.actor in attempt.editors:
            return "EditorMayNotApprove"
        said = [actor for kind, actor in attempt.voices if kind == tried.kind]
        final = rule.by_one or len(said) + 1 >= attempt.operation.approvals
        if tried.actor in said and not rule.by_one:
            return "SecondPersonRequired"
        self.decisions += 1
        if abandoned:
            self.give_up(lost=True)
        if final:
            self._move(attempt, tried, rule.after)
        else:
            attempt.voices = [voice for voice in attempt.voices if voice[1] != tried.actor]
            attempt.voices.append((tried.kind, tried.actor))
            attempt.votes[attempt.revision] = tried.kind
            attempt.revision += 1
            attempt.lost = False
        if not self.finished and not self.with_status(*UNDECIDED_CALL_STATUSES):
            self.status = SessionStatus.READY
        return DONE

    def withdraw(self, attempt: Attempt, tried: Decided) -> str:
        """A decision that no run has used is undone; while people have yet to agree, the actor's own."""
        if not tried.permitted:
            return "NotPermitted"
        if not tried.reasoned:
            return "ReasonRequired"
        refusal = self._refuse_withdrawal(attempt, tried)
        if refusal:
            return refusal
        self.decisions += 1
        attempt.lost = False
        if attempt.status in UNDECIDED_CALL_STATUSES:
            attempt.voices = [voice for voice in attempt.voices if voice[1] != tried.actor]
            attempt.revision += 1
            return DONE
        assert attempt.in_force is not None
        rule = RULES[attempt.in_force]
        if rule.after in _ALLOWING_ANOTHER:
            self.allowed[attempt.operation] -= 1
        attempt.become(rule.before)
        attempt.in_force, attempt.decided = None, []
        if not self.finished:
            self.status = SessionStatus.NEEDS_REVIEW
        return DONE

    def _refuse_withdrawal(self, attempt: Attempt, tried: Decided) -> str | None:
        if attempt.status in UNDECIDED_CALL_STATUSES:
            if tried.actor not in {actor for _, actor in attempt.voices}:
                return "NothingToWithdraw"
            return None if tried.revision == attempt.revision else "StaleRevision"
        if attempt.in_force not in WITHDRAWABLE_KINDS:
            return "NothingToWithdraw"
        if attempt.status != RULES[attempt.in_force].after:
            return "DecisionUsed"
        if attempt.status not in {CallStatus.APPROVED, CallStatus.RERUN_APPROVED} and (
            attempt.used or self._has_later_attempt(attempt)
        ):
            return "DecisionUsed"
        if tried.revision != attempt.revision:
            return "StaleRevision"
        others = [each for each in self.with_status(*LIVE_CALL_STATUSES) if each is not attempt]
        return "DecisionUsed" if attempt.operation in {each.operation for each in others} else None

    def _has_later_attempt(self, attempt: Attempt) -> bool:
        place = (attempt.step, attempt.call_id)
        return any((each.step, each.call_id) == place and each.number > attempt.number for each in self.attempts)

    def _is_abandoned(self, attempt: Attempt) -> bool:
        """Whether the run that issued the call is gone, although nobody has declared it lost."""
        return attempt.status == CallStatus.ISSUED and not (attempt.run == self.owner and self.owner_lives)

    def _refuse_by_revision(
        self, attempt: Attempt, tried: Decided, before: CallStatus, *, abandoned: bool
    ) -> str | None:
        """The error of a decision on another revision or status than the call has; None if they fit.

        That the run of a call was declared lost, before the decision or by it, does not make the decision stale, and
        neither does it that others have said the same.
        """
        if abandoned and tried.revision != attempt.revision:
            return "StaleRevision"
        lost = abandoned or (attempt.lost and attempt.status == CallStatus.INTERRUPTED)
        status, current = (CallStatus.INTERRUPTED if abandoned else attempt.status), attempt.revision + abandoned
        seen = current if lost and tried.revision == current - 1 else tried.revision
        if seen < current and all(attempt.votes.get(each) == tried.kind for each in range(seen, current)):
            seen = current
        if status != before:
            return "AlreadyDecided" if any(revision >= seen for revision in attempt.decided) else "NotUndecided"
        return None if current == seen else "StaleRevision"

    def _move(self, attempt: Attempt, tried: Decided, after: CallStatus) -> None:
        attempt.decided.append(attempt.revision)
        attempt.voices = []
        attempt.become(after)
        attempt.in_force, attempt.used = tried.kind, False
        if tried.kind == DecisionKind.EDIT:
            attempt.args = {"order": tried.order}
            attempt.editors.add(tried.actor)
        if after in _ALLOWING_ANOTHER:
            self.allowed[attempt.operation] += 1


#: Statuses that a decision gives a call so that its operation may be started once more.
_ALLOWING_ANOTHER = {CallStatus.FAILED, CallStatus.RERUN_APPROVED}
#: What a dispatch makes of the live call that stands in its way.
_STANDING = {
    CallStatus.COMPLETED: REPLAYS,
    CallStatus.ISSUED: WAITS,
    CallStatus.INTERRUPTED: "ReviewRequired",
    CallStatus.AWAITING_APPROVAL: "ApprovalRequired",
}
