"""Tool calls that entries of the audit trail are about, in one sentence each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from checkpoints.calls.sentence_templates import format_sentence_if_harmless
from checkpoints.enums import DecisionKind
from checkpoints.formats import parse_json
from checkpoints.models import Decision, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.accounts import session_secrets_from_call_arguments
from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.audit.folded_entries import EntryRow
from harness_site.core.call_sentences import format_short_call_sentence
from harness_site.core.formatting import mask_and_shorten_to_one_line
from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, convert_rows_or_mark_unreadable

_LONGEST_SENTENCE: Final = 80
#: Details of an entry that tell calls with the same call id apart.
_CALL_DETAILS: Final = ("step", "attempt")


@dataclass(frozen=True, slots=True)
class SentenceBeforeEdit:
    """What a call was to do until somebody changed its arguments."""

    edited_at: datetime
    sentence: str


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """A call that an entry is about. Its `sentence` says what it does, masked for the reader.

    `before_edits` has the sentences of the time before each change of its arguments, the oldest first. For the entry
    of such a change, `sentence_before` says what the call was to do before.
    """

    pk: int
    session_pk: int
    call_id: str
    step: int
    attempt: int
    sentence: str
    is_question: bool
    approvals: int
    before_edits: tuple[SentenceBeforeEdit, ...] = ()
    sentence_before: str = ""


def load_calls_of_unfolded_entries(workspace_pk: int, rows: Iterable[EntryRow]) -> dict[int, AuditedCall]:
    """Map the key of each entry that has a row of its own to the call that it is about, as it was at that time.

    An entry is left out if it is about no call, or about one that is gone or not as it was written. Two queries, and a
    third one if people have changed arguments of these calls.
    """
    entries = [
        row.newest
        for row in rows
        if not row.is_folded and not isinstance(row.newest, UnreadableRecord) and _get_call_id(row.newest)
    ]
    session_pks = {entry.session_pk for entry in entries if entry.session_pk is not None}
    calls_by_name: defaultdict[tuple[int | None, str], list[AuditedCall]] = defaultdict(list)
    for call in _load_genuine_calls(workspace_pk, session_pks, {_get_call_id(entry) for entry in entries}):
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
    workspace_pk: int, session_pks: Collection[int], call_ids: Collection[str]
) -> list[AuditedCall]:
    """Load the intact calls with these ids, each attempt after the one before."""
    if not session_pks:
        return []
    secrets = session_secrets_from_call_arguments.load_known_secrets_of_sessions(session_pks)

    def build_audited_call(call: ToolCall) -> AuditedCall:
        with use_masking_rules_with_extra_values(secrets.get(call.session_id, ())):
            sentence = mask_and_shorten_to_one_line(format_short_call_sentence(call), _LONGEST_SENTENCE)
            before_edits = tuple(_iterate_sentences_before_edits(call, edits.get(call.pk, ())))
        return AuditedCall(
            call.pk,
            call.session_id,
            call.call_id,
            call.step,
            call.attempt,
            sentence,
            call.is_question,
            call.approvals,
            before_edits,
        )

    calls = _query_calls(workspace_pk, session_pks, call_ids)
    genuine = [call for call in calls if row_seals.is_row_genuine_or_sealing_off(call)]
    edits = _load_genuine_edits(call for call in genuine if call.asked_args_digest)
    lines = convert_rows_or_mark_unreadable(genuine, build_audited_call, "call")
    return [line for line in lines if not isinstance(line, UnreadableRecord)]


def _load_genuine_edits(calls: Iterable[ToolCall]) -> Mapping[int, Sequence[Decision]]:
    """Load the changes of the arguments of calls, by key of the call and in their order; no query without a call."""
    pks = [call.pk for call in calls]
    edits: defaultdict[int, list[Decision]] = defaultdict(list)
    if pks:
        decisions = Decision.objects.filter(tool_call__in=pks, kind=DecisionKind.EDIT, final=True)
        for decision in decisions.order_by(*Decision.IN_ORDER):
            if row_seals.is_row_genuine_or_sealing_off(decision):
                edits[decision.tool_call_id].append(decision)
    return edits


def _iterate_sentences_before_edits(call: ToolCall, edits: Iterable[Decision]) -> Iterator[SentenceBeforeEdit]:
    """Describe a call with its arguments before each change of which they are known."""
    for edit in edits:
        args = get_args_json_before_edit(edit.evidence)
        if args is not None:
            earlier = copy(call)
            earlier.args, earlier.args_order = args, ""
            earlier.sentence = format_sentence_if_harmless(call.sentence_template, parse_json(args))
            sentence = mask_and_shorten_to_one_line(format_short_call_sentence(earlier), _LONGEST_SENTENCE)
            yield SentenceBeforeEdit(edit.created_at, sentence)


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
    if entry.details.get("decision") == DecisionKind.EDIT and edits:
        index = max(sum(edit.edited_at <= entry.at for edit in edits) - 1, 0)
        after = edits[index + 1].sentence if index + 1 < len(edits) else call.sentence
        return replace(call, sentence=after, sentence_before=edits[index].sentence)
    earlier = next((edit.sentence for edit in edits if entry.at < edit.edited_at), call.sentence)
    return replace(call, sentence=earlier)
