"""Factories of rows for tests of pages, with a plain default for every argument."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from django.contrib.auth.models import User

from checkpoints.calls.decision_signatures import sign_decision
from checkpoints.calls.insert_signed_decision import DecisionTerms
from checkpoints.calls.verify_calls_against_decisions import ANSWERING_KINDS
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.db.clock import read_database_time
from checkpoints.enums import (
    ActorKind,
    CallStatus,
    CostBasis,
    DecisionKind,
    InterruptReason,
    Role,
    RunStatus,
    SessionStatus,
)
from checkpoints.formats import to_canonical_json
from checkpoints.formats.caller_argument_order import encode_argument_order
from checkpoints.formats.digests import EMPTY_CHAIN, digest_text, extend_hash_chain
from checkpoints.formats.shell_command_exit_codes import find_exit_code
from checkpoints.models import Checkpoint, Decision, LateResult, Message, Run, Segment, Session, ToolCall, Workspace
from harness_site.accounts.models import Membership

PASSWORD = "correct horse battery"
#: Time of the events in tests, long past so that pages display its date.
THEN = datetime(2025, 3, 4, 10, 42, 7, 118000, tzinfo=UTC)
#: Above the numbers that tests write out.
_numbers = count(100_001)


def make_workspace(*, slug: str = DEFAULT_WORKSPACE) -> Workspace:
    return Workspace.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def make_user(*, name: str = "alice", role: Role | None = Role.APPROVER, workspace: Workspace | None = None) -> User:
    """Create a user without the cost of password hashing; `role=None` creates one without a membership."""
    user = User.objects.create(username=name)
    if role is not None:
        Membership.objects.create(user=user, workspace=workspace or make_workspace(), role=role)
    return user


def make_session(
    *,
    session_id: str = "",
    workspace: Workspace | None = None,
    agent: str = "refund-desk",
    title: str = "Refund for a broken lamp",
    status: SessionStatus = SessionStatus.ACTIVE,
    **fields: Any,
) -> Session:
    """Create a session with an empty root segment as its head."""
    fields.setdefault("cost_basis", CostBasis.STATED)
    session = Session.objects.create(
        workspace=workspace or make_workspace(),
        session_id=session_id or f"order-{next(_numbers)}",
        agent=agent,
        title=title,
        status=status,
        **fields,
    )
    session.head_segment = Segment.objects.create(session=session)
    session.save(update_fields=["head_segment"])
    return session


def make_run(
    *,
    session: Session,
    number: int | None = None,
    status: RunStatus = RunStatus.RUNNING,
    owner: bool = True,
    lease: timedelta = timedelta(hours=1),
    host: str = "worker-3",
    pid: int = 4127,
    **fields: Any,
) -> Run:
    """Create a run, by default the owner of its session. `lease` counts from the real present."""
    run = Run.objects.create(
        session=session,
        number=number if number is not None else session.runs.count() + 1,
        status=status,
        fence=session.fence + 1,
        lease_expires_at=datetime.now(UTC) + lease,
        host=host,
        host_identity=f"{host}/boot",
        pid=pid,
        owner_token=f"token-{next(_numbers)}",
        **fields,
    )
    run.refresh_from_db()
    session.fence = run.fence
    session.owner = run if owner else None
    session.save(update_fields=["fence", "owner"])
    return run


def make_call(
    *,
    session: Session,
    run: Run | None = None,
    call_id: str = "call_9",
    tool: str = "refund_card",
    args: dict[str, Any] | None = None,
    status: CallStatus = CallStatus.INTERRUPTED,
    step: int = 4,
    side_effects: str = "mutate",
    result: str | None = None,
    **fields: Any,
) -> ToolCall:
    """Create a call; an interrupted one (the default) lost its run, unless `reason` says otherwise."""
    args_json = to_canonical_json(args if args is not None else {"order": 17, "amount": "40.00", "currency": "EUR"})
    args_digest = digest_text(args_json)
    result_json = None if result is None else to_canonical_json(result)
    if status == CallStatus.INTERRUPTED:
        fields.setdefault("reason", InterruptReason.RUN_LOST)
        fields.setdefault("interrupted_at", THEN + timedelta(seconds=3.4))
    call = ToolCall.objects.create(
        workspace=session.workspace,
        session=session,
        run=run or session.owner or make_run(session=session),
        step=step,
        call_id=call_id,
        tool=tool,
        args=args_json,
        args_digest=args_digest,
        args_order=encode_argument_order(args),
        idempotency_key=fields.pop("idempotency_key", f"key-{next(_numbers)}"),
        side_effects=side_effects,
        status=status,
        result=result_json,
        result_digest="" if result_json is None else digest_text(result_json),
        exit_code=find_exit_code(tool, result_json),
        issued_at=fields.pop("issued_at", THEN),
        **fields,
    )
    call.refresh_from_db()
    return call


def make_decision(
    *,
    call: ToolCall,
    kind: DecisionKind = DecisionKind.CONFIRM_LANDED,
    actor: str = "alice",
    actor_kind: ActorKind = ActorKind.PERSON,
    reason: str = "Seen in the bank's export.",
    result: str | None = None,
    **fields: Any,
) -> Decision:
    """Make a decision, signed if this process signs decisions."""
    decision = Decision(
        session=call.session,
        tool_call=call,
        kind=kind,
        actor=actor,
        actor_kind=actor_kind,
        reason=reason,
        result=(call.result if kind in ANSWERING_KINDS else None) if result is None else to_canonical_json(result),
        args_digest=call.args_digest,
        revision=fields.pop("revision", call.revision),
        **{"created_at": read_database_time("default"), **fields},
    )
    votes = Decision.objects.filter(tool_call=call, final=False).values_list("actor", flat=True)
    terms = DecisionTerms(call.approvals, sorted({actor, *votes}), call.asked_args_digest)
    sign_decision(decision, terms.to_json())
    decision.save(force_insert=True)
    decision.refresh_from_db()
    return decision


def make_late_result(*, call: ToolCall, result: str = "refund re_81f3 settled", success: bool = True) -> LateResult:
    late = LateResult.objects.create(
        session=call.session, tool_call=call, run=call.run, success=success, result=to_canonical_json(result)
    )
    late.refresh_from_db()
    return late


def make_message(
    *,
    session: Session,
    role: str = "user",
    text: str = "The lamp arrived broken.",
    blocks: list[dict[str, Any]] | None = None,
    body: dict[str, Any] | None = None,
    segment: Segment | None = None,
    created_at: datetime = THEN,
) -> Message:
    """Create the next message of a session, from the whole stored `body`, or from `blocks` or `text`."""
    segment = segment or session.head_segment
    assert segment is not None
    last_message = segment.messages.order_by("-position").first()
    position = segment.parent_length if last_message is None else last_message.position + 1
    if body is None:
        content = blocks if blocks is not None else [{"kind": "text", "text": text}]
        body = {"id": f"m{position}", "role": role, "created_at": created_at.isoformat(), "blocks": content}
    message = Message.objects.create(
        session=session,
        segment=segment,
        position=position,
        message_id=str(body.get("id", "")),
        role=str(body.get("role", role)),
        created_at=created_at,
        body=to_canonical_json(body),
        chain=extend_hash_chain(_get_chain_at_length(segment, position), to_canonical_json(body)),
    )
    if segment == session.head_segment:
        session.message_count = position + 1
        session.head_chain = message.chain
        session.save(update_fields=["message_count", "head_chain"])
    return message


def make_messages(*, session: Session, texts: Iterable[str]) -> list[Message]:
    """Create a conversation with user and assistant in turns."""
    return [
        make_message(session=session, role="assistant" if index % 2 else "user", text=text)
        for index, text in enumerate(texts)
    ]


def make_checkpoint(
    *,
    session: Session,
    run: Run | None = None,
    length: int | None = None,
    plan: dict[str, Any] | None = None,
    budget_spent_usd: str = "0.031",
    segment: Segment | None = None,
    **fields: Any,
) -> Checkpoint:
    """Create the next version of a session over its first `length` messages (default: all)."""
    session.latest_version += 1
    session.save(update_fields=["latest_version"])
    segment = segment or session.head_segment
    assert segment is not None
    length = session.message_count if length is None else length
    checkpoint = Checkpoint.objects.create(
        session=session,
        version=session.latest_version,
        run=run or session.owner or make_run(session=session),
        segment=segment,
        length=length,
        chain=_get_chain_at_length(segment, length),
        plan=None if plan is None else to_canonical_json(plan),
        budget_spent_usd=budget_spent_usd,
        schema_version=1,
        **fields,
    )
    checkpoint.refresh_from_db()
    return checkpoint


def _get_chain_at_length(segment: Segment, length: int) -> bytes:
    """Return the chain after the first `length` messages of the transcript that ends in `segment`."""
    while segment.parent is not None and length <= segment.parent_length:
        segment = segment.parent
    message = segment.messages.filter(position=length - 1).first()
    return bytes(message.chain) if message else EMPTY_CHAIN
