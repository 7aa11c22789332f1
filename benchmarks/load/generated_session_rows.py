"""Rows of one generated session, as the library would have written them: chains, digests and keys are valid."""

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

from benchmarks.load.generated_session_sizes import SessionSize
from benchmarks.load.random_sentences import AGENTS, LABELS, PEOPLE, TOOLS, SentenceGenerator
from checkpoints.constants import SCHEMA_VERSION
from checkpoints.enums import (
    ActorKind,
    CallStatus,
    CostBasis,
    DecisionKind,
    InterruptReason,
    KeyPolicy,
    KeyScope,
    RunStatus,
    SessionStatus,
)
from checkpoints.formats import digests, to_canonical_json
from checkpoints.models import Checkpoint, Decision, Message, Run, Segment, Session, ToolCall, Workspace
from checkpoints.tools.idempotency import make_idempotency_key

#: Versions kept per session, as after retention.
_VERSIONS: Final = 4
_PACE: Final = timedelta(seconds=7)
_LONGEST_CALL: Final = timedelta(seconds=6)
#: Number of tokens, of which three quarters are input.
_TOKENS_OF_A_MESSAGE: Final = 420
_END_STATUS_SHARES: Final = (
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
#: Function that returns the next free key of a table.
NextKey = Callable[[type[Model]], int]


@dataclass
class GeneratedSession:
    """Unsaved rows of one session, in an order in which they can be written."""

    session: Session
    segment: Segment
    run: Run
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


#: Columns of a message row in `GeneratedSession.messages`.
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
def _get_default_attributes(model: type[Model]) -> dict[str, Any]:
    return vars(model())


def _build_unsaved_row(model: type[_Row], **columns: Any) -> _Row:
    """Create a row that is only copied, never saved: Django's constructor would take longer than everything else."""
    row = model.__new__(model)
    vars(row).update(_get_default_attributes(model), **columns)
    return row


def compute_session_duration(size: SessionSize) -> timedelta:
    """Return the time from the start of a session of that size to its last event."""
    return _PACE * size.messages + _LONGEST_CALL


class SessionBuilder:
    """Builder of the generated sessions of one workspace."""

    def __init__(self, workspace: Workspace, words: SentenceGenerator, seed: int, next_key: NextKey) -> None:
        self._workspace, self._words, self._seed, self._key = workspace, words, seed, next_key

    def build_session(self, number: int, size: SessionSize, began: datetime) -> GeneratedSession:
        random = Random(f"{self._seed} session {number}")
        generated = self._build_session_segment_and_run(random, number, size, began)
        call_positions = set(random.sample(range(1, size.messages - 1, 2), size.calls)) if size.calls else set()
        chain, now = digests.EMPTY_CHAIN, began
        version_lengths = {round(size.messages * (part + 1) / _VERSIONS) for part in range(_VERSIONS)} - {0}
        key, session, segment = self._key, generated.session.pk, generated.segment.pk
        for position in range(size.messages):
            now += _PACE
            call = self._build_and_add_call(random, generated, position, now) if position in call_positions else None
            role, body = self._build_message_role_and_body(random, position, number, now, call, generated)
            chain = digests.extend_hash_chain(chain, body)
            generated.messages.append(
                (key(Message), session, segment, position, f"m{position}", role, now, body, chain)
            )
            if position + 1 in version_lengths:
                generated.checkpoints.append(self._build_version(generated, position + 1, chain, now))
        self._set_end_of_session_run_and_last_call(generated, chain, now)
        return generated

    def _build_session_segment_and_run(
        self, random: Random, number: int, size: SessionSize, started_at: datetime
    ) -> GeneratedSession:
        random_number = random.random()
        status = next(status for limit, status in _END_STATUS_SHARES if random_number <= limit)
        session = _build_unsaved_row(
            Session,
            id=self._key(Session),
            workspace_id=self._workspace.pk,
            session_id=f"load-{self._seed}-{number}",
            agent=random.choice(AGENTS),
            title=self._words.generate_three_sentence_text(random, f"order-{self._seed}-{number}")[:120],
            status=status,
            labels=to_canonical_json([random.choice(LABELS)] if random.random() < 0.1 else []),
            key_space=f"{random.getrandbits(128):032x}",
            budget_spent_usd=Decimal(random.randint(1, 400) * size.messages).scaleb(-5),
            cost_basis=CostBasis.STATED,
            total_tokens=size.messages * _TOKENS_OF_A_MESSAGE,
            fence=1,
            created_at=started_at,
        )
        segment = _build_unsaved_row(Segment, id=self._key(Segment), session_id=session.pk, created_at=started_at)
        run = _build_unsaved_row(
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
            started_at=started_at,
        )
        return GeneratedSession(session, segment, run)

    def _build_message_role_and_body(
        self,
        random: Random,
        position: int,
        number: int,
        created_at: datetime,
        call: ToolCall | None,
        generated: GeneratedSession,
    ) -> tuple[str, str]:
        """Build role and body as canonical JSON text: the encoder would cost more than everything else."""
        role = "assistant" if position % 2 else "user"
        answered_call = generated.calls[-1] if generated.calls and generated.calls[-1].step == position - 1 else None
        if answered_call is not None:
            role = "tool"
            result = to_canonical_json(answered_call.result_text or "The connection was lost.")
            block = f'{{"call_id":"{answered_call.call_id}","content":{result},"kind":"tool_result"}}'
        else:
            text = to_canonical_json(self._words.generate_three_sentence_text(random, f"order-{self._seed}-{number}"))
            block = f'{{"kind":"text","text":{text}}}'
        if call is not None:
            block += f',{{"args":{call.args},"call_id":"{call.call_id}","kind":"tool_call","name":"{call.tool}"}}'
        return (
            role,
            f'{{"blocks":[{block}],"created_at":"{created_at.isoformat()}","id":"m{position}","role":"{role}"}}',
        )

    def _build_and_add_call(
        self, random: Random, generated: GeneratedSession, position: int, issued_at: datetime
    ) -> ToolCall:
        number = int(generated.session.session_id.rsplit("-", 1)[1])
        args, tool = {"order": number, "item": position}, random.choice(TOOLS)
        text, result = to_canonical_json(args), to_canonical_json(f"{tool} done: receipt re_{number:x}_{position:x}")
        failed = random.random() < 0.02
        key_parts = {"tool": tool, "args": args, "call_id": f"call_{position}", "step": position}
        key = make_idempotency_key(
            "once",
            KeyScope.SESSION,
            workspace=self._workspace.slug,
            key_space=generated.session.key_space,
            **key_parts,  # type: ignore[arg-type]
        )
        call = _build_unsaved_row(
            ToolCall,
            id=self._key(ToolCall),
            workspace_id=self._workspace.pk,
            session_id=generated.session.pk,
            run_id=generated.run.pk,
            step=position,
            call_id=f"call_{position}",
            tool=tool,
            args=text,
            args_digest=digests.digest_text(text),
            idempotency_key=key,
            key_policy=KeyPolicy.ONCE,
            answered_version=position + 1,
            side_effects="mutate",
            status=CallStatus.FAILED if failed else CallStatus.COMPLETED,
            result=result,
            result_digest=digests.digest_text(result),
            issued_at=issued_at,
            settled_at=issued_at + _LONGEST_CALL * random.uniform(0.003, 1),
        )
        if not failed and random.random() < 0.01:
            self._add_confirmation_of_interrupted_call(random, generated, call, issued_at)
        generated.calls.append(call)
        return call

    def _add_confirmation_of_interrupted_call(
        self, random: Random, generated: GeneratedSession, call: ToolCall, decided_at: datetime
    ) -> None:
        call.interrupted_at = decided_at
        call.revision = 3
        generated.decisions.append(
            _build_unsaved_row(
                Decision,
                id=self._key(Decision),
                session_id=generated.session.pk,
                tool_call_id=call.pk,
                kind=DecisionKind.CONFIRM_LANDED,
                actor_kind=ActorKind.PERSON,
                actor=random.choice(PEOPLE),
                reason="It stands in the books.",
                args_digest=call.args_digest,
                revision=2,
                created_at=decided_at,
            )
        )

    def _build_version(
        self, generated: GeneratedSession, length: int, chain: bytes, created_at: datetime
    ) -> Checkpoint:
        session = generated.session
        tokens = length * _TOKENS_OF_A_MESSAGE
        share = Decimal(tokens) / session.total_tokens
        return _build_unsaved_row(
            Checkpoint,
            id=self._key(Checkpoint),
            session_id=session.pk,
            version=length,
            run_id=generated.run.pk,
            segment_id=generated.segment.pk,
            length=length,
            chain=chain,
            budget_spent_usd=str(round(session.budget_spent_usd * share, 5)),
            usage=to_canonical_json({"input_tokens": tokens * 3 // 4, "output_tokens": tokens - tokens * 3 // 4}),
            schema_version=SCHEMA_VERSION,
            created_at=created_at,
        )

    def _set_end_of_session_run_and_last_call(
        self, generated: GeneratedSession, chain: bytes, ended_at: datetime
    ) -> None:
        session, run = generated.session, generated.run
        session.message_count = session.latest_version = len(generated.messages)
        session.head_segment_id, session.head_chain = generated.segment.pk, chain
        session.updated_at = ended_at
        run.heartbeat_at = run.lease_expires_at = run.ended_at = ended_at
        last_call = generated.calls[-1] if generated.calls else None
        if session.status != SessionStatus.NEEDS_REVIEW:
            return
        if last_call is None or last_call.revision > 1:
            session.status = SessionStatus.ACTIVE
            return
        last_call.status, last_call.reason, last_call.interrupted_at = (
            CallStatus.INTERRUPTED,
            InterruptReason.RUN_LOST,
            ended_at,
        )
        last_call.result, last_call.result_digest, last_call.settled_at, last_call.revision = None, "", None, 2


def iterate_rows_except_messages(built: GeneratedSession) -> Iterator[Model]:
    """Yield all rows but the messages, session first."""
    yield from (built.session, built.segment, built.run)
    yield from built.checkpoints
    yield from built.calls
    yield from built.decisions
