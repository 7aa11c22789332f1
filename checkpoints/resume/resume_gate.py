"""Gate: no run continues while the outcome of a call is unknown.

Let verify hooks settle the calls they can, and hold the run while a person has to decide the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.calls import convert_calls_to_dicts, unfinished_call_queries, verify_calls_against_decisions
from checkpoints.db import clock
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.decisions import record_verify_hook_answers
from checkpoints.decisions.ask_verify_hooks import VerifyProbe
from checkpoints.decisions.decision_poll_interval import compute_decision_poll_interval
from checkpoints.enums import (
    AuditKind,
    CallStatus,
    RunStatus,
    SessionStatus,
)
from checkpoints.exceptions import (
    ApprovalRequired,
    ReviewRequired,
)
from checkpoints.integrity import quarantine
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.resume.decision_wait_warning import log_wait_for_decisions
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.sessions import take_and_release_ownership
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Sleep, Transact


def pass_gate_or_require_decisions_flow(
    store: Store, owned_session: OwnedSession, *, wait: bool, timeout: float | None
) -> Flow[None]:
    """Return when nothing is undecided any more and the session is active.

    Raises `ReviewRequired` or `ApprovalRequired` at once, or with `wait` after `timeout` seconds.
    """
    probed_pks: set[int] = set()
    until = None if timeout is None else time.monotonic() + timeout
    is_logged = False
    while True:
        undecided_calls: list[ToolCall] = yield Transact(lambda: list_calls_holding_run(store, owned_session))
        for probe in _iterate_unasked_or_requested_probes(store, owned_session, undecided_calls, probed_pks, wait=wait):
            probed_pks.add(probe.call_pk)
            yield from record_verify_hook_answers.ask_hook_and_record_answer_flow(store, probe)
        if undecided_calls:
            undecided_calls = yield Transact(lambda: list_calls_holding_run(store, owned_session))
        if not undecided_calls:
            if (yield Transact(lambda: try_activate_session_after_decisions(store, owned_session))):
                return
            continue
        if not wait or (until is not None and time.monotonic() >= until):
            unknown = any(call.status == CallStatus.INTERRUPTED for call in undecided_calls)
            kind = ReviewRequired if unknown else ApprovalRequired
            raise kind(
                owned_session.session_id,
                (yield Transact(partial(_load_call_dicts_with_hook_answers, store, owned_session, undecided_calls))),
            )
        if not is_logged:
            calls = ((call.tool, call.call_id) for call in undecided_calls)
            log_wait_for_decisions(owned_session.session_id, calls)
            is_logged = True
        yield Transact(lambda: mark_run_waiting_and_record_event(store, owned_session))
        since = max(call.interrupted_at or call.issued_at for call in undecided_calls)
        yield Sleep(compute_decision_poll_interval((clock.now() - since).total_seconds()))


def list_calls_holding_run(store: Store, owned_session: OwnedSession) -> list[ToolCall]:
    """List the calls that hold the run at the gate, oldest first. Raises `OwnershipLost`, `IntegrityError`."""
    with (
        quarantine.quarantine_on_integrity_error(store, owned_session.session_id),
        database_operation(store.using, writes=False),
    ):
        session = Session.objects.using(store.using).filter(pk=owned_session.pk, fence=owned_session.fence).first()
        if session is None:
            raise look_up_and_lock_rows.forget_session_and_build_fence_error(store, owned_session)
        return unfinished_call_queries.list_verified_undecided_calls_holding_run(store, session)


def _load_call_dicts_with_hook_answers(
    store: Store, owned_session: OwnedSession, calls: list[ToolCall]
) -> list[dict[str, Any]]:
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id):
        return convert_calls_to_dicts.load_calls_with_verify_reasons(store, calls)


def _iterate_unasked_or_requested_probes(
    store: Store, owned_session: OwnedSession, calls: Iterable[ToolCall], probed_pks: set[int], *, wait: bool
) -> Iterable[VerifyProbe]:
    """Iterate over the probes to run now: each once automatically, and again whenever a person requests it.

    A run that waits does not ask about a tool that still runs in this process before it has ended.
    """
    for call in calls:
        if call.status == CallStatus.INTERRUPTED and (call.pk not in probed_pks or call.verify_requested_by):
            probe = record_verify_hook_answers.build_probe_with_registered_hook(store, owned_session.session_id, call)
            is_early = probe is not None and wait and not call.verify_requested_by and probe.is_tool_running
            if probe is not None and not is_early:
                yield probe


def try_activate_session_after_decisions(store: Store, owned_session: OwnedSession) -> bool:
    """Let the run through: the session is active again, and the decisions made so far are used.

    Returns False if a person has withdrawn a decision in the meantime. Raises `OwnershipLost`.
    """
    with quarantine.quarantine_on_integrity_error(store, owned_session.session_id), database_operation(store.using):
        owned_row = Session.objects.using(store.using).filter(
            pk=owned_session.pk, fence=owned_session.fence, owner=owned_session.run
        )
        # A call that was dispatched after a decision has made the session active; the decision is used only now.
        decided = Decision.objects.using(store.using).filter(session=OuterRef("pk"))
        nothing_to_use = owned_row.filter(~Exists(decided), status=SessionStatus.ACTIVE)
        if owned_session.run.status != RunStatus.RUNNING or not nothing_to_use.exists():
            with transaction.atomic(using=store.using):
                session = owned_row.select_for_update().first()
                if session is not None and unfinished_call_queries.list_verified_undecided_calls_holding_run(
                    store, session
                ):
                    return False
                verify_calls_against_decisions.verify_session_calls_against_decisions(store.using, owned_session.pk)
                take_and_release_ownership.write_run_status_as_owner(store, owned_session, RunStatus.RUNNING)
                is_waiting = session is not None and unfinished_call_queries.list_verified_undecided_calls_of_session(
                    store, session
                )
                status = SessionStatus.NEEDS_REVIEW if is_waiting else SessionStatus.ACTIVE
                # A time that is sealed is read before, so that it is compared with what the database stores.
                opened_at = Now() if get_seal_keys() is None else clock.read_database_time(store.using)
                owned_row.update(status=status, gate_opened_at=opened_at)
    owned_session.run.status = RunStatus.RUNNING
    owned_session.at_gate = False
    return True


def mark_run_waiting_and_record_event(store: Store, owned_session: OwnedSession) -> None:
    """Mark the run, once, as waiting for a person."""
    if owned_session.run.status == RunStatus.WAITING:
        return
    with database_operation(store.using), transaction.atomic(using=store.using):
        take_and_release_ownership.write_run_status_as_owner(store, owned_session, RunStatus.WAITING)
        actor = f"run {owned_session.run.number}"
        insert_unchained_events.record_event(
            store, AuditKind.SESSION_NEEDS_REVIEW, session_pk=owned_session.pk, actor=actor
        )
    owned_session.run.status = RunStatus.WAITING
