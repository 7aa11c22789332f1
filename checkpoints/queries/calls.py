"""The log of tool calls, with everything that was decided about each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import NOT_RUN_CALL, UNDECIDED_CALL, CallStatus, DecisionKind
from checkpoints.ids import is_storable
from checkpoints.models import Decision, LateResult, ToolCall
from checkpoints.queries import keyset

PAGE = 50
#: Calls that are shown behind the end of a transcript.
OPEN_LIMIT = 100
#: Issued, and not settled by anybody.
OPEN_CALL = UNDECIDED_CALL | {CallStatus.APPROVED, CallStatus.ISSUED, CallStatus.RERUN_APPROVED}
_ALIVE: Final = ExpressionWrapper(Q(run__lease_expires_at__gt=Now()), output_field=BooleanField())


@dataclass(frozen=True, slots=True)
class Ruling:
    """One decision about a call. `evidence` is canonical JSON text; `final` is False for one voice of several."""

    kind: str
    actor: str
    actor_kind: str
    reason: str
    evidence: str | None
    result: str | None
    revision: int
    final: bool
    at: datetime

    @property
    def label(self) -> str:
        return str(DecisionKind(self.kind).label)


@dataclass(frozen=True, slots=True)
class Late:
    """A result that came too late to count."""

    success: bool
    result: str | None
    run_number: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One attempt at a call as the log has it. `args` is canonical JSON text; so many `approvals` a decision takes.

    `result` is None while there is none, and in lists, which do not read it.
    """

    pk: int
    call_id: str
    step: int
    attempt: int
    tool: str
    args: str
    sentence: str
    side_effects: tuple[str, ...]
    status: str
    reason: str
    result: str | None
    error_type: str
    replays: int
    revision: int
    approvals: int
    key_policy: str
    key_scope: str
    answered_version: int | None
    run_number: int
    run_alive: bool
    issued_at: datetime
    interrupted_at: datetime | None
    settled_at: datetime | None
    rulings: tuple[Ruling, ...]
    late: tuple[Late, ...]

    @property
    def duration(self) -> timedelta | None:
        """How long the tool ran; None where it did not, and where that is not known, as after an interruption."""
        if self.settled_at is None or self.interrupted_at is not None or self.idle:
            return None
        return max(self.settled_at - self.issued_at, timedelta())

    @property
    def idle(self) -> bool:
        """Whether the tool was not started: nobody has allowed it, or somebody answered in its place."""
        return self.status in NOT_RUN_CALL or any(
            made.kind == DecisionKind.RESPOND and made.final for made in self.rulings
        )

    @property
    def undecided(self) -> bool:
        return self.status in UNDECIDED_CALL

    @property
    def orphaned(self) -> bool:
        """Issued by a run that gives no sign of life: nobody is working on it, whatever its status says."""
        return self.status == CallStatus.ISSUED and not self.run_alive

    @property
    def open(self) -> bool:
        return self.status in OPEN_CALL


@dataclass(frozen=True, slots=True)
class CallFilter:
    """`key` is a whole call id or idempotency key."""

    status: CallStatus | None = None
    tool: str = ""
    key: str = ""

    def __bool__(self) -> bool:
        return bool(self.status or self.tool or self.key)

    def narrow(self, calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        if self.tool:
            calls = calls.filter(tool=self.tool.replace("\0", ""))
        if self.status:
            calls = calls.filter(status=self.status)
        if self.key:
            key = self.key.replace("\0", "")
            calls = calls.filter(Q(call_id=key) | Q(idempotency_key=key))
        return calls


@dataclass(frozen=True, slots=True)
class CallPage:
    """Calls with the newest first. `before` is where the next page starts; `tools` are those of this session."""

    rows: tuple[CallRecord, ...]
    before: int | None
    tools: tuple[str, ...]


def page(session_pk: int, wanted: CallFilter, *, before: int | None = None, size: int = PAGE) -> CallPage:
    logged = wanted.narrow(ToolCall.objects.filter(session=session_pk))
    if before is not None:
        logged = logged.filter(pk__lt=before)
    keys = list(logged.order_by(keyset.newest()).values_list("pk", flat=True)[: size + 1])
    shown = tuple(sorted(these(keys[:size]), key=attrgetter("pk"), reverse=True))
    return CallPage(shown, keys[size - 1] if len(keys) > size else None, tuple(sorted(set(_tools(session_pk)))))


def _tools(session: int) -> QuerySet[ToolCall, str]:
    return ToolCall.objects.filter(session=session).values_list("tool", flat=True).distinct()


def one(session_pk: int, pk: int) -> CallRecord | None:
    found = records(ToolCall.objects.filter(session=session_pk, pk=pk))
    return found[0] if found else None


def named(session_pk: int, call_ids: Iterable[str], *, since_step: int | None = None) -> tuple[CallRecord, ...]:
    """The calls with one of these ids; with `since_step` also the open ones and those of that step and later."""
    chosen = [call_id for call_id in call_ids if is_storable(call_id)]
    found = {call.pk: call for call in _named(session_pk, chosen)} if chosen else {}
    if since_step is not None:
        found |= {call.pk: call for call in _recent(session_pk, since_step)}
    return with_rulings(sorted(found.values(), key=attrgetter("step", "attempt", "pk")))


def _named(session: int, call_ids: list[str]) -> QuerySet[ToolCall]:
    return logged(ToolCall.objects.filter(session=session, call_id__in=call_ids))


def _recent(session: int, since_step: int) -> QuerySet[ToolCall]:
    """Not one query with those that are named: no index answers both."""
    found = ToolCall.objects.filter(Q(status__in=OPEN_CALL) | Q(step__gte=since_step), session=session)
    return logged(found.order_by(keyset.newest())[:OPEN_LIMIT])


def these(pks: list[int]) -> tuple[CallRecord, ...]:
    """The calls with these keys, in no order, without their results."""
    return with_rulings(list(_these(pks)) if pks else [], results=False)


def _these(pks: list[int]) -> QuerySet[ToolCall]:
    return logged(ToolCall.objects.filter(pk__in=pks)).defer("result")


def records(calls: QuerySet[ToolCall]) -> tuple[CallRecord, ...]:
    """With their results, each of which may have megabytes."""
    return with_rulings(list(logged(calls)))


def logged(calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """With what `with_rulings` needs of each."""
    return calls.select_related("run").annotate(run_alive=_ALIVE)


def with_rulings(rows: list[ToolCall], *, results: bool = True) -> tuple[CallRecord, ...]:
    """With `results` false those of the calls are None, and may have been left unread."""
    if not rows:
        return ()
    pks = [call.pk for call in rows]
    rulings, late = _rulings(pks), _late(pks)
    return tuple(
        _record(call, call.result_text if results else None, tuple(rulings[call.pk]), tuple(late[call.pk]))
        for call in rows
    )


def _record(call: ToolCall, result: str | None, rulings: tuple[Ruling, ...], late: tuple[Late, ...]) -> CallRecord:
    return CallRecord(
        pk=call.pk,
        call_id=call.call_id,
        step=call.step,
        attempt=call.attempt,
        tool=call.tool,
        args=call.args,
        sentence=call.sentence,
        side_effects=tuple(effect for effect in call.side_effects.split(",") if effect),
        status=call.status,
        reason=call.reason,
        result=result,
        error_type=call.error_type,
        replays=call.replay_count,
        revision=call.revision,
        approvals=call.approvals,
        key_policy=call.key_policy,
        key_scope=call.key_scope,
        answered_version=call.answered_version,
        run_number=call.run.number,
        run_alive=call.run.owning and call.run_alive,  # type: ignore[attr-defined]
        issued_at=call.issued_at,
        interrupted_at=call.interrupted_at,
        settled_at=call.settled_at,
        rulings=rulings,
        late=late,
    )


def _rulings(pks: list[int]) -> defaultdict[int, list[Ruling]]:
    found: defaultdict[int, list[Ruling]] = defaultdict(list)
    for decision in _decisions(pks):
        found[decision.tool_call_id].append(
            Ruling(
                kind=decision.kind,
                actor=decision.actor,
                actor_kind=decision.actor_kind,
                reason=decision.reason,
                evidence=decision.evidence,
                result=decision.result_text,
                revision=decision.revision,
                final=decision.final,
                at=decision.created_at,
            )
        )
    return found


def _decisions(calls: list[int]) -> QuerySet[Decision]:
    return Decision.objects.filter(tool_call__in=calls).order_by("pk")


def _late_results(calls: list[int]) -> QuerySet[LateResult]:
    return LateResult.objects.filter(tool_call__in=calls).select_related("run").order_by("pk")


def _late(pks: list[int]) -> defaultdict[int, list[Late]]:
    found: defaultdict[int, list[Late]] = defaultdict(list)
    for late in _late_results(pks):
        run_number = late.run.number if late.run else None
        found[late.tool_call_id].append(Late(late.success, late.result_text, run_number, late.received_at))
    return found
