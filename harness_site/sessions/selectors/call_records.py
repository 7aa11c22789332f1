"""Tool calls as logged, with their decisions and late results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Final

from django.db.models import BooleanField, Case, Exists, ExpressionWrapper, F, Max, Min, OuterRef, Q, QuerySet, When
from django.db.models.functions import Length, Now

from checkpoints.calls.tool_result_and_verify_answer_types import LANDED_WITHOUT_RESULT
from checkpoints.db import clock, keyset_pagination
from checkpoints.enums import (
    IMPORTED_MARK,
    NOT_RUN_CALL_STATUSES,
    OPEN_CALL_STATUSES,
    OWNING_RUN_STATUSES,
    UNDECIDED_CALL_STATUSES,
    CallStatus,
    DecisionKind,
    InterruptReason,
)
from checkpoints.formats.caller_argument_order import restore_argument_order_in_json
from checkpoints.formats.canonical_json import decode_json_string_or_return_text
from checkpoints.formats.shell_command_exit_codes import split_output_and_exit_code
from checkpoints.formats.storable_text import is_storable_text
from checkpoints.models import Decision, LateResult, Session, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from checkpoints.models.run import FORK_RUN_NUMBER
from checkpoints.models.tool_calls_and_results import FAILED_COMMANDS, is_failed_command
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.core.unreadable_rows_and_quarantine import (
    UnreadableRecord,
    call_or_use_fallback,
    convert_rows_or_mark_unreadable,
    filter_out_unreadable_records,
)
from harness_site.sessions.selectors import calls_of_original_after_fork

PAGE = 30
#: Maximum number of open calls displayed after the end of a transcript.
OPEN_LIMIT = 100
#: Longer results are not loaded to say that, or why, a call failed (characters).
_LONGEST_ERROR: Final = 100_000
_HAS_RESULT_AS_ERROR: Final = Q(status=CallStatus.FAILED, error_type="") | FAILED_COMMANDS
_ALIVE: Final = ExpressionWrapper(
    Q(run__status__in=sorted(OWNING_RUN_STATUSES), run__lease_expires_at__gt=Now()), output_field=BooleanField()
)
#: Decisions that say what became of a call whose outcome was unknown.
_KINDS_AFTER_INTERRUPTION: Final = frozenset(
    {
        DecisionKind.CONFIRM_LANDED,
        DecisionKind.MARK_FAILED,
        DecisionKind.APPROVE_RERUN,
        DecisionKind.PROBE_LANDED,
        DecisionKind.PROBE_NOT_LANDED,
    }
)


@dataclass(frozen=True, slots=True)
class CallDecision:
    """One decision about a call. `evidence` is canonical JSON text; `final` is False if more people have to agree."""

    kind: str
    actor: str
    actor_kind: str
    reason: str
    evidence: str | None
    result: str | None
    revision: int
    final: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class LateCallResult:
    """A result received after the call was settled otherwise."""

    success: bool
    result: str | None
    run_number: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One logged attempt at a call. `args` is canonical JSON text; `approvals` is the number of people who have to
    agree.

    `result` is None without a result, and in lists, which do not load it. `error` says why the call failed or was
    interrupted: the error that the tool raised, else the result of a failed call, or the output of a command with an
    exit code of a failure. It is empty if nothing says it.
    """

    pk: int
    call_id: str
    step: int
    attempt: int
    tool: str
    args: str
    args_order: str
    sentence: str
    side_effects: tuple[str, ...]
    status: str
    reason: str
    result: str | None
    exit_code: int | None
    error_type: str
    error_message: str
    error: str
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
    #: Latest time of a decision; None if none is awaited, or if there is no limit.
    deadline: datetime | None
    #: Whether a framework's interrupt asks for a value, as `ToolCall.is_question` tells.
    is_question: bool
    #: Whether the arguments differ from those that the agent asked for, as `ToolCall.has_changed_args` tells.
    has_changed_args: bool
    #: Whether the transcript that a fork has copied asks for the call, but has no result of it.
    is_asked_before_fork: bool
    rulings: tuple[CallDecision, ...]
    late: tuple[LateCallResult, ...]

    @property
    def args_json_in_caller_order(self) -> str:
        """Return the arguments as JSON text in the order of the caller."""
        return restore_argument_order_in_json(self.args, self.args_order)

    @property
    def args_json_before_edits(self) -> str:
        """Return the arguments as JSON text, as they were before people changed them."""
        edit = next((ruling for ruling in self.rulings if ruling.kind == DecisionKind.EDIT), None)
        before = None if edit is None else get_args_json_before_edit(edit.evidence)
        return before or self.args_json_in_caller_order

    @property
    def duration(self) -> timedelta | None:
        """Return how long the tool ran.

        None if it did not run or the end is unknown: after an interruption, of a discarded call, or in a transcript
        that gives one time for both. It is 0 for a call that was faster than the clock tells.
        """
        if self.settled_at is None or self.interrupted_at is not None:
            return None
        if self.is_imported and self.settled_at == self.issued_at:
            return None
        if self.has_not_run or self.is_discarded:
            return None
        return max(self.settled_at - self.issued_at, timedelta())

    @property
    def is_overdue(self) -> bool:
        """Return whether only an admin can decide the call, because its deadline has passed."""
        return self.deadline is not None and self.deadline < clock.now()

    @property
    def has_not_run(self) -> bool:
        """Return whether the tool was not started: not approved yet, or answered by a person instead."""
        return (
            self.is_question
            or self.status in NOT_RUN_CALL_STATUSES
            or self.last_final_decision_kind == DecisionKind.RESPOND
        )

    @property
    def last_final_decision_kind(self) -> str | None:
        """Return the kind of the last final decision, or None without one."""
        return next((decision.kind for decision in reversed(self.rulings) if decision.final), None)

    @property
    def has_lost_its_run(self) -> bool:
        """Return whether the run of the call was lost before the outcome was recorded."""
        return self.reason == InterruptReason.RUN_LOST and self.interrupted_at is not None

    @property
    def decision_after_interruption(self) -> CallDecision | None:
        """Return the final decision that says what became of an interrupted call.

        None without one, or if it was withdrawn. Decisions about whether the call may run are left out.
        """
        kinds = _KINDS_AFTER_INTERRUPTION | {DecisionKind.WITHDRAW}
        last = next(
            (decision for decision in reversed(self.rulings) if decision.final and decision.kind in kinds), None
        )
        return None if last is None or last.kind == DecisionKind.WITHDRAW else last

    @property
    def has_decision_with_late_result(self) -> bool:
        """Return whether the decision about the interrupted call took over a result that came too late."""
        decision = self.decision_after_interruption
        return (
            decision is not None
            and decision.result is not None
            and decision.result in {late.result for late in self.late}
        )

    @property
    def has_decision_with_written_result(self) -> bool:
        """Return whether the decision about the interrupted call has a result of its own."""
        decision = self.decision_after_interruption
        return decision is not None and bool(decision.result) and decision.result != LANDED_WITHOUT_RESULT

    @property
    def is_copied(self) -> bool:
        """Return whether a fork has copied the call from its original: no run of the fork has started it."""
        return self.run_number == FORK_RUN_NUMBER and self.step < 0

    @property
    def is_copied_after_fork(self) -> bool:
        """Return whether only the original of a fork made the call, as `build_condition_of_calls_after_fork`."""
        return self.is_copied_without_result and not self.is_asked_before_fork

    @property
    def has_result_of_original_only(self) -> bool:
        """Return whether the transcript that a fork has copied asks for the call, and only the original saved its
        result."""
        return self.is_copied_without_result and self.is_asked_before_fork

    @property
    def is_copied_without_result(self) -> bool:
        """Return whether the copied transcript of a fork has no result of the call, as `COPIED_CALLS_AFTER_FORK`."""
        is_unanswered = self.status == CallStatus.COMPLETED and self.answered_version is None
        return self.is_copied and is_unanswered and not self.is_imported

    @property
    def is_imported(self) -> bool:
        """Return whether the call comes from the transcript of another program, not from a run of this store."""
        return self.side_effects == (IMPORTED_MARK,)

    @property
    def is_discarded(self) -> bool:
        """Return whether nobody waits for a result any more, though none was recorded."""
        return self.status == CallStatus.DISCARDED

    @property
    def is_failed_command(self) -> bool:
        """Return whether the tool ran a shell command that failed, and returned its output."""
        return is_failed_command(self.status, self.exit_code)

    @property
    def is_undecided(self) -> bool:
        return self.status in UNDECIDED_CALL_STATUSES

    @property
    def is_left_running_by_ended_run(self) -> bool:
        """Return whether the run that issued the call is no longer alive, so that nobody is working on it."""
        return self.status == CallStatus.ISSUED and not self.run_alive

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_CALL_STATUSES


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Filters of the call log. `key` is a complete call id or idempotency key.

    A shell command that failed is among the failed calls, although its tool completed them, and not among the others.
    """

    status: CallStatus | None = None
    tool: str = ""
    key: str = ""

    def __bool__(self) -> bool:
        return bool(self.status or self.tool or self.key)

    def filter_calls(self, calls: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
        if self.tool:
            calls = calls.filter(tool=self.tool.replace("\0", ""))
        if self.status == CallStatus.FAILED:
            calls = calls.filter(Q(status=CallStatus.FAILED) | FAILED_COMMANDS)
        elif self.status == CallStatus.COMPLETED:
            calls = calls.filter(Q(exit_code=None) | Q(exit_code=0), status=CallStatus.COMPLETED)
        elif self.status:
            calls = calls.filter(status=self.status)
        if self.key:
            key = self.key.replace("\0", "")
            calls = calls.filter(Q(call_id=key) | Q(idempotency_key=key))
        return calls


@dataclass(frozen=True, slots=True)
class CallNeighbours:
    """Primary keys of the calls logged directly before and after one call of the same session."""

    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True)
class CallPage:
    """A page of calls, newest first. `before` is the cursor of the next page."""

    rows: tuple[CallRecord, ...] = ()
    before: int | None = None


def load_session_call_page(
    session_pk: int,
    filters: CallFilter,
    *,
    before: int | None = None,
    size: int = PAGE,
    may_have_copied_calls: bool = True,
) -> CallPage:
    """Load calls of a session, without those that only the original of a fork has made."""
    after_fork = calls_of_original_after_fork.build_condition_of_calls_after_fork(
        session_pk, may_have_copied_calls=may_have_copied_calls
    )
    return _load_call_page(ToolCall.objects.filter(~after_fork, session=session_pk), filters, before, size)


def load_page_of_calls_copied_after_fork(
    fork_pk: int, filters: CallFilter, *, before: int | None = None, size: int = PAGE
) -> CallPage:
    """Load calls that the original of a fork made after the forked version.

    In the fork, they have no status, so a filter by status selects none of them.
    """
    if filters.status:
        return CallPage()
    after_fork = calls_of_original_after_fork.build_condition_of_calls_after_fork(fork_pk)
    return _load_call_page(ToolCall.objects.filter(after_fork, session=fork_pk), filters, before, size)


def count_calls_copied_after_fork(fork_pk: int, filters: CallFilter) -> int:
    """Count the calls of all pages of `load_page_of_calls_copied_after_fork`."""
    if filters.status:
        return 0
    after_fork = calls_of_original_after_fork.build_condition_of_calls_after_fork(fork_pk)
    return filters.filter_calls(ToolCall.objects.filter(after_fork, session=fork_pk)).count()


def _load_call_page(calls: QuerySet[ToolCall], filters: CallFilter, before: int | None, size: int) -> CallPage:
    calls = filters.filter_calls(calls)
    if before is not None:
        calls = calls.filter(pk__lt=before)
    keys = list(
        calls.order_by(keyset_pagination.build_newest_first_ordering()).values_list("pk", flat=True)[: size + 1]
    )
    records = tuple(sorted(load_calls_with_pks_without_results(keys[:size]), key=attrgetter("pk"), reverse=True))
    return CallPage(records, keys[size - 1] if len(keys) > size else None)


def list_tool_names(session_pk: int) -> list[str]:
    """List the names of the tools that a session has calls of, in the order of the alphabet."""
    return sorted(set(_query_tool_names(session_pk)))


def _query_tool_names(session: int) -> QuerySet[ToolCall, str]:
    return ToolCall.objects.filter(session=session).values_list("tool", flat=True).distinct()


def load_call_record(session_pk: int, pk: int) -> CallRecord | None:
    records = load_decisions_and_build_verified_calls(list(select_call_records().filter(session=session_pk, pk=pk)))
    return records[0] if records else None


def load_argument_orders_of_callers(session_pk: int, call_ids: Collection[str]) -> dict[tuple[str, str], str]:
    """Load the orders in which callers wrote the arguments of calls, by id and tool; one query, none without ids.

    Calls whose arguments are stored in that order are left out.
    """
    if not call_ids:
        return {}
    calls = ToolCall.objects.filter(session=session_pk, call_id__in=sorted(call_ids)).exclude(args_order="")
    return {(call_id, tool): order for call_id, tool, order in calls.values_list("call_id", "tool", "args_order")}


def find_previous_and_next_call(session_pk: int, pk: int) -> CallNeighbours:
    """Find the calls of a session that were logged directly before and after one of its calls, in one query."""
    calls = ToolCall.objects.filter(session=session_pk)
    return CallNeighbours(
        **calls.aggregate(previous=Max("pk", filter=Q(pk__lt=pk)), next=Min("pk", filter=Q(pk__gt=pk)))
    )


def load_calls_with_ids_and_open_or_since_step(
    session_pk: int, call_ids: Iterable[str], *, since_step: int | None = None
) -> tuple[CallRecord, ...]:
    """Load the calls with these ids; with `since_step` also the open ones and those issued at that step or later."""
    storable_ids = [call_id for call_id in call_ids if is_storable_text(call_id)]
    pks = [] if since_step is None else list(_query_keys_of_calls_open_or_since_step(session_pk, since_step))
    calls = list(_query_calls_with_ids_or_pks(session_pk, storable_ids, pks)) if storable_ids or pks else []
    return load_decisions_and_build_verified_calls(sorted(calls, key=attrgetter("step", "attempt", "pk")))


def _query_calls_with_ids_or_pks(session: int, call_ids: list[str], pks: list[int]) -> QuerySet[ToolCall]:
    wanted = Q(session=session, call_id__in=call_ids) if call_ids else Q(pk__in=pks)
    return select_call_records().filter(wanted | Q(pk__in=pks) if pks else wanted)


def _query_keys_of_calls_open_or_since_step(session: int, since_step: int) -> QuerySet[ToolCall, int]:
    """Query the newest of the open calls and those since a step, as a union, because no index covers both conditions.

    Most sessions have none. Imported calls are left out: they come from the transcript, so there is none that it does
    not contain yet.
    """
    keys = _select_pks_of_calls_not_imported().filter(session=session)
    return (
        keys.filter(status__in=OPEN_CALL_STATUSES).union(keys.filter(step__gte=since_step)).order_by("-pk")[:OPEN_LIMIT]
    )


@cache
def _select_pks_of_calls_not_imported() -> QuerySet[ToolCall, int]:
    return ToolCall.objects.exclude(side_effects=IMPORTED_MARK).values_list("pk", flat=True)


def load_replayed_calls_by_tool_and_digest(
    session_pk: int, args_digests: Iterable[str]
) -> dict[tuple[str, str], list[CallRecord]]:
    """Load the calls with one of these digests of arguments that answered a later call, by tool and digest.

    The later call may have another id: a model that is asked again after a crash gives its call a new one.
    """
    asked_for = set(args_digests)
    found = list(_query_replayed_calls_by_argument_digest(session_pk, sorted(asked_for))) if asked_for else []
    calls: defaultdict[tuple[str, str], list[CallRecord]] = defaultdict(list)
    for row, record in zip(found, load_decisions_and_build_verified_calls(found), strict=True):
        for digest in {row.args_digest, row.asked_args_digest} & asked_for:
            calls[row.tool, digest].append(record)
    return calls


def _query_replayed_calls_by_argument_digest(session: int, digests: list[str]) -> QuerySet[ToolCall]:
    asked = Q(args_digest__in=digests) | Q(asked_args_digest__in=digests)
    calls = select_call_records().filter(asked, session=session, replay_count__gt=0)
    return calls.order_by("step", "attempt", "pk")[:OPEN_LIMIT]


def load_calls_with_pks_without_results(pks: list[int]) -> tuple[CallRecord, ...]:
    """Load the calls with these keys without their results, in no particular order."""
    return load_decisions_and_build_verified_calls(list(_query_calls_by_pk(pks)) if pks else [], results=False)


def load_readable_calls_with_pks_without_results(pks: list[int]) -> list[CallRecord]:
    """Load the calls with these keys, without those that were altered or cannot be read, in no particular order."""
    if not pks:
        return []
    return filter_out_unreadable_records(build_calls_with_decisions_or_mark_unreadable(list(_query_calls_by_pk(pks))))


def _query_calls_by_pk(pks: list[int]) -> QuerySet[ToolCall]:
    return select_call_records_without_results().filter(pk__in=pks)


@cache
def select_call_records() -> QuerySet[ToolCall]:
    """Select all calls with the columns that `load_decisions_and_build_verified_calls` needs.

    Results are among them, which may be megabytes each.
    """
    return ToolCall.objects.annotate(
        run_number=F("run__number"),
        run_alive=_ALIVE,
        has_decisions=Exists(Decision.objects.filter(tool_call=OuterRef("pk"))),
        has_late_results=Exists(LateResult.objects.filter(tool_call=OuterRef("pk"))),
    )


def select_call_records_without_results() -> QuerySet[ToolCall]:
    """Select all calls with the columns of records without results; a seal covers the result, which is read only for
    that."""
    short_error = Case(When(_HAS_RESULT_AS_ERROR & Q(result_size__lte=_LONGEST_ERROR), then=F("result")))
    calls = select_call_records().alias(result_size=Length("result")).annotate(short_error=short_error)
    return calls.defer("result") if get_seal_keys() is None else calls


def load_decisions_and_build_verified_calls(rows: list[ToolCall], *, results: bool = True) -> tuple[CallRecord, ...]:
    """Build records with the decisions of each call. Raises `IntegrityError` for a row that was altered.

    If `results` is False, the result of each record is None and may not have been loaded.
    """
    if not rows:
        return ()
    decisions, late_results = _load_decisions_and_late_results_by_call(rows)
    asked = _load_pks_of_calls_asked_before_forks(rows)
    return tuple(
        _build_verified_call_record(call, decisions[call.pk], late_results[call.pk], asked, results=results)
        for call in rows
    )


def _load_pks_of_calls_asked_before_forks(rows: Iterable[ToolCall]) -> frozenset[int]:
    """Load the keys of calls for `CallRecord.is_asked_before_fork`; no query without copied calls."""
    forks = {
        call.session_id
        for call in rows
        if call.is_copied and call.status == CallStatus.COMPLETED and call.answered_version is None
    }
    pks = (calls_of_original_after_fork.load_pks_of_calls_asked_before_fork(fork_pk) for fork_pk in sorted(forks))
    return frozenset[int]().union(*pks)


def load_step_shift_of_copied_calls(fork: Session) -> int | None:
    """Load by how much the steps of the calls that a fork has copied are lower than those of the originals.

    None without such calls, and if the original of the newest one is no longer stored.
    """
    copies = ToolCall.objects.filter(session=fork.pk, step__lt=0).order_by("-step", "-pk")
    copy = copies.only("step", "call_id", "attempt", "issued_at").first()
    if copy is None or fork.forked_from_id is None:
        return None
    originals = ToolCall.objects.filter(session=fork.forked_from_id, call_id=copy.call_id, attempt=copy.attempt)
    # The times are compared here, because SQLite has texts of them with different numbers of digits.
    steps = [step for step, at in originals.values_list("step", "issued_at") if at == copy.issued_at]
    return max(steps) - copy.step if steps else None


def load_run_numbers_of_originals(fork: Session, records: Iterable[CallRecord]) -> dict[int, int]:
    """Load which run of the original made the calls that a fork has copied, by key of the copy.

    A call that the original has itself copied is left out, as is one that it no longer has.
    """
    copies = {(record.call_id, record.attempt, record.issued_at): record.pk for record in records if record.is_copied}
    if not copies or fork.forked_from_id is None:
        return {}
    originals = ToolCall.objects.filter(
        session=fork.forked_from_id,
        call_id__in={call_id for call_id, _attempt, _issued_at in copies},
        run__number__gt=FORK_RUN_NUMBER,
    ).values_list("call_id", "attempt", "issued_at", "run__number")
    numbers = {(call_id, attempt, issued_at): number for call_id, attempt, issued_at, number in originals}
    return {pk: numbers[key] for key, pk in copies.items() if key in numbers}


def build_calls_with_decisions_or_mark_unreadable(
    rows: Sequence[ToolCall | UnreadableRecord],
) -> list[CallRecord | UnreadableRecord]:
    """Build records without results; a call that was altered, or has an altered decision, becomes a placeholder."""
    readable = filter_out_unreadable_records(rows)
    loaded = call_or_use_fallback(
        "A decision or late result of a call", lambda: _load_decisions_and_late_results_by_call(readable), None
    )

    asked = _load_pks_of_calls_asked_before_forks(readable)

    def build_record(call: ToolCall) -> CallRecord:
        decisions, late_results = _load_decisions_and_late_results_by_call([call]) if loaded is None else loaded
        return _build_verified_call_record(call, decisions[call.pk], late_results[call.pk], asked, results=False)

    return convert_rows_or_mark_unreadable(rows, build_record, "call", attrgetter("session_id"))


def _build_verified_call_record(
    call: ToolCall,
    decisions: list[Decision],
    late_results: list[LateResult],
    asked_before_forks: frozenset[int],
    *,
    results: bool,
) -> CallRecord:
    row_seals.verify_rows((call, *decisions, *late_results))
    return CallRecord(
        pk=call.pk,
        call_id=call.call_id,
        step=call.step,
        attempt=call.attempt,
        tool=call.tool,
        args=call.args,
        args_order=call.args_order,
        sentence=call.sentence,
        side_effects=tuple(effect for effect in call.side_effects.split(",") if effect),
        status=call.status,
        reason=call.reason,
        result=call.result_text if results else None,
        exit_code=call.exit_code,
        error_type=call.error_type,
        error_message=call.error_message,
        error=_get_error_text_or_empty(call, results=results),
        replays=call.replay_count,
        revision=call.revision,
        approvals=call.approvals,
        key_policy=call.key_policy,
        key_scope=call.key_scope,
        answered_version=call.answered_version,
        run_number=call.run_number,  # type: ignore[attr-defined]
        run_alive=bool(call.run_alive),  # type: ignore[attr-defined]
        issued_at=call.issued_at,
        interrupted_at=call.interrupted_at,
        settled_at=call.settled_at,
        deadline=call.deadline,
        is_question=call.is_question,
        has_changed_args=call.has_changed_args,
        is_asked_before_fork=call.pk in asked_before_forks,
        rulings=tuple(map(_build_call_decision, decisions)),
        late=tuple(map(_build_late_call_result, late_results)),
    )


def _get_error_text_or_empty(call: ToolCall, *, results: bool) -> str:
    is_command = is_failed_command(call.status, call.exit_code)
    if not is_command and call.status not in {CallStatus.FAILED, CallStatus.INTERRUPTED}:
        return ""
    if call.error_type and not is_command:
        return f"{call.error_type}: {call.error_message}" if call.error_message else call.error_type
    if call.status == CallStatus.INTERRUPTED:
        return ""
    stored: str | None = call.result if results else call.short_error  # type: ignore[attr-defined]
    text = decode_json_string_or_return_text(stored) if stored else ""
    return split_output_and_exit_code(text)[0] if is_command else text


def _load_decisions_and_late_results_by_call(
    rows: list[ToolCall],
) -> tuple[defaultdict[int, list[Decision]], defaultdict[int, list[LateResult]]]:
    """Load the decisions and late results of calls in the order in which they were recorded, by the key of the call.

    Most calls have none, and most pages need no query for them.
    """
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    if decided := [call.pk for call in rows if call.has_decisions]:  # type: ignore[attr-defined]
        for decision in sorted(_query_call_decisions(decided), key=attrgetter("pk")):
            decisions[decision.tool_call_id].append(decision)
    late_results: defaultdict[int, list[LateResult]] = defaultdict(list)
    if late_calls := [call.pk for call in rows if call.has_late_results]:  # type: ignore[attr-defined]
        for late in sorted(_query_late_results(late_calls), key=attrgetter("pk")):
            late_results[late.tool_call_id].append(late)
    return decisions, late_results


def _query_call_decisions(calls: list[int]) -> QuerySet[Decision]:
    return Decision.objects.filter(tool_call__pk__in=calls)


def _query_late_results(calls: list[int]) -> QuerySet[LateResult]:
    return _select_late_results().filter(tool_call__pk__in=calls)


@cache
def _select_late_results() -> QuerySet[LateResult]:
    return LateResult.objects.annotate(run_number=F("run__number"))


def _build_call_decision(decision: Decision) -> CallDecision:
    return CallDecision(
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


def _build_late_call_result(late: LateResult) -> LateCallResult:
    run_number: int | None = late.run_number  # type: ignore[attr-defined]
    return LateCallResult(late.success, late.result_text, run_number, late.received_at)
