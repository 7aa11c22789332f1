"""Tool calls that entries of the audit trail are about, in one sentence each, and the reasons of decisions about them.

The trail itself has neither the arguments of calls nor texts of people: both can be deleted with their session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from checkpoints.calls.sentence_templates import format_sentence_if_harmless
from checkpoints.enums import DECIDING_KINDS, UNDECIDED_CALL_STATUSES, AuditKind, DecisionKind
from checkpoints.formats import parse_json
from checkpoints.models import Decision, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.audit.folded_entry_pages import EntryRow
from harness_site.core.call_sentences import format_short_call_sentence
from harness_site.core.masked_formatting import mask_and_shorten_to_one_line
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.masker import get_masked_text_beginning, use_masking_rules_with_extra_values
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, convert_rows_or_mark_unreadable

_LONGEST_SENTENCE: Final = 80
#: Largest number of characters of a reason: the longest one that a form takes.
_LONGEST_REASON: Final = 4000
#: Time in which the entry of a decision follows it: both are written in one transaction.
TIME_UNTIL_ENTRY: Final = timedelta(minutes=1)
#: Details of an entry that tell calls with the same call id apart.
_CALL_DETAILS: Final = ("step", "attempt")


@dataclass(frozen=True, slots=True)
class SentenceBeforeEdit:
    """What a call was to do until somebody changed its arguments."""

    edited_at: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class StatedReason:
    """Reason that is stored with a decision about a call, masked for the reader."""

    kind: str
    actor: str
    actor_kind: str
    decided_at: datetime
    text: str
    final: bool


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """A call that an entry is about. Its `sentence` says what it does, masked for the reader.

    `before_edits` has the sentences of the time before each change of its arguments, the oldest first. For the entry
    of such a change, `sentence_before` says what the call was to do before. `reasons` are those of all decisions about
    the call, the oldest first. For the entry of a decision, `own` is its own.
    """

    pk: int
    session_pk: int
    call_id: str
    step: int
    attempt: int
    tool: str
    sentence: str
    is_question: bool
    approvals: int
    status: str
    before_edits: tuple[SentenceBeforeEdit, ...] = ()
    reasons: tuple[StatedReason, ...] = ()
    sentence_before: str = ""
    own: StatedReason | None = None

    @property
    def is_undecided(self) -> bool:
        """Whether a person has to decide about the call now."""
        return self.status in UNDECIDED_CALL_STATUSES

    @property
    def last_final_decision(self) -> str:
        """Kind of the last decision that needed nobody else; empty if there is none."""
        return next((reason.kind for reason in reversed(self.reasons) if reason.final), "")


def load_calls_of_unfolded_entries(workspace_pk: int, rows: Iterable[EntryRow]) -> dict[int, AuditedCall]:
    """Map the key of each entry that has a row of its own to the call that it is about, as it was at that time.

    An entry is left out if it is about no call, or about one that is gone or not as it was written. Two queries, and a
    third one if there are decisions about these calls.
    """
    entries = [
        row.newest
        for row in rows
        if not row.is_folded and not isinstance(row.newest, UnreadableRecord) and _get_call_id(row.newest)
    ]
    session_pks = {entry.session_pk for entry in entries if entry.session_pk is not None}
    calls_by_name: defaultdict[tuple[int | None, str], list[AuditedCall]] = defaultdict(list)
    call_ids = {_get_call_id(entry) for entry in entries}
    decided = {_get_call_id(entry) for entry in entries if entry.kind == AuditKind.DECIDED}
    for call in _load_genuine_calls(workspace_pk, session_pks, call_ids, decided):
        calls_by_name[call.session_pk, call.call_id].append(call)
    found = {
        entry.pk: _find_newest_call_of_entry(entry, calls_by_name[entry.session_pk, _get_call_id(entry)])
        for entry in entries
    }
    return {pk: call for pk, call in found.items() if call is not None}


def _get_call_id(entry: AuditEntry) -> str:
    """Return the id of the call that an entry is about; empty if it is about none."""
    call_id = entry.details.get("call_id")
    return call_id.replace("\0", "") if entry.session_pk is not None and isinstance(call_id, str) else ""


def _load_genuine_calls(
    workspace_pk: int, session_pks: Collection[int], call_ids: Collection[str], decided: Collection[str]
) -> list[AuditedCall]:
    """Load the intact calls with these ids, each attempt after the one before; those `decided` with their reasons."""
    if not session_pks:
        return []
    secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(session_pks)

    def build_audited_call(call: ToolCall) -> AuditedCall:
        with use_masking_rules_with_extra_values(secrets.get(call.session_id, ())):
            sentence = mask_and_shorten_to_one_line(format_short_call_sentence(call), _LONGEST_SENTENCE)
            before_edits = tuple(_iterate_sentences_before_edits(call, decisions.get(call.pk, ())))
            reasons = tuple(map(_build_stated_reason, decisions.get(call.pk, ())))
        return AuditedCall(
            call.pk,
            call.session_id,
            call.call_id,
            call.step,
            call.attempt,
            call.tool,
            sentence,
            call.is_question,
            call.approvals,
            call.status,
            before_edits,
            reasons,
        )

    calls = _query_calls(workspace_pk, session_pks, call_ids)
    genuine = [call for call in calls if row_seals.is_row_genuine_or_sealing_off(call)]
    decisions = _load_genuine_decisions(call for call in genuine if call.asked_args_digest or call.call_id in decided)
    lines = convert_rows_or_mark_unreadable(genuine, build_audited_call, "call")
    return [line for line in lines if not isinstance(line, UnreadableRecord)]


def _load_genuine_decisions(calls: Iterable[ToolCall]) -> Mapping[int, Sequence[Decision]]:
    """Load the decisions about calls that have entries, by key of the call and in their order; no query without a
    call."""
    pks = [call.pk for call in calls]
    decisions: defaultdict[int, list[Decision]] = defaultdict(list)
    if pks:
        matching_decisions = Decision.objects.filter(tool_call__in=pks, kind__in=sorted(DECIDING_KINDS))
        if get_seal_keys() is None:
            matching_decisions = matching_decisions.defer("result")
        for decision in matching_decisions.order_by(*Decision.IN_ORDER):
            if row_seals.is_row_genuine_or_sealing_off(decision):
                decisions[decision.tool_call_id].append(decision)
    return decisions


def _iterate_sentences_before_edits(call: ToolCall, decisions: Iterable[Decision]) -> Iterator[SentenceBeforeEdit]:
    """Describe a call with its arguments before each change of which they are known."""
    for decision in decisions:
        is_edit = decision.kind == DecisionKind.EDIT and decision.final
        args = get_args_json_before_edit(decision.evidence) if is_edit else None
        if args is not None:
            earlier = copy(call)
            earlier.args = args
            earlier.sentence = format_sentence_if_harmless(call.sentence_template, parse_json(args))
            sentence = mask_and_shorten_to_one_line(format_short_call_sentence(earlier), _LONGEST_SENTENCE)
            yield SentenceBeforeEdit(decision.created_at, sentence)


def _build_stated_reason(decision: Decision) -> StatedReason:
    text = mask_and_reveal_hidden(get_masked_text_beginning(decision.reason, _LONGEST_REASON))
    if len(decision.reason) > _LONGEST_REASON:
        text = f"{text}…"
    return StatedReason(decision.kind, decision.actor, decision.actor_kind, decision.created_at, text, decision.final)


def _query_calls(workspace_pk: int, session_pks: Collection[int], call_ids: Collection[str]) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(workspace=workspace_pk, session__in=session_pks, call_id__in=call_ids)
    calls = calls.order_by("step", "attempt")
    return calls if get_seal_keys() is not None else calls.defer("result", "error_message")


def _find_newest_call_of_entry(entry: AuditEntry, calls: Iterable[AuditedCall]) -> AuditedCall | None:
    """Find the newest call that fits the details of an entry, and describe it as it was at that time."""
    fitting = [
        call for call in calls if all(entry.details.get(name) in (None, getattr(call, name)) for name in _CALL_DETAILS)
    ]
    return _describe_call_at_time_of_entry(fitting[-1], entry) if fitting else None


def _describe_call_at_time_of_entry(call: AuditedCall, entry: AuditEntry) -> AuditedCall:
    edits = call.before_edits
    own = _find_reason_of_entry(call, entry) if entry.kind == AuditKind.DECIDED else None
    if entry.details.get("decision") == DecisionKind.EDIT and edits:
        index = max(sum(edit.edited_at <= entry.at for edit in edits) - 1, 0)
        after = edits[index + 1].sentence if index + 1 < len(edits) else call.sentence
        return replace(call, sentence=after, sentence_before=edits[index].sentence, own=own)
    earlier = next((edit.sentence for edit in edits if entry.at < edit.edited_at), call.sentence)
    return replace(call, sentence=earlier, own=own)


def _find_reason_of_entry(call: AuditedCall, entry: AuditEntry) -> StatedReason | None:
    """Find the reason of the decision that an entry records: of this kind and by this actor, just before the entry."""
    decided = (entry.details.get("decision"), entry.actor, entry.actor_kind)
    return next(
        (
            reason
            for reason in reversed(call.reasons)
            if (reason.kind, reason.actor, reason.actor_kind) == decided
            and timedelta(0) <= entry.at - reason.decided_at < TIME_UNTIL_ENTRY
        ),
        None,
    )
