"""The rows of one generated session, as the library itself would have written them: chains, digests and keys hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db.models import Model

from benchmarks.load.plan import Size
from benchmarks.load.words import AGENTS, LABELS, PEOPLE, TOOLS, Words
from checkpoints.conf import SCHEMA_VERSION
from checkpoints.enums import (
    ActorKind,
    CallStatus,
    DecisionKind,
    InterruptReason,
    KeyPolicy,
    KeyScope,
    RunStatus,
    SessionStatus,
)
from checkpoints.models import Checkpoint, Decision, Message, Run, Segment, Session, ToolCall, Workspace
from checkpoints.serde import canonical, digests
from checkpoints.tools.idempotency import key_for

#: Versions that are kept of a session; retention has removed the others.
_VERSIONS: Final = 4
_PACE: Final = timedelta(seconds=7)
_LONGEST_CALL: Final = timedelta(seconds=6)
_ENDS: Final = (
    (0.900, SessionStatus.COMPLETED),
    (0.955, SessionStatus.FAILED),
    (0.990, SessionStatus.CANCELLED),
    (0.993, SessionStatus.ACTIVE),
    (0.996, SessionStatus.PAUSED),
    (0.998, SessionStatus.READY),
    (1.0, SessionStatus.NEEDS_REVIEW),
)
_RUN: Final = {
    SessionStatus.COMPLETED: RunStatus.COMPLETED,
    SessionStatus.FAILED: RunStatus.FAILED,
    SessionStatus.CANCELLED: RunStatus.CANCELLED,
    SessionStatus.NEEDS_REVIEW: RunStatus.LOST,
}

_Row = TypeVar("_Row", bound=Model)
#: The next free key of a table.
NextKey = Callable[[type[Model]], int]


@dataclass
class Built:
    """Unsaved rows, in the order in which they can be written."""

    session: Session
    segment: Segment
    run: Run
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


#: The columns of a message, as `Built.messages` has them.
MESSAGE_FIELDS: Final = (
    "id",
    "session",
    "segment",
    "position",
    "message_id",
    "role",
    "created_at",
    "body",
    "chain",
)


@cache
def _blank(model: type[Model]) -> dict[str, Any]:
    return vars(model())


def _made(model: type[_Row], **columns: Any) -> _Row:
    """A row to copy, never to save: what Django does for each new one would take longer than the rest of it."""
    row = model.__new__(model)
    vars(row).update(_blank(model), **columns)
    return row


def duration(size: Size) -> timedelta:
    """From the beginning of a session of that size until nothing happens in it any more."""
    return _PACE * size.messages + _LONGEST_CALL


class Builder:
    """Makes session after session of one workspace."""

    def __init__(self, workspace: Workspace, words: Words, seed: int, next_key: NextKey) -> None:
        self._workspace, self._words, self._seed, self._key = workspace, words, seed, next_key

    def build(self, number: int, size: Size, began: datetime) -> Built:
        random = Random(f"{self._seed} session {number}")
        built = self._head(random, number, size, began)
        asked = set(random.sample(range(1, size.messages - 1, 2), size.calls)) if size.calls else set()
        chain, at = digests.EMPTY_CHAIN, began
        kept = {round(size.messages * (part + 1) / _VERSIONS) for part in range(_VERSIONS)} - {0}
        key, session, segment = self._key, built.session.pk, built.segment.pk
        for position in range(size.messages):
            at += _PACE
            call = self._call(random, built, position, at) if position in asked else None
            role, body = self._message(random, position, number, at, call, built)
            chain = digests.link(chain, body)
            built.messages.append((key(Message), session, segment, position, f"m{position}", role, at, body, chain))
            if position + 1 in kept:
                built.checkpoints.append(self._version(built, position + 1, chain, at))
        self._finish(built, chain, at)
        return built

    def _head(self, random: Random, number: int, size: Size, began: datetime) -> Built:
        drawn = random.random()
        status = next(status for limit, status in _ENDS if drawn <= limit)
        session = _made(
            Session,
            id=self._key(Session),
            workspace_id=self._workspace.pk,
            session_id=f"load-{self._seed}-{number}",
            agent=random.choice(AGENTS),
            title=self._words.said(random, f"order-{self._seed}-{number}")[:120],
            status=status,
            labels=canonical([random.choice(LABELS)] if random.random() < 0.1 else []),
            key_space=f"{random.getrandbits(128):032x}",
            budget_spent_usd=Decimal(random.randint(1, 400) * size.messages).scaleb(-5),
            total_tokens=size.messages * 420,
            fence=1,
            created_at=began,
        )
        segment = _made(Segment, id=self._key(Segment), session_id=session.pk, created_at=began)
        run = _made(
            Run,
            id=UUID(int=random.getrandbits(128), version=4),
            session_id=session.pk,
            number=1,
            status=_RUN.get(status, RunStatus.RELEASED),
            fence=1,
            host=f"worker-{random.randint(1, 40)}",
            host_identity="load",
            pid=random.randint(100, 30_000),
            owner_token="load",  # noqa: S106 - a name, not a secret
            started_at=began,
        )
        return Built(session, segment, run)

    def _message(
        self, random: Random, position: int, number: int, at: datetime, call: ToolCall | None, built: Built
    ) -> tuple[str, str]:
        """Role and body, put together as canonical JSON: the encoder would cost more than everything else."""
        role = "assistant" if position % 2 else "user"
        answered = built.calls[-1] if built.calls and built.calls[-1].step == position - 1 else None
        if answered is not None:
            role = "tool"
            result = canonical(answered.result_text or "The connection was lost.")
            block = f'{{"call_id":"{answered.call_id}","content":{result},"kind":"tool_result"}}'
        else:
            text = canonical(self._words.said(random, f"order-{self._seed}-{number}"))
            block = f'{{"kind":"text","text":{text}}}'
        if call is not None:
            block += f',{{"args":{call.args},"call_id":"{call.call_id}","kind":"tool_call","name":"{call.tool}"}}'
        return role, f'{{"blocks":[{block}],"created_at":"{at.isoformat()}","id":"m{position}","role":"{role}"}}'

    def _call(self, random: Random, built: Built, position: int, at: datetime) -> ToolCall:
        number = int(built.session.session_id.rsplit("-", 1)[1])
        args, tool = {"order": number, "item": position}, random.choice(TOOLS)
        text, result = canonical(args), canonical(f"{tool} done: receipt re_{number:x}_{position:x}")
        failed = random.random() < 0.02
        place = {"tool": tool, "args": args, "call_id": f"call_{position}", "step": position}
        key = key_for(
            "once",
            KeyScope.SESSION,
            workspace=self._workspace.slug,
            key_space=built.session.key_space,
            **place,  # type: ignore[arg-type]
        )
        call = _made(
            ToolCall,
            id=self._key(ToolCall),
            workspace_id=self._workspace.pk,
            session_id=built.session.pk,
            run_id=built.run.pk,
            step=position,
            call_id=f"call_{position}",
            tool=tool,
            args=text,
            args_digest=digests.text_digest(text),
            idempotency_key=key,
            key_policy=KeyPolicy.ONCE,
            answered_version=position + 1,
            side_effects="mutate",
            status=CallStatus.FAILED if failed else CallStatus.COMPLETED,
            result=result,
            result_digest=digests.text_digest(result),
            issued_at=at,
            settled_at=at + _LONGEST_CALL * random.uniform(0.003, 1),
        )
        if not failed and random.random() < 0.01:
            self._decided(random, built, call, at)
        built.calls.append(call)
        return call

    def _decided(self, random: Random, built: Built, call: ToolCall, at: datetime) -> None:
        call.interrupted_at = at
        call.revision = 3
        built.decisions.append(
            _made(
                Decision,
                id=self._key(Decision),
                session_id=built.session.pk,
                tool_call_id=call.pk,
                kind=DecisionKind.CONFIRM_LANDED,
                actor_kind=ActorKind.PERSON,
                actor=random.choice(PEOPLE),
                reason="It stands in the books.",
                args_digest=call.args_digest,
                revision=2,
                created_at=at,
            )
        )

    def _version(self, built: Built, length: int, chain: bytes, at: datetime) -> Checkpoint:
        session = built.session
        return _made(
            Checkpoint,
            id=self._key(Checkpoint),
            session_id=session.pk,
            version=length,
            run_id=built.run.pk,
            segment_id=built.segment.pk,
            length=length,
            chain=chain,
            budget_spent_usd=str(session.budget_spent_usd),
            schema_version=SCHEMA_VERSION,
            created_at=at,
        )

    def _finish(self, built: Built, chain: bytes, at: datetime) -> None:
        session, run = built.session, built.run
        session.message_count = session.latest_version = len(built.messages)
        session.head_segment_id, session.head_chain = built.segment.pk, chain
        session.updated_at = at
        run.heartbeat_at = run.lease_expires_at = run.ended_at = at
        last = built.calls[-1] if built.calls else None
        if session.status != SessionStatus.NEEDS_REVIEW:
            return
        if last is None or last.revision > 1:
            session.status = SessionStatus.ACTIVE
            return
        last.status, last.reason, last.interrupted_at = CallStatus.INTERRUPTED, InterruptReason.RUN_LOST, at
        last.result, last.result_digest, last.settled_at, last.revision = None, "", None, 2


def rows_of(built: Built) -> Iterator[Model]:
    """Everything but the messages, session first."""
    yield from (built.session, built.segment, built.run)
    yield from built.checkpoints
    yield from built.calls
    yield from built.decisions
