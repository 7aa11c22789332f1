"""Verification: ask a tool's own verify hook whether an interrupted call landed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.calls import running_tools
from checkpoints.calls.outcome_types import Answer, Landed, NotLanded, Unknown, interpret_verify_hook_answer
from checkpoints.calls.running_tools import CallPlace
from checkpoints.db.database_operation import database_operation
from checkpoints.decisions import actors, decide
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decide import DecisionTarget
from checkpoints.enums import AuditKind, CallStatus, DecisionKind
from checkpoints.exceptions import CheckpointsError, DecisionRefused, StorageError
from checkpoints.formats import digests
from checkpoints.formats.canonical import parse_json, to_canonical_json
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.sansio import Flow, Invoke, Transact
from checkpoints.sessions import ownership
from checkpoints.store import row_lookups
from checkpoints.store.database_client_state import Store

logger = logging.getLogger(__name__)

#: Largest stored length of a hook's reason, in characters.
MAX_WHY_LENGTH = 2000
#: Timeout of a hook, in seconds.
VERIFY_TIMEOUT = 30.0


@dataclass(frozen=True)
class VerifyProbe:
    """Question to a hook: did this call, at this revision, land?"""

    call_pk: int
    target: DecisionTarget
    tool: str
    args: str
    args_digest: str
    run_id: str
    hook: Any

    @property
    def is_tool_running(self) -> bool:
        """Whether the tool of the call still runs in this process, waited for or not."""
        target = self.target
        return running_tools.is_tool_running(
            CallPlace(self.run_id, target.session_id, self.tool, target.call_id, target.step, target.attempt)
        )


def find_verify_hook(store: Store, session_id: str, tool: str) -> Any | None:
    """Find the verify hook of a tool of this session; None if no registry here has one.

    A registry that is bound to the session decides, the newest of several. Without one, those that are bound to no
    session
    do, as long as they agree. A registry of another session is never asked: tools of two agents may have the same
    name, and
    the hook of the wrong one would check the wrong system.
    """
    registries = [registry for registry in store.list_verify_hook_providers() if registry.knows_tool(tool)]
    for registry in registries:
        if registry.session_id == session_id:
            return registry.get_verify_hook(tool)
    hooks: list[Any] = []
    for registry in registries:
        hook = registry.get_verify_hook(tool) if registry.session_id is None else None
        if hook is not None and hook not in hooks:
            hooks.append(hook)
    return hooks[0] if len(hooks) == 1 else _build_hook_that_reports_conflict(tool) if hooks else None


def _build_hook_that_reports_conflict(tool: str) -> Callable[[object], Unknown]:
    reason = f"several registries have different verify hooks for {tool!r}, and none of them is bound to this session"
    return lambda args: Unknown(reason)


def build_verify_probe(store: Store, session_id: str, call: ToolCall) -> VerifyProbe | None:
    """Build the probe for an interrupted call; None if no registry here has a hook for its tool."""
    return build_probe_with_hook(find_verify_hook(store, session_id, call.tool), session_id, call)


def build_probe_with_hook(hook: Any | None, session_id: str, call: ToolCall) -> VerifyProbe | None:
    """Build the probe of an interrupted call for this hook."""
    if hook is None:
        return None
    target = DecisionTarget(session_id, call.call_id, call.revision, call.step, call.attempt)
    return VerifyProbe(call.pk, target, call.tool, call.args, call.args_digest, str(call.run_id), hook)


def run_probe_flow(store: Store, probe: VerifyProbe) -> Flow[str]:
    """Ask the hook and record its answer. Returns `landed`, `not_landed` or `unknown`.

    The hook gets the call's arguments as its one positional argument. Its return value is interpreted by
    `outcome_types.interpret_verify_hook_answer`; an error or a timeout of the hook is no answer.
    """
    answer = yield from ask_verify_hook_flow(probe)
    outcome: str = yield Transact(lambda: record_hook_answer(store, probe, answer))
    return outcome


def ask_verify_hook_flow(probe: VerifyProbe) -> Flow[Answer]:
    """Ask the hook, and record nothing."""
    if digests.digest_text(probe.args) != probe.args_digest:  # the hook would be asked about another call
        return Unknown("the stored arguments of the call are damaged, so the verify hook was not asked")
    was_running = probe.is_tool_running
    began = time.monotonic()
    try:
        value: object = yield Invoke(probe.hook, positional=(parse_json(probe.args),), timeout=VERIFY_TIMEOUT)
    except Exception as error:  # an error of a hook is no answer
        # The hook itself may raise the same error much earlier, from a request that it made.
        if isinstance(error, TimeoutError) and time.monotonic() - began >= 0.9 * VERIFY_TIMEOUT:
            return Unknown(f"the verify hook gave no answer within {VERIFY_TIMEOUT:g} seconds")
        return Unknown(f"the verify hook raised {_describe_error(error)}")
    answer = interpret_verify_hook_answer(value)
    if was_running and isinstance(answer, NotLanded):
        return Unknown(
            "the verify hook found no effect, but the tool still runs in a thread of this process and may have one yet"
        )
    return answer


def _describe_error(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # `str` runs the user's code
        return type(error).__name__


def record_hook_answer(store: Store, probe: VerifyProbe, answer: Answer) -> str:
    """Write a hook's answer as a decision. An answer that came too late changes nothing and is not an error."""
    if isinstance(answer, Unknown):
        _record_unverified_outcome(store, probe, answer.why)
        return "unknown"
    try:
        _record_verified_outcome(store, probe, answer)
    except DecisionRefused:
        return "unknown"
    except StorageError:
        raise  # the answer was lost, and the next resume asks again
    except CheckpointsError as error:
        _record_unverified_outcome(store, probe, f"the answer of the verify hook could not be recorded: {error.detail}")
        return "unknown"
    return "landed" if isinstance(answer, Landed) else "not_landed"


def _record_verified_outcome(store: Store, probe: VerifyProbe, answer: Landed | NotLanded) -> None:
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


def _record_unverified_outcome(store: Store, probe: VerifyProbe, cause: object) -> None:
    reason = (cause if isinstance(cause, str) else repr(cause)).encode("utf-8", "replace").decode().replace("\0", "")
    reason = reason[:MAX_WHY_LENGTH] or "the verify hook gave no reason"
    logger.warning(
        "A verify hook could not tell whether call %r of %s in session %r happened, so a person has to: %s",
        probe.target.call_id,
        probe.tool,
        probe.target.session_id,
        reason,
    )
    with database_operation(store.using), transaction.atomic(using=store.using):
        session = row_lookups.get_session(store, probe.target.session_id, lock=True)
        call = ToolCall.objects.using(store.using).get(pk=probe.call_pk)
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
        row_lookups.increment_session_revision(store, session.pk)


def request_verification(store: Store, target: DecisionTarget, actor: Actor) -> ToolCall:
    """Ask the process that waits at the gate to run the hook again; it answers with a decision.

    Raises what `decisions.decide` raises for a call that is not undecided.
    """
    actor.require_may_decide("run the probe of this call")
    with database_operation(store.using), transaction.atomic(using=store.using):
        session = row_lookups.get_session(store, target.session_id, lock=True)
        row_lookups.require_not_quarantined(session)
        call = row_lookups.get_latest_attempt(store, session, target.call_id, step=target.step, attempt=target.attempt)
        call = ownership.interrupt_call_if_lost(store, session, call)
        revision = call.revision if call.status == CallStatus.INTERRUPTED else 0
        decide.require_undecided(store, session, call, revision)
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
        )
    return call
