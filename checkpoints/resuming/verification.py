"""Asking a tool's own verify hook whether an interrupted call landed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.enums import AuditKind, CallStatus, DecisionKind
from checkpoints.exceptions import CheckpointsError, DecisionRefused, StorageError
from checkpoints.flows import Flow, Invoke, Transact
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.outcomes import Answer, Landed, NotLanded, Unknown, interpret_answer
from checkpoints.resuming import actors, decisions, ownership
from checkpoints.resuming.actors import Actor
from checkpoints.resuming.decisions import Target
from checkpoints.saving import audit, lookup, revisions
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical, parse

logger = logging.getLogger(__name__)

#: Characters kept of why a hook could not tell.
WHY_LENGTH = 2000
#: Seconds a hook may take.
VERIFY_TIMEOUT = 30.0


@dataclass(frozen=True)
class Probe:
    """One question to a hook: did this call, at this revision, land?"""

    call_pk: int
    target: Target
    tool: str
    args: str
    args_digest: str
    hook: Any


def hook_for(store: Store, session_id: str, tool: str) -> Any | None:
    """The verify hook of a tool of this session; None where none is known here.

    A registry that is bound to the session decides, the one that was bound last where there are several. Without one,
    those that are bound to no session do, as long as they agree. A registry of another session is never asked: tools
    of two agents may have one name, and the hook of the wrong one looks in the wrong place.
    """
    knowing = [registry for registry in store.registries() if registry.knows_tool(tool)]
    for registry in knowing:
        if registry.session_id == session_id:
            return registry.verify_hook(tool)
    hooks: list[Any] = []
    for registry in knowing:
        hook = registry.verify_hook(tool) if registry.session_id is None else None
        if hook is not None and hook not in hooks:
            hooks.append(hook)
    return hooks[0] if len(hooks) == 1 else _disagreement(tool) if hooks else None


def _disagreement(tool: str) -> Callable[[object], Unknown]:
    why = f"several registries have different verify hooks for {tool!r}, and none of them is bound to this session"
    return lambda args: Unknown(why)


def probe_of(store: Store, session_id: str, call: ToolCall) -> Probe | None:
    """The probe for an interrupted call; None where no registry here has a hook for its tool."""
    return probe_with(hook_for(store, session_id, call.tool), session_id, call)


def probe_with(hook: Any | None, session_id: str, call: ToolCall) -> Probe | None:
    """The probe of an interrupted call by this hook."""
    if hook is None:
        return None
    target = Target(session_id, call.call_id, call.revision, call.step, call.attempt)
    return Probe(call.pk, target, call.tool, call.args, call.args_digest, hook)


def probe_flow(store: Store, probe: Probe) -> Flow[str]:
    """Ask the hook and record its answer. Returns `landed`, `not_landed` or `unknown`.

    The hook gets the call's arguments as its one positional argument. What it returns is taken as
    `outcomes.interpret_answer` says; an error or a hook that takes too long answers nothing.
    """
    if digests.text_digest(probe.args) != probe.args_digest:  # it would be asked about another call
        answer: Answer = Unknown("the stored arguments of the call are damaged, so the verify hook was not asked")
    else:
        answer = yield from _ask(probe)
    said: str = yield Transact(lambda: record(store, probe, answer))
    return said


def _ask(probe: Probe) -> Flow[Answer]:
    began = time.monotonic()
    try:
        value: object = yield Invoke(probe.hook, positional=(parse(probe.args),), timeout=VERIFY_TIMEOUT)
    except Exception as error:  # whatever a hook raises, it did not say what happened
        # A hook may raise the same error long before, out of a request that it made.
        if isinstance(error, TimeoutError) and time.monotonic() - began >= 0.9 * VERIFY_TIMEOUT:
            return Unknown(f"the verify hook gave no answer within {VERIFY_TIMEOUT:g} seconds")
        return Unknown(f"the verify hook raised {_describe(error)}")
    return interpret_answer(value)


def _describe(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its text is made by the user's code
        return type(error).__name__


def record(store: Store, probe: Probe, answer: Answer) -> str:
    """Write a hook's answer as a decision. One that came too late changes nothing and is not an error."""
    if isinstance(answer, Unknown):
        _record_unknown(store, probe, answer.why)
        return "unknown"
    try:
        _record_known(store, probe, answer)
    except DecisionRefused:
        return "unknown"
    except StorageError:
        raise  # the hook knew; the next resume asks it again
    except CheckpointsError as error:
        _record_unknown(store, probe, f"the answer of the verify hook could not be recorded: {error.detail}")
        return "unknown"
    return "landed" if isinstance(answer, Landed) else "not_landed"


def _record_known(store: Store, probe: Probe, answer: Landed | NotLanded) -> None:
    """Record that the hook found the effect or did not. Raises `InvalidInput` for a result that has no JSON form."""
    if isinstance(answer, NotLanded):
        kind, reason = DecisionKind.PROBE_NOT_LANDED, "The effect was not found."
        result = reason
    else:
        kind, reason = DecisionKind.PROBE_LANDED, "The effect was found."
        result = answer.result if isinstance(answer.result, str) else canonical(answer.result, "result")
    decisions.decide(store, probe.target, kind, actor=actors.hook(probe.tool), reason=reason, result=result)


def _record_unknown(store: Store, probe: Probe, why: object) -> None:
    reason = (why if isinstance(why, str) else repr(why)).encode("utf-8", "replace").decode().replace("\0", "")
    reason = reason[:WHY_LENGTH] or "the verify hook gave no reason"
    logger.warning(
        "A verify hook could not tell whether call %r of %s in session %r happened, so a person has to: %s",
        probe.target.call_id,
        probe.tool,
        probe.target.session_id,
        reason,
    )
    with operation(store.using), transaction.atomic(using=store.using):
        session = lookup.session(store, probe.target.session_id, lock=True)
        call = ToolCall.objects.using(store.using).get(pk=probe.call_pk)
        if call.status != CallStatus.INTERRUPTED:
            return
        actor = actors.hook(probe.tool)
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
        revisions.touch(store, session.pk)


def request(store: Store, target: Target, actor: Actor) -> ToolCall:
    """Ask the process that waits at the gate to run the hook again; it answers with a decision.

    Raises what `decisions.decide` raises for a call that is not undecided.
    """
    actor.require_deciding("run the probe of this call")
    with operation(store.using), transaction.atomic(using=store.using):
        session = lookup.session(store, target.session_id, lock=True)
        call = lookup.latest_call(store, session, target.call_id, step=target.step, attempt=target.attempt)
        call = ownership.interrupt_if_lost(store, session, call)
        seen = call.revision if call.status == CallStatus.INTERRUPTED else 0
        decisions.require_undecided(store, session, call, seen)
        ToolCall.objects.using(store.using).filter(pk=call.pk).update(verify_requested_by=actor.name)
        Session.objects.using(store.using).filter(pk=session.pk).update(revision=F("revision") + 1, updated_at=Now())
        audit.record(
            store,
            AuditKind.VERIFY_REQUESTED,
            session_pk=session.pk,
            actor=actor.name,
            actor_kind=actor.kind,
            call_id=call.call_id,
            step=call.step,
        )
    return call
