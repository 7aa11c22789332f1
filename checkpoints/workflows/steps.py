"""What a step of a workflow is: a function, its arguments, a version; and how it is written in the journal."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Max

from checkpoints.conf import SCHEMA_VERSION
from checkpoints.enums import LIVE_CALL, CallStatus, DecisionKind, KeyScope
from checkpoints.exceptions import CheckpointCorrupted, InvalidArguments, SchemaFromFuture, StepIdentityChanged
from checkpoints.ids import MAX_LENGTH, checked
from checkpoints.models import Decision, Session, ToolCall, Workflow, WorkflowStep
from checkpoints.saving import calls, lookup
from checkpoints.saving.intents import TOOL_NAME_LENGTH
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Held, Store
from checkpoints.serde import digests
from checkpoints.serde.canonical import canonical, parse
from checkpoints.tools.idempotency import key_for
from checkpoints.tools.registry import Tool

_BY_PEOPLE_AND_HOOKS = frozenset({DecisionKind.CONFIRM_LANDED, DecisionKind.PROBE_LANDED, DecisionKind.RESPOND})


@dataclass(frozen=True)
class Asked:
    """A step as it is asked for. `args` is the canonical JSON text of the arguments by name."""

    step_id: str
    tool: Tool
    bound: inspect.BoundArguments
    args: str
    version: str

    @classmethod
    def of(
        cls,
        step_id: str,
        function: Callable[..., Any] | Tool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        version: object,
    ) -> Asked:
        """Raises `InvalidIdentifier`, `InvalidArguments`, `NotRepresentable`, `TooLarge`."""
        tool = function if isinstance(function, Tool) else Tool(_name(function), function)
        try:
            bound = _signature(tool.run).bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(tool.name, str(error)) from None
        return cls(
            checked("step id", step_id),
            tool,
            bound,
            canonical(dict(bound.arguments), "args"),
            checked("version", str(version)),
        )

    @property
    def args_digest(self) -> str:
        return digests.text_digest(self.args)

    def run(self, changed: str | None = None) -> Callable[[], Any]:
        """The function with its arguments, or with those that a person changed them to."""
        bound = self.bound if changed in {None, self.args} else self._rebound(parse(changed or "{}"))
        return partial(self.tool.run, *bound.args, **bound.kwargs)

    def _rebound(self, args: dict[str, Any]) -> inspect.BoundArguments:
        signature = self.bound.signature
        known = {name: args[name] for name in signature.parameters if name in args}
        if known.keys() != args.keys():
            raise InvalidArguments(self.tool.name, f"it takes {', '.join(signature.parameters) or 'none'}")
        given = inspect.BoundArguments(signature, known)
        try:
            return signature.bind(*given.args, **given.kwargs)
        except TypeError as error:
            raise InvalidArguments(self.tool.name, str(error)) from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:  # a function of C that does not tell
        return inspect.Signature(
            [
                inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
            ]
        )


def _name(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    named: str = getattr(function, "__qualname__", type(function).__qualname__)
    return named.rpartition("<locals>.")[2][-TOOL_NAME_LENGTH:]


def opened(store: Store, held: Held, workflow_id: str) -> Workflow:
    """The workflow's row, made where there is none, with its whole journal read and found in order.

    Raises `SchemaFromFuture` and `CheckpointCorrupted`; then nothing of the workflow may run.
    """
    checked("workflow id", workflow_id)
    with operation(store.using):
        workflow, _ = Workflow.objects.using(store.using).get_or_create(session_id=held.pk, workflow_id=workflow_id)
        steps = list(WorkflowStep.objects.using(store.using).filter(workflow=workflow))
        newest = max((step.schema_version for step in steps), default=0)
        if newest > SCHEMA_VERSION:
            raise SchemaFromFuture(held.session_id, newest, SCHEMA_VERSION)
        for call in _calls(store, held.pk, [step.idempotency_key for step in steps]).values():
            value_of(store, call)
    return workflow


def entered(store: Store, held: Held, workflow: Workflow, asked: Asked) -> WorkflowStep:
    """The step's line in the journal, written where there is none.

    What never happened may come back with another identity; what has, or may have, may not: `StepIdentityChanged`.
    """
    steps = WorkflowStep.objects.using(store.using).filter(workflow=workflow, step_id=asked.step_id)
    with operation(store.using):
        step = steps.first()
        if step is not None and not _changes(step, asked):
            return step
        with transaction.atomic(using=store.using):
            sessions = Session.objects.using(store.using).select_for_update()
            if not sessions.filter(pk=held.pk, fence=held.fence).exists():
                raise lookup.fence_lost(store, held)
            step = steps.first()
            if step is None:
                return _written(store, held, workflow, asked)
            if not _changes(step, asked):
                return step
            return _changed(store, held, workflow, step, asked)


def _changes(step: WorkflowStep, asked: Asked) -> list[str]:
    pairs = {
        "function": (step.function, asked.tool.name),
        "arguments": (step.args_digest, asked.args_digest),
        "version": (step.version, asked.version),
    }
    return [what for what, (before, now) in pairs.items() if before != now]


def _written(store: Store, held: Held, workflow: Workflow, asked: Asked) -> WorkflowStep:
    steps = WorkflowStep.objects.using(store.using).filter(workflow=workflow)
    last: int | None = steps.aggregate(last=Max("position"))["last"]
    return WorkflowStep.objects.using(store.using).create(
        session_id=held.pk,
        workflow=workflow,
        step_id=asked.step_id,
        position=0 if last is None else last + 1,
        schema_version=SCHEMA_VERSION,
        **_identity(store, held, workflow, asked, 1),
    )


def _changed(store: Store, held: Held, workflow: Workflow, step: WorkflowStep, asked: Asked) -> WorkflowStep:
    live = _calls(store, held.pk, [step.idempotency_key]).get(step.idempotency_key)
    if live is not None:
        raise StepIdentityChanged(
            held.session_id, workflow.workflow_id, step.step_id, _changes(step, asked), live.status
        )
    for field, value in _identity(store, held, workflow, asked, step.generation + 1).items():
        setattr(step, field, value)
    step.save(using=store.using)
    return step


def _identity(store: Store, held: Held, workflow: Workflow, asked: Asked, generation: int) -> dict[str, Any]:
    place = f"{workflow.workflow_id}/{asked.step_id}"
    if generation > 1:
        place = f"{place}#{generation}"
    return {
        "function": asked.tool.name,
        "version": asked.version,
        "args_digest": asked.args_digest,
        "generation": generation,
        "call_id": place if len(place) <= MAX_LENGTH else f"{place[:180]}…{digests.text_digest(place)}",
        "idempotency_key": _key(store, held, workflow, asked),
    }


def _key(store: Store, held: Held, workflow: Workflow, asked: Asked) -> str:
    """A step is an operation of its own, unless its tool says itself which calls are the same one everywhere."""
    tool = asked.tool
    if tool.scope == KeyScope.SESSION and not callable(tool.idempotency):
        return digests.key_digest("step", [store.workspace, held.key_space], workflow.workflow_id, asked.step_id)
    return key_for(
        tool.idempotency or "once",
        tool.scope,
        workspace=store.workspace,
        key_space=held.key_space,
        tool=tool.name,
        args=parse(asked.args),
        call_id=asked.step_id,
        step=None,
    )


def _calls(store: Store, session_pk: int, keys: list[str]) -> dict[str, ToolCall]:
    """The live call of each key, where there is one."""
    live = ToolCall.objects.using(store.using).filter(idempotency_key__in=keys, status__in=sorted(LIVE_CALL))
    here = live.filter(session_id=session_pk) | live.filter(
        workspace_id=store.workspace_id, key_scope=KeyScope.WORKSPACE
    )
    return {call.idempotency_key: call for call in here.select_related("session")}


def live_call(store: Store, held: Held, step: WorkflowStep) -> ToolCall | None:
    with operation(store.using, writes=False):
        return _calls(store, held.pk, [step.idempotency_key]).get(step.idempotency_key)


def value_of(store: Store, call: ToolCall) -> Any:
    """What a step's call returned, as JSON has it; None while there is no result.

    An answer that a person or a hook gave as text is taken for the object or list that it spells. Raises
    `CheckpointCorrupted`.
    """
    calls.require_intact(call)
    if call.result is None or call.status != CallStatus.COMPLETED:
        return None
    try:
        value = parse(call.result)
    except ValueError as error:
        what = f"the result of call {call.call_id!r}"
        raise CheckpointCorrupted(call.session.session_id, what, str(error)) from error
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["} and _was_told(store, call):
        with suppress(ValueError):
            return parse(value)
    return value


def _was_told(store: Store, call: ToolCall) -> bool:
    told = Decision.objects.using(store.using).filter(tool_call=call, kind__in=sorted(_BY_PEOPLE_AND_HOOKS), final=True)
    return told.exists()


def listed(store: Store, workflow: Workflow) -> list[dict[str, Any]]:
    """The steps of a workflow in the order in which they were first asked for, with what became of each."""
    with operation(store.using, writes=False):
        rows = list(WorkflowStep.objects.using(store.using).filter(workflow=workflow).order_by("position"))
        made = ToolCall.objects.using(store.using).filter(
            session_id=workflow.session_id, call_id__in=[step.call_id for step in rows]
        )
        attempts: dict[str, list[ToolCall]] = {}
        for call in made.select_related("session").order_by("step", "attempt"):
            attempts.setdefault(call.call_id, []).append(call)
        return [_as_dict(store, step, attempts.get(step.call_id, [])) for step in rows]


def _as_dict(store: Store, step: WorkflowStep, attempts: list[ToolCall]) -> dict[str, Any]:
    last = attempts[-1] if attempts else None
    return {
        "step_id": step.step_id,
        "function": step.function,
        "version": step.version,
        "call_id": step.call_id,
        "status": None if last is None else last.status,
        "attempts": len(attempts),
        "result": None if last is None else value_of(store, last),
        "started_at": None if last is None else last.issued_at.isoformat(),
    }
