"""Asking a tool's own verify hook whether an interrupted call landed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.enums import AuditKind, CallStatus, DecisionKind
from checkpoints.exceptions import CheckpointsError, DecisionRefused, StorageError
from checkpoints.flows import Flow, Invoke, Transact
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.outcomes import Landed, NotLanded, Unknown
from checkpoints.resuming import actors, decisions
from checkpoints.resuming.actors import Actor
from checkpoints.resuming.decisions import Target, Verdict
from checkpoints.saving import audit, lookup, revisions
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde.canonical import parse

#: Seconds a hook may take.
VERIFY_TIMEOUT = 30.0


@dataclass(frozen=True)
class Probe:
    """One question to a hook: did this call, at this revision, land?"""

    call_pk: int
    target: Target
    tool: str
    args: str
    hook: Any


def hook_for(store: Store, tool: str) -> Any | None:
    """The verify hook of a tool, from any registry of this checkpointer."""
    for registry in list(store.registries):
        found = registry.verify_hook(tool)
        if found is not None:
            return found
    return None


def probe_of(store: Store, session_id: str, call: ToolCall) -> Probe | None:
    """The probe for an interrupted call; None where no registry here has a hook for its tool."""
    hook = hook_for(store, call.tool)
    if hook is None:
        return None
    target = Target(session_id, call.call_id, call.revision, call.step, call.attempt)
    return Probe(call.pk, target, call.tool, call.args, hook)


def probe_flow(store: Store, probe: Probe) -> Flow[str]:
    """Ask the hook and record its answer. Returns `landed`, `not_landed` or `unknown`."""
    answer: Any
    try:
        answer = yield Invoke(probe.hook, {"args": parse(probe.args)}, timeout=VERIFY_TIMEOUT)
    except TimeoutError:
        answer = Unknown(f"the probe gave no answer within {VERIFY_TIMEOUT:g} seconds")
    except Exception as error:  # whatever a hook raises, it did not say what happened
        answer = Unknown(f"the probe raised {type(error).__name__}: {error}")
    said: str = yield Transact(lambda: record(store, probe, answer))
    return said


def record(store: Store, probe: Probe, answer: Any) -> str:
    """Write a hook's answer as a decision. One that came too late changes nothing and is not an error."""
    if isinstance(answer, Landed):
        verdict = Verdict(DecisionKind.PROBE_LANDED, actors.hook(probe.tool), "The effect was found.", answer.result)
        said = "landed"
    elif isinstance(answer, NotLanded):
        why = "The effect was not found."
        verdict = Verdict(DecisionKind.PROBE_NOT_LANDED, actors.hook(probe.tool), why, why)
        said = "not_landed"
    else:
        why = answer.why if isinstance(answer, Unknown) else f"the probe answered {type(answer).__name__}"
        _record_unknown(store, probe, why)
        return "unknown"
    try:
        decisions.decide(store, probe.target, verdict)
    except DecisionRefused:
        return "unknown"
    except StorageError:
        raise  # the hook knew; the next resume asks it again
    except CheckpointsError as error:
        _record_unknown(store, probe, f"its answer could not be recorded: {error.detail}")
        return "unknown"
    return said


def _record_unknown(store: Store, probe: Probe, why: str) -> None:
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
            reason=why.encode("utf-8", "replace").decode().replace("\0", ""),
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
