"""Verification of interrupted calls: record what the verify hook of a tool answers, and request another answer."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.calls import call_queries, require_unaltered_call
from checkpoints.calls.tool_result_and_verify_answer_types import Answer, Landed, NotLanded, Unknown
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.decisions import actors, decide
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.ask_verify_hooks import VerifyProbe, ask_verify_hook_flow, find_verify_hook
from checkpoints.decisions.decision_target import DecisionTarget
from checkpoints.decisions.lock_session_for_decision import lock_session_and_get_call
from checkpoints.enums import AuditKind, CallStatus, DecisionKind
from checkpoints.exceptions import CheckpointsError, DecisionRefused, StorageError
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.storable_text import replace_unstorable_characters
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.sessions import take_and_release_ownership
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.sync_and_async_flow_runners import Flow, Transact

logger = logging.getLogger(__name__)

#: Largest stored length of a hook's reason, in characters.
MAX_WHY_LENGTH = 2000


def build_probe_with_registered_hook(store: Store, session_id: str, call: ToolCall) -> VerifyProbe | None:
    """Build the probe for an interrupted call; None if no registry here has a hook for its tool."""
    return build_probe_with_hook(find_verify_hook(store, session_id, call.tool), session_id, call)


def build_probe_with_hook(hook: Any | None, session_id: str, call: ToolCall) -> VerifyProbe | None:
    """Build the probe of an interrupted call for this hook."""
    if hook is None:
        return None
    target = DecisionTarget(session_id, call.call_id, call.revision, call.step, call.attempt)
    return VerifyProbe(call.pk, target, call.tool, call.args, call.args_digest, str(call.run_id), hook)


def ask_hook_and_record_answer_flow(store: Store, probe: VerifyProbe) -> Flow[str]:
    """Ask the hook and record its answer. Returns `landed`, `not_landed` or `unknown`.

    The hook gets the call's arguments as its one positional argument. Its return value is interpreted by
    `tool_result_and_verify_answer_types.interpret_verify_hook_answer`; an error or a timeout of the hook is no answer.
    """
    answer = yield from ask_verify_hook_flow(probe)
    outcome: str = yield Transact(lambda: record_hook_answer(store, probe, answer))
    return outcome


def record_hook_answer(store: Store, probe: VerifyProbe, answer: Answer) -> str:
    """Write a hook's answer as a decision. An answer that came too late changes nothing and is not an error."""
    if isinstance(answer, Unknown):
        _record_unknown_answer(store, probe, answer.why)
        return "unknown"
    try:
        _record_landed_or_not_landed_answer(store, probe, answer)
    except DecisionRefused:
        return "unknown"
    except StorageError:
        raise  # the answer was lost, and the next resume asks again
    except CheckpointsError as error:
        _record_unknown_answer(store, probe, f"the answer of the verify hook could not be recorded: {error.detail}")
        return "unknown"
    return "landed" if isinstance(answer, Landed) else "not_landed"


def _record_landed_or_not_landed_answer(store: Store, probe: VerifyProbe, answer: Landed | NotLanded) -> None:
    """Record that the hook found the effect or did not. Raises `InvalidInput` for a result that has no JSON form."""
    if isinstance(answer, NotLanded):
        kind, reason = DecisionKind.PROBE_NOT_LANDED, "The effect was not found."
        result = reason
    else:
        kind, reason = DecisionKind.PROBE_LANDED, "The effect was found."
        result = answer.result if isinstance(answer.result, str) else to_canonical_json(answer.result, "result")
    decide.record_decision(
        store, probe.target, kind, actor=actors.build_hook_actor(probe.tool), reason=reason, result=result
    )


def _record_unknown_answer(store: Store, probe: VerifyProbe, cause: object) -> None:
    reason = replace_unstorable_characters(cause if isinstance(cause, str) else repr(cause))
    reason = reason[:MAX_WHY_LENGTH] or "the verify hook gave no reason"
    logger.warning(
        "A verify hook could not tell whether call %r of %s in session %r happened, so a person has to: %s",
        probe.target.call_id,
        probe.tool,
        probe.target.session_id,
        reason,
    )
    with database_operation(store.using), transaction.atomic(using=store.using):
        session = look_up_and_lock_rows.get_session(store, probe.target.session_id, lock=True)
        call = call_queries.get_verified_call_by_pk(store, probe.target.session_id, probe.call_pk)
        if call.status != CallStatus.INTERRUPTED:
            return
        actor = actors.build_hook_actor(probe.tool)
        Decision.objects.using(store.using).create(
            session=session,
            tool_call=call,
            kind=DecisionKind.PROBE_UNKNOWN,
            actor_kind=actor.kind,
            actor=actor.name,
            reason=reason,
            args_digest=call.args_digest,
            revision=call.revision,
        )
        ToolCall.objects.using(store.using).filter(pk=call.pk).update(verify_requested_by="")
        look_up_and_lock_rows.increment_session_revision(store, session.pk)


def request_verify_hook_run(store: Store, target: DecisionTarget, actor: Actor) -> ToolCall:
    """Ask the process that waits at the gate to run the hook again; it answers with a decision.

    Raises what `decisions.decide` raises for a call that is altered or not undecided.
    """
    actor.require_may_decide("run the probe of this call")
    with lock_session_and_get_call(store, target) as (session, call):
        require_unaltered_call.require_matching_digests(call)
        call = take_and_release_ownership.interrupt_call_and_end_run_if_lost(store, session, call)
        revision = call.revision if call.status == CallStatus.INTERRUPTED else 0
        decide.require_undecided_at_revision(store, session, call, revision)
        ToolCall.objects.using(store.using).filter(pk=call.pk).update(verify_requested_by=actor.name)
        Session.objects.using(store.using).filter(pk=session.pk).update(revision=F("revision") + 1, updated_at=Now())
        insert_unchained_events.record_event(
            store,
            AuditKind.VERIFY_REQUESTED,
            session_pk=session.pk,
            actor=actor.name,
            actor_kind=actor.kind,
            call_id=call.call_id,
            step=call.step,
            **actor.audit_details,
        )
    return call
