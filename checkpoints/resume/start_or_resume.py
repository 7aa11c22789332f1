"""Start or resume a session: own it, pass the gate, and return the point where the run continues."""

from __future__ import annotations

from checkpoints.calls import write_outcomes_and_interruptions
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import (
    AtGate,
    OwnershipLost,
)
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Run, ToolCall
from checkpoints.resume import build_resume_point, resume_gate, resume_point_of_finished_session
from checkpoints.resume.resume_point import ResumePoint
from checkpoints.sessions import create_finish_release, take_and_release_ownership
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Transact
from checkpoints.tracing import RESUME, trace_session_flow
from checkpoints.versions import load_run_phase_and_snapshot, save_version


@trace_session_flow(RESUME)
def resume_session_flow(
    store: Store,
    session_id: str,
    *,
    wait: bool = False,
    timeout: float | None = None,
    takeover: bool | str = False,
    paused: bool = False,
) -> Flow[ResumePoint]:
    """Take the session, pass the gate, and return the point where the run continues.

    Raises `SessionNotFound`, `SessionBusy`, `CheckpointCorrupted`, `SchemaFromFuture`, `OwnershipLost` if another
    run takes the session over meanwhile, and `ReviewRequired` if a person has to decide: at once, or with `wait`
    after `timeout` seconds (None waits without limit). After `ReviewRequired` the session is released. `paused` is for
    callers that take a session that waits for other agents.
    """
    with store.keep_session_from_idling(session_id):
        return (
            yield from _take_session_and_pass_gate_flow(
                store, session_id, wait=wait, timeout=timeout, takeover=takeover, paused=paused
            )
        )


def _take_session_and_pass_gate_flow(
    store: Store, session_id: str, *, wait: bool, timeout: float | None, takeover: bool | str, paused: bool
) -> Flow[ResumePoint]:
    finished_point: ResumePoint | None = yield Transact(
        lambda: resume_point_of_finished_session.load_resume_point_if_finished(store, session_id)
    )
    if finished_point is not None:
        return finished_point
    owned_session: OwnedSession = yield Transact(
        lambda: _own_session_and_interrupt_abandoned_calls(store, session_id, takeover=takeover, paused=paused)
    )
    try:
        latest, position = yield Transact(
            lambda: build_resume_point.load_latest_version_and_run_position(store, owned_session)
        )
        yield from resume_gate.pass_gate_or_require_decisions_flow(store, owned_session, wait=wait, timeout=timeout)
        point: ResumePoint = yield Transact(
            lambda: build_resume_point.prepare_or_finish_run_and_build_resume_point(
                store, owned_session, latest, position
            )
        )
    except OwnershipLost:
        raise
    except BaseException:
        yield Transact(
            lambda: take_and_release_ownership.release_ownership_ignoring_storage_errors(store, owned_session)
        )
        raise
    return point


def create_or_resume_session_flow(
    store: Store,
    session_id: str,
    description: NewSessionFields,
    *,
    wait: bool = False,
    timeout: float | None = None,
    takeover: bool | str = False,
) -> Flow[ResumePoint]:
    """Start or resume: create the session with `description` if it does not exist, then do what `resume_session_flow`
    does.

    A finished session returns its result, as in `resume_session_flow`; an existing session keeps its description.
    Raises what `resume_session_flow` raises, and `InvalidIdentifier` or `NotRepresentable` for an invalid description.
    """
    yield Transact(lambda: create_finish_release.create_session_if_missing(store, session_id, description))
    return (yield from resume_session_flow(store, session_id, wait=wait, timeout=timeout, takeover=takeover))


def take_and_resume_or_list_undecided_calls(
    store: Store,
    session_id: str,
    *,
    description: NewSessionFields | None = None,
    takeover: bool | str = False,
    paused: bool = False,
) -> ResumePoint | list[ToolCall]:
    """Take the session if it is not owned, and pass the gate if nothing is undecided.

    Returns the point where the run continues, or the undecided calls; then the run stays at the gate. With a
    `description` a session that does not exist is created. Raises what `resume_session_flow` raises but
    `ReviewRequired`; after an error the session is released.
    """
    if description is not None:
        create_finish_release.create_session_if_missing(store, session_id, description)
    finished_point = resume_point_of_finished_session.load_resume_point_if_finished(store, session_id)
    if finished_point is not None:
        return finished_point
    owned_session = _own_session_and_interrupt_abandoned_calls(store, session_id, takeover=takeover, paused=paused)
    try:
        latest, position = build_resume_point.load_latest_version_and_run_position(store, owned_session)
        while True:
            undecided_calls = resume_gate.list_calls_holding_run(store, owned_session)
            if undecided_calls:
                resume_gate.mark_run_waiting_and_record_event(store, owned_session)
                return undecided_calls
            if resume_gate.try_activate_session_after_decisions(store, owned_session):
                return build_resume_point.prepare_or_finish_run_and_build_resume_point(
                    store, owned_session, latest, position
                )
    except OwnershipLost:
        raise
    except BaseException:
        take_and_release_ownership.release_ownership_ignoring_storage_errors(store, owned_session)
        raise


@trace_session_flow(RESUME)
def start_session_flow(
    store: Store, session_id: str, description: NewSessionFields, *, takeover: bool | str = False
) -> Flow[Run]:
    """Create the session, or continue it through the gate, and own it. Returns the run that drives it.

    On a session that this checkpointer owns and in which nothing is undecided it returns the existing run. Raises
    `InvalidIdentifier`, `NotRepresentable`, `SessionBusy`, `SessionFinished`, `SchemaFromFuture`, `PausedForPeers`,
    `CheckpointCorrupted` if the payload of the newest version is damaged, and `ReviewRequired` or `ApprovalRequired`
    if a person has to decide: then the session is released.
    """
    with store.keep_session_from_idling(validate_id("session id", session_id)):
        return (yield from _own_or_create_session_and_pass_gate_flow(store, session_id, description, takeover=takeover))


def _own_or_create_session_and_pass_gate_flow(
    store: Store, session_id: str, description: NewSessionFields, *, takeover: bool | str
) -> Flow[Run]:
    run: Run | None = yield Transact(lambda: _touch_session_and_get_own_run_past_gate(store, session_id))
    if run is not None:
        return run
    yield Transact(lambda: create_finish_release.create_session_if_missing(store, session_id, description))
    owned_session: OwnedSession = yield Transact(
        lambda: _own_session_and_interrupt_abandoned_calls(store, session_id, takeover=takeover, paused=False)
    )
    try:
        yield Transact(lambda: _require_pending_model_response_readable(store, owned_session))
        yield from resume_gate.pass_gate_or_require_decisions_flow(store, owned_session, wait=False, timeout=None)
    except OwnershipLost:
        raise
    except BaseException:
        yield Transact(
            lambda: take_and_release_ownership.release_ownership_ignoring_storage_errors(store, owned_session)
        )
        raise
    return owned_session.run


def _touch_session_and_get_own_run_past_gate(store: Store, session_id: str) -> Run | None:
    """Return the run with which this checkpointer drives the session; None if it has none or has to pass the gate."""
    owned_session = store.find_owned_session(session_id)
    if owned_session is None:
        return None
    if owned_session.at_gate:
        raise AtGate(session_id)
    if not take_and_release_ownership.touch_session_if_still_owner(store, owned_session):
        store.remove_owned_session(owned_session)
        return None
    if resume_gate.list_calls_holding_run(store, owned_session):
        return None
    owned_session.operations.reset_pairings()
    return owned_session.run


def _own_session_and_interrupt_abandoned_calls(
    store: Store, session_id: str, *, takeover: bool | str, paused: bool
) -> OwnedSession:
    owned_session = store.find_owned_session(session_id)
    if owned_session is not None and take_and_release_ownership.touch_session_if_still_owner(store, owned_session):
        write_outcomes_and_interruptions.interrupt_or_discard_abandoned_calls(store, owned_session)
        owned_session.operations.reset_pairings()
        return owned_session
    return take_and_release_ownership.take_ownership_and_start_heartbeat(
        store, session_id, takeover=takeover, paused=paused
    )


def _require_pending_model_response_readable(store: Store, owned_session: OwnedSession) -> None:
    """Refuse to continue if a journaled model answer may be in a damaged payload.

    Raises `CheckpointCorrupted`, `SchemaFromFuture`.
    """
    if owned_session.head.version == 0:
        return
    with database_operation(store.using, writes=False):
        newest = save_version.find_newest_version(store.using, owned_session.pk)
        if newest is not None:
            load_run_phase_and_snapshot.load_run_position_at_version(store, owned_session.session_id, newest)
