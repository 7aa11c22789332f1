"""Random runs, crashes, takeovers, decisions and late results, compared with an in-memory model."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from django.db import connection
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from checkpoints import Actor, SyncCheckpointer, ToolResult
from checkpoints.call_transitions_by_agent_or_system import REPORT, WITHDRAW
from checkpoints.decisions.decide import RULES
from checkpoints.enums import (
    UNDECIDED_CALL_STATUSES,
    WITHDRAWABLE_KINDS,
    ActorKind,
    CallStatus,
    DecisionKind,
    Role,
    SessionStatus,
)
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Decision, LateResult, Run, Session, ToolCall, Workspace
from checkpoints.store.checkpointer_state import is_client_state_with_token_alive
from checkpoints.sync_and_async_flow_runners import Invoke, Sleep, Step
from checkpoints.tools.dispatch_registered_call import dispatch_call_flow
from checkpoints.tools.run_call_and_record_outcome import WaitOptions
from tests.property.state_model import DONE, OPERATIONS, REPLAYS, RUNS, WAITS, Attempt, Decided, Model
from tests.property.state_processes import Flight, Process, outcome, toolbox, until_it_runs
from tests.support.exhaustive_mode import EXHAUSTIVE, count_examples
from tests.support.state_table import list_transitions

Happening = Callable[[st.DataObject], None]

operations = st.sampled_from(OPERATIONS)
#: How a tool ends: the status that follows, and what it raises.
ENDS: dict[CallStatus, type[Exception] | None] = {
    CallStatus.COMPLETED: None,
    CallStatus.FAILED: ValueError,
    CallStatus.INTERRUPTED: TimeoutError,
}
#: What may be wrong with a decision; mostly nothing.
WRONG = [""] * 8 + ["call", "kind", "revision", "role", "reason"]
#: The method of each decision that people make, and what it takes beside the call.
DECIDING: dict[DecisionKind, tuple[str, tuple[Any, ...]]] = {
    DecisionKind.CONFIRM_LANDED: ("confirm_landed", ("done",)),
    DecisionKind.MARK_FAILED: ("mark_failed", ()),
    DecisionKind.APPROVE_RERUN: ("approve_rerun", ()),
    DecisionKind.APPROVE: ("approve_call", ()),
    DecisionKind.EDIT: ("edit_call", ({},)),
    DecisionKind.REJECT: ("reject_call", ("no",)),
    DecisionKind.RESPOND: ("respond_call", ("done by hand",)),
}
HUMAN = sorted(DECIDING)
PEOPLE = ["alice", "bob", "carol"]
#: A session with so many attempts may end.
ENOUGH = 4
#: Transitions of calls that an interrupt of a framework asks about; this machine uses no framework.
OF_INTERRUPTS = {(each.before, each.after) for each in (WITHDRAW, REPORT)}
#: From which status to which a call may go, and where it was seen to go. The machine has no hooks, and logs no reading.
ALLOWED = {
    (before, after) for before, after, actor, cause in list_transitions() if actor != "a verify hook"
} - OF_INTERRUPTS
#: A decision about a call whose run has died interrupts it first, in the same transaction.
AT_ONCE = {("issued", after) for before, after in ALLOWED if before == "interrupted"} - ALLOWED
UNSEEN = {("issued", "discarded"), ("awaiting_approval", "awaiting_approval")}
SEEN_TRANSITIONS: set[tuple[str, str]] = set()


class Life(RuleBasedStateMachine):
    """One session in the database beside its model."""

    def __init__(self) -> None:
        super().__init__()
        self.session_id = uuid4().hex
        self.model = Model()
        self.desk = SyncCheckpointer()
        self.process: Process | None = None
        self.zombies: list[Process] = []
        self.seen = {"fence": -1, "revision": -1, "latest_version": -1}
        self.stood: dict[tuple[int, str, int], str] = {}
        self._take(resume=False, takeover=False)

    @rule(data=st.data())
    def happen(self, data: st.DataObject) -> None:
        """One of the things that can happen now, the more telling ones more often."""
        data.draw(st.sampled_from(self._possible()))(data)

    def _possible(self) -> list[Happening]:
        likely: list[tuple[Happening, int]] = [
            (self.decide, 5 if self.model.with_status(*UNDECIDED_CALL_STATUSES) else bool(self.model.attempts)),
            (self.withdraw, 6 * bool(self._list_withdrawable())),
            (self.come_too_late, bool(self.zombies)),
        ]
        if self.process is None:
            likely += [(self.arrive, 6)]
        else:
            likely += [(self.begin, 8), (self.end, 5 * bool(self.process.flights))]
            likely += [(each, 1) for each in (self.save, self.intrude, self.crash, self.stall, self.release)]
            likely += [(self.finish, len(self.model.attempts) > ENOUGH)]
        return [happening for happening, often in likely for _ in range(often)]

    # who owns the session

    def arrive(self, data: st.DataObject) -> None:
        """A process takes a session that nobody holds."""
        self._take(resume=data.draw(st.booleans()), takeover=False)

    def intrude(self, data: st.DataObject) -> None:
        """A second process comes while the first is there."""
        self._take(resume=data.draw(st.booleans()), takeover=data.draw(st.booleans()))

    def _take(self, *, resume: bool, takeover: bool) -> None:
        """By `resume` or by `start_session`: through the same gate."""
        checkpointer = SyncCheckpointer()
        if resume and self.model.finished:
            assert checkpointer.resume(self.session_id).finished
            return
        take = checkpointer.resume if resume else checkpointer.start_session
        said = outcome(lambda: take(self.session_id, takeover=takeover))
        expected = self.model.take(takeover=takeover)
        if expected == DONE:
            self._leave()
            expected = self.model.pass_gate()
        assert said == expected
        if said == DONE:
            registry = toolbox()
            registry.bind(checkpointer, self.session_id)
            self.process = Process(checkpointer, registry, self.model.runs)

    def _leave(self) -> None:
        """The process that had the session lives on without it."""
        if self.process is not None:
            self.zombies.append(self.process)
        self.process = None

    def crash(self, data: st.DataObject) -> None:
        """The process is gone, with everything it was doing."""
        token, self.process = self.working.checkpointer.store.token, None
        self.model.owner_lives = False
        if is_client_state_with_token_alive(
            token
        ):  # errors that were raised keep their frames until they are collected
            gc.collect()

    def stall(self, data: st.DataObject) -> None:
        """The process is stopped until its lease has run out; perhaps a sweep notices before it goes on."""
        runs = Run.objects.filter(session__session_id=self.session_id, number=self.working.run)
        runs.update(lease_expires_at="2020-01-01T00:00:00Z")
        self.model.owner_lives = False
        if data.draw(st.booleans()):
            assert self.session_id in self.desk.sweep_lost_runs(limit=1000)
            self.model.give_up(lost=True)
            self._leave()

    def release(self, data: st.DataObject) -> None:
        self.working.checkpointer.close()
        self.model.give_up(lost=False)
        self._leave()

    # what its owner does

    @property
    def working(self) -> Process:
        assert self.process is not None
        return self.process

    def save(self, data: st.DataObject) -> None:
        version = self.working.checkpointer.save_checkpoint(self.session_id, [], None, 0.0)
        self.model.version += 1
        assert version == self.model.version

    def finish(self, data: st.DataObject) -> None:
        status = data.draw(st.sampled_from([SessionStatus.COMPLETED, SessionStatus.CANCELLED]))
        said = outcome(lambda: self.working.checkpointer.finish_session(self.session_id, status))
        assert said == self.model.finish(status)
        if said == DONE:
            self._leave()

    def begin(self, data: st.DataObject) -> None:
        """Dispatch a call up to the moment when the tool runs: under its usual id, a new one, or that of another."""
        allowed = [each.operation for each in self.model.with_status(CallStatus.APPROVED, CallStatus.RERUN_APPROVED)]
        operation = data.draw(st.sampled_from(allowed) | operations if allowed else operations)
        named = data.draw(operations) if data.draw(st.integers(0, 5)) == 0 else operation
        call_id = f"{named.tool} {named.order}{data.draw(st.sampled_from(['', ' again']))}"
        flow = dispatch_call_flow(
            self.working.registry,
            operation.tool,
            operation.args,
            call_id,
            step=self.model.version,
            waiting=WaitOptions(),
        )
        expected, attempt = self.model.begin(operation, call_id)
        came: Step | ToolResult | None = None
        try:
            came = until_it_runs(flow, lambda: next(flow))
            said = {Invoke: RUNS, Sleep: WAITS, ToolResult: REPLAYS}[type(came)]
        except CheckpointsError as error:
            said = type(error).__name__
        assert said == expected
        if isinstance(came, Invoke) and attempt is not None:
            assert came.arguments == attempt.args
            came.started = True
            self.working.flights.append(Flight(flow, attempt, self.working.run))

    def end(self, data: st.DataObject) -> None:
        self._land(self.working, data)

    def _land(self, process: Process, data: st.DataObject) -> None:
        """A running tool comes to its end."""
        flight = process.flights.pop(data.draw(st.integers(0, len(process.flights) - 1)))
        status, flow = data.draw(st.sampled_from(sorted(ENDS))), flight.flow
        expected, error = self.model.end(flight.attempt, flight.run, status), ENDS[status]
        go_on = (lambda: flow.throw(error())) if error else (lambda: flow.send("done"))
        assert outcome(lambda: until_it_runs(flow, go_on)) == expected

    def come_too_late(self, data: st.DataObject) -> None:
        """A process that has lost the session goes on: its tools come to their end, or it tries to write."""
        zombie = data.draw(st.sampled_from(self.zombies))
        if zombie.flights:
            self._land(zombie, data)
            return
        operation = data.draw(operations)
        save = outcome(lambda: zombie.checkpointer.save_checkpoint(self.session_id, [{"id": "late"}], None, 9.0))
        dispatch = outcome(lambda: zombie.registry.dispatch(operation.tool, operation.args, "late"))
        assert {save, dispatch} <= {"OwnershipLost", "NotOwner", "SessionFinished"}

    # decisions

    def decide(self, data: st.DataObject) -> None:
        wrong, waiting = data.draw(st.sampled_from(WRONG)), self.model.with_status(*UNDECIDED_CALL_STATUSES)
        attempt = data.draw(st.sampled_from(waiting if waiting and wrong != "call" else self.model.attempts))
        fitting = [kind for kind in HUMAN if RULES[kind].before == attempt.status]
        kind = data.draw(st.sampled_from(fitting if fitting and wrong != "kind" else HUMAN))
        revision = attempt.revision - (data.draw(st.sampled_from([-1, 1])) if wrong == "revision" else 0)
        actor = data.draw(st.sampled_from(PEOPLE))
        tried = Decided(kind, actor, revision, wrong != "role", wrong != "reason", data.draw(st.integers(10, 12)))
        said = outcome(lambda: self._decided(attempt, tried))
        assert said == self.model.decide(attempt, tried)
        if self.model.owner is None:
            self._leave()

    def withdraw(self, data: st.DataObject) -> None:
        """Somebody undoes the last decision about a call, or tries to."""
        wrong = data.draw(st.sampled_from(WRONG))
        attempt = data.draw(st.sampled_from(self.model.attempts if wrong == "call" else self._list_withdrawable()))
        revision = attempt.revision - (data.draw(st.sampled_from([-1, 1])) if wrong == "revision" else 0)
        actor = data.draw(st.sampled_from(PEOPLE))
        tried = Decided(DecisionKind.WITHDRAW, actor, revision, wrong != "role", wrong != "reason")
        how = self._describe(attempt, tried)
        said = outcome(lambda: self.desk.withdraw_decision(self.session_id, attempt.call_id, **how))
        assert said == self.model.withdraw(attempt, tried)

    def _list_withdrawable(self) -> list[Attempt]:
        return [each for each in self.model.attempts if each.voices or each.in_force in WITHDRAWABLE_KINDS]

    def _decided(self, attempt: Attempt, tried: Decided) -> None:
        how = self._describe(attempt, tried)
        name, more = DECIDING[tried.kind]
        if tried.kind == DecisionKind.EDIT:
            more = ({"order": tried.order},)
        getattr(self.desk, name)(self.session_id, attempt.call_id, *more, **how)

    def _describe(self, attempt: Attempt, tried: Decided) -> dict[str, Any]:
        return {
            "actor": Actor(ActorKind.PERSON, tried.actor, Role.APPROVER if tried.permitted else Role.AUDITOR),
            "reason": "I looked." if tried.reasoned else " ",
            "revision": tried.revision,
            "step": attempt.step,
            "attempt": attempt.number,
        }

    # what always holds

    @invariant()
    def database_and_model_agree(self) -> None:
        session = Session.objects.select_related("owner").get(session_id=self.session_id)
        model = self.model
        owner = session.owner.number if session.owner else None
        assert (session.status, session.latest_version, owner) == (model.status, model.version, model.owner)
        rows = ToolCall.objects.filter(session=session).select_related("run")
        assert {
            (row.step, row.call_id, row.attempt): (row.status, row.revision, row.args, row.run.number) for row in rows
        } == {
            each.place: (each.status, each.revision, f'{{"order":{each.args["order"]}}}', each.run)
            for each in model.attempts
        }
        assert Decision.objects.filter(session=session).count() == model.decisions
        assert LateResult.objects.filter(session=session).count() == model.late_results

    @invariant()
    def calls_move_as_the_table_says(self) -> None:
        rows = ToolCall.objects.filter(session__session_id=self.session_id)
        now = {(row.step, row.call_id, row.attempt): str(row.status) for row in rows}
        moved = {
            (self.stood.get(place, ""), status) for place, status in now.items() if self.stood.get(place) != status
        }
        assert moved <= ALLOWED | AT_ONCE
        assert set(self.stood) <= set(now)
        SEEN_TRANSITIONS.update(moved)
        self.stood = now

    @invariant()
    def nothing_starts_more_often_than_allowed(self) -> None:
        for operation in OPERATIONS:
            assert self.model.started[operation] <= self.model.allowed[operation]

    @invariant()
    def numbers_only_grow(self) -> None:
        now = Session.objects.filter(session_id=self.session_id).values(*self.seen).get()
        assert all(now[name] >= before for name, before in self.seen.items())
        self.seen = now


def test_random_histories_match_the_model(workspace: Workspace) -> None:
    """Fewer histories run on PostgreSQL, which takes four times as long. An exhaustive run covers every transition."""
    on_sqlite = connection.vendor == "sqlite"
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=count_examples((30 if EXHAUSTIVE else 10) if on_sqlite else 4),
            stateful_step_count=50,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
    assert SEEN_TRANSITIONS - AT_ONCE <= ALLOWED - UNSEEN
    if on_sqlite and EXHAUSTIVE:
        assert SEEN_TRANSITIONS - AT_ONCE == ALLOWED - UNSEEN
