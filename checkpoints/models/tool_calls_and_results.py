"""Tables of tool calls, of results that arrived late, and of encoded values of results."""

from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Final

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce, Concat, Now

from checkpoints.enums import (
    APPROVAL_KINDS,
    IMPORTED_MARK,
    LIVE_CALL_STATUSES,
    LOGGED_EFFECTS,
    OPEN_CALL_STATUSES,
    UNDECIDED_CALL_STATUSES,
    UNSETTLED_CALL_STATUSES,
    CallStatus,
    DecisionKind,
    InterruptReason,
    KeyPolicy,
    KeyScope,
    Risk,
)
from checkpoints.formats.caller_argument_order import restore_argument_order_in_json
from checkpoints.formats.canonical_json import decode_json_string_or_return_text
from checkpoints.models.run import Run
from checkpoints.models.session import Session
from checkpoints.models.translated_enum_choices import build_choices
from checkpoints.models.workspace import Workspace
from checkpoints.seals.sealed_model import SealedModel

#: Beginning of the keys of calls that a framework's own interrupt asks people about.
INTERRUPT_KEY_PREFIX = "framework-interrupt:"
#: Name of the tool that stands for a framework's interrupt which is about no tool.
INTERRUPT_TOOL = "interrupt"
#: Condition of the calls of which `ToolCall.is_question` is true.
IS_QUESTION = models.Q(
    tool=INTERRUPT_TOOL,
    idempotency_key=Concat(models.Value(INTERRUPT_KEY_PREFIX), "call_id", models.Value(":0")),
)
#: Calls that a fork has copied from its original, where they are counted and listed. An attempt that replaces one has
#: run in the fork. `ToolCall.is_copied` says the same about one that is loaded.
COPIED_CALLS: Final = models.Q(step__lt=0, supersedes=None)
#: Completed calls that the original of a fork made after the forked version. If the fork makes the same calls, it gets
#: their stored results, and then they have a version with the answer.
COPIED_CALLS_AFTER_FORK: Final = (
    COPIED_CALLS & models.Q(status=CallStatus.COMPLETED, answered_version=None) & ~models.Q(side_effects=IMPORTED_MARK)
)
#: Calls with a side effect, which are logged before they run; `ToolCall.has_side_effects` says the same about one.
MUTATING_CALLS: Final = reduce(or_, (Q(side_effects__contains=effect) for effect in sorted(LOGGED_EFFECTS)))
#: Calls that returned the output of a shell command which failed; `is_failed_command` tells the same about one.
FAILED_COMMANDS: Final = models.Q(status=CallStatus.COMPLETED) & (Q(exit_code__lt=0) | Q(exit_code__gt=0))
_LIVE_STATUSES = sorted(LIVE_CALL_STATUSES)
_UNDECIDED_STATUSES = sorted(UNDECIDED_CALL_STATUSES)
_UNSETTLED_STATUSES = sorted(UNSETTLED_CALL_STATUSES)
_OPEN_STATUSES = sorted(OPEN_CALL_STATUSES)


class ToolCall(SealedModel):
    """One attempt at one call. (session, step, call_id) names the call, `attempt` counts from 1.

    Written before the tool runs and settled after. `args` is canonical JSON text, `args_digest` its digest in
    hex. `revision` grows with every change, and a decision names the revision it was made on.
    """

    counted_in_head = True
    sealed_fields = (
        "workspace",
        "session",
        "run",
        "step",
        "call_id",
        "attempt",
        "supersedes",
        "tool",
        "args",
        "args_digest",
        "asked_args_digest",
        "idempotency_key",
        "key_scope",
        "key_policy",
        "side_effects",
        "risk",
        "sentence",
        "sentence_template",
        "approvals",
        "decide_within",
        "allowed_decisions",
        "verifiable",
        "verify_requested_by",
        "issued_at",
        "status",
        "reason",
        "result",
        "result_digest",
        "error_type",
        "error_message",
        "revision",
        "interrupted_at",
        "settled_at",
        "answered_version",
        "replay_count",
        "id",
    )
    stable_sealed_fields = 24
    revision_without_key = 1
    unsealed_fields = {
        "args_order": "how the arguments are shown; they themselves are sealed",
        "exit_code": "found in the result, which is sealed, for lists and sums; the page of the call reads the result",
        "row_seal": "the seal itself",
    }

    workspace = models.ForeignKey(Workspace, on_delete=models.PROTECT, related_name="+", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="tool_calls", db_index=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls", db_index=False)
    step = models.BigIntegerField()
    call_id = models.CharField(max_length=255)
    attempt = models.IntegerField(default=1)
    supersedes = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)

    tool = models.CharField(max_length=200)
    args = models.TextField()
    args_digest = models.CharField(max_length=64)
    #: Names of the arguments in the order of the caller, as a JSON list; empty if `args` has them in that order.
    args_order = models.TextField(blank=True, default="", db_default="")
    #: Digest of the arguments the call was requested with, if a person has changed them since; else empty.
    asked_args_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    idempotency_key = models.CharField(max_length=255)
    key_scope = models.CharField(max_length=10, choices=build_choices(KeyScope), default=KeyScope.SESSION)
    #: Policy that made the key; empty if a program gave the key itself.
    key_policy = models.CharField(
        max_length=10, choices=build_choices(KeyPolicy), blank=True, default="", db_default=""
    )
    #: First version whose transcript has the result of this call; NULL while no saved version has it.
    answered_version = models.BigIntegerField(null=True)
    #: Comma-separated, sorted: `mutate`, `write`, or any word the tool declares.
    side_effects = models.CharField(max_length=200)
    #: Risk that the tool declares; see `enums.get_default_risk` for one that declares none.
    risk = models.CharField(max_length=6, choices=build_choices(Risk), default=Risk.MEDIUM, db_default=Risk.MEDIUM)
    #: Description of the call's effect, formatted by the tool from its arguments.
    sentence = models.TextField(blank=True)
    #: Format string that made the sentence, of calls whose arguments a person may change; else empty.
    sentence_template = models.TextField(blank=True, default="", db_default="")
    #: Number of people who have to agree on a decision, and their time limit; later, only an admin may decide.
    approvals = models.SmallIntegerField(default=1)
    decide_within = models.DurationField(null=True)
    #: Comma-separated kinds of the decisions that the framework which asked accepts; empty if it accepts all.
    allowed_decisions = models.CharField(max_length=40, blank=True, default="", db_default="")
    #: Whether the tool has a hook that can find out if the effect landed.
    verifiable = models.BooleanField(default=False)

    status = models.CharField(max_length=20, choices=build_choices(CallStatus), default=CallStatus.ISSUED)
    reason = models.CharField(max_length=20, choices=build_choices(InterruptReason), blank=True)
    #: Canonical JSON text of what the agent gets as the answer, so that every character survives; NULL means that there
    #: is none.
    result = models.TextField(null=True)  # noqa: DJ001
    #: Digest of the result, and of the message of the error if there is one; see `digests.digest_outcome`.
    result_digest = models.CharField(max_length=64, blank=True)
    #: Exit code that the result of a shell command states, by `shell_command_exit_codes.find_exit_code`. NULL for other
    #: calls, and for one that a person answered instead of the tool.
    exit_code = models.BigIntegerField(null=True)
    error_type = models.CharField(max_length=200, blank=True)
    #: Message of the error that the tool raised. Nothing changes it afterwards: it is evidence for who decides.
    error_message = models.TextField(blank=True, default="", db_default="")
    replay_count = models.IntegerField(default=0, db_default=0)
    revision = models.IntegerField(default=1, db_default=1)
    verify_requested_by = models.CharField(max_length=255, blank=True)

    issued_at = models.DateTimeField(db_default=Now())
    interrupted_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["session", "step", "call_id", "attempt"], name="call_attempt"),
            models.UniqueConstraint(
                fields=["session", "idempotency_key"],
                condition=Q(status__in=_LIVE_STATUSES, key_scope=KeyScope.SESSION),
                name="one_live_call_per_key",
            ),
            models.UniqueConstraint(
                fields=["workspace", "idempotency_key"],
                condition=Q(status__in=_LIVE_STATUSES, key_scope=KeyScope.WORKSPACE),
                name="one_live_call_per_workspace_key",
            ),
        )
        indexes = (
            models.Index(fields=["workspace", "-issued_at", "-id"], name="call_newest"),
            models.Index(
                "workspace",
                "status",
                Coalesce("interrupted_at", "issued_at"),
                "id",
                condition=Q(status__in=_UNDECIDED_STATUSES),
                name="call_undecided",
            ),
            models.Index(
                fields=["workspace", "status", "decide_within"],
                condition=Q(status__in=_UNDECIDED_STATUSES, decide_within__isnull=False),
                name="call_with_deadline",
            ),
            models.Index(
                fields=["workspace", "interrupted_at"],
                condition=Q(status__in=_UNSETTLED_STATUSES),
                name="call_unsettled",
            ),
            models.Index(
                fields=["workspace", "tool", "interrupted_at", "id"],
                condition=Q(interrupted_at__isnull=False),
                name="call_interrupted",
            ),
            models.Index(
                fields=["session"],
                condition=Q(status__in=_OPEN_STATUSES),
                name="call_open",
            ),
            models.Index(
                fields=["session", "key_policy"],
                condition=Q(answered_version__isnull=True),
                name="call_unanswered",
            ),
        )

    def __str__(self) -> str:
        return f"{self.tool} ({self.call_id})"

    @property
    def is_imported(self) -> bool:
        """Whether the call was read from a transcript: no run of this library ran it."""
        return self.side_effects == IMPORTED_MARK

    @property
    def is_copied(self) -> bool:
        """Whether a fork has copied this call from its original: no run of the fork has started it."""
        return self.step < 0 and self.supersedes_id is None

    @property
    def args_json_in_caller_order(self) -> str:
        """Arguments as JSON text in the order of the caller, to be read; `args` is what counts."""
        return restore_argument_order_in_json(self.args, self.args_order)

    @property
    def has_side_effects(self) -> bool:
        return bool(LOGGED_EFFECTS & set(self.side_effects.split(",")))

    @property
    def is_framework_interrupt(self) -> bool:
        """Whether a framework's own interrupt asks people: its agent resumes by the framework, not by this library."""
        return self.idempotency_key.startswith(INTERRUPT_KEY_PREFIX)

    @property
    def is_question(self) -> bool:
        """Whether a framework's interrupt asks for a value: no tool runs, whatever people decide."""
        return self.tool == INTERRUPT_TOOL and self.idempotency_key == f"{INTERRUPT_KEY_PREFIX}{self.call_id}:0"

    @property
    def undecided(self) -> bool:
        """Whether a person has to decide."""
        return self.status in UNDECIDED_CALL_STATUSES

    @property
    def has_changed_args(self) -> bool:
        """Whether the arguments differ from those that the agent asked for, because people have changed them."""
        return self.asked_args_digest not in {"", self.args_digest}

    def list_allowed_approval_decisions(self) -> list[DecisionKind]:
        """List the kinds of decisions about this call before it runs. None if it does not await an approval.

        A framework that allows an edit gets the approval of changed arguments as one.
        """
        if self.status != CallStatus.AWAITING_APPROVAL:
            return []
        if not self.allowed_decisions:
            return list(APPROVAL_KINDS)
        allowed = set(self.allowed_decisions.split(","))
        if self.has_changed_args and DecisionKind.EDIT in allowed:
            allowed.add(DecisionKind.APPROVE)
        return [kind for kind in APPROVAL_KINDS if kind in allowed]

    @property
    def deadline(self) -> datetime | None:
        """Latest time of an approver's decision; None if none is awaited or there is no limit."""
        return compute_decision_deadline(self.status, self.issued_at, self.interrupted_at, self.decide_within)

    @property
    def result_text(self) -> str | None:
        """Result as the tool returned it; None while there is none."""
        return None if self.result is None else decode_json_string_or_return_text(self.result)


def compute_decision_deadline(
    status: str, issued_at: datetime, interrupted_at: datetime | None, decide_within: timedelta | None
) -> datetime | None:
    """Return the latest time of an approver's decision about a call; None if none is awaited or there is no limit."""
    if decide_within is None or status not in UNDECIDED_CALL_STATUSES:
        return None
    since = interrupted_at if status == CallStatus.INTERRUPTED else issued_at
    if since is None:
        return None
    try:
        return since + decide_within
    except OverflowError:  # beyond the largest datetime
        return datetime.max.replace(tzinfo=UTC)


def is_failed_command(status: str, exit_code: int | None) -> bool:
    """Return whether a call with this status and exit code returned the output of a shell command that failed."""
    return status == CallStatus.COMPLETED and bool(exit_code)


class LateResult(SealedModel):
    """Result that came too late to count: kept as evidence, shown to the people who decide."""

    counted_in_head = True
    sealed_fields = (
        "session",
        "tool_call",
        "run",
        "success",
        "result",
        "received_at",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; the call, the run and the time are sealed",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+", db_index=False)
    tool_call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="late_results")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    success = models.BooleanField()
    result = models.TextField(null=True)  # noqa: DJ001
    received_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"late result of {self.tool_call_id}"

    @property
    def result_text(self) -> str | None:
        return None if self.result is None else decode_json_string_or_return_text(self.result)


class CallValue(SealedModel):
    """Value of a completed call as its tool returned it, beside the text for the model.

    `content` are bytes of the encoder that the tool or its adapter chose, and `type` the name of their format.
    """

    counted_in_head = True
    sealed_fields = (
        "session",
        "tool_call",
        "type",
        "content",
    )
    unsealed_fields = {
        "id": "chosen by the database at the insert; what a row is called is sealed",
        "row_seal": "the seal itself",
    }

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+", db_index=False)
    tool_call = models.OneToOneField(ToolCall, on_delete=models.CASCADE, related_name="value")
    type = models.CharField(max_length=40)
    content = models.BinaryField()

    class Meta:
        indexes = (models.Index(fields=["session"], name="value_of_session"),)

    def __str__(self) -> str:
        return f"value of {self.tool_call_id}"
