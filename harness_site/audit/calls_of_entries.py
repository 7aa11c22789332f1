"""Tool calls that entries of the audit trail are about, in one sentence each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from checkpoints.models import ToolCall
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
class AuditedCall:
    """A call that an entry is about. Its `sentence` says what it does, masked for the reader."""

    pk: int
    session_pk: int
    call_id: str
    step: int
    attempt: int
    sentence: str
    is_question: bool
    approvals: int


def load_calls_of_unfolded_entries(workspace_pk: int, rows: Iterable[EntryRow]) -> dict[int, AuditedCall]:
    """Map the key of each entry that has a row of its own to the call that it is about, in two queries.

    An entry is left out if it is about no call, or about one that is gone or not as it was written.
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
        return AuditedCall(
            call.pk,
            call.session_id,
            call.call_id,
            call.step,
            call.attempt,
            sentence,
            call.is_question,
            call.approvals,
        )

    calls = _query_calls(workspace_pk, session_pks, call_ids)
    genuine = [call for call in calls if row_seals.is_row_genuine_or_sealing_off(call)]
    lines = convert_rows_or_mark_unreadable(genuine, build_audited_call, "call")
    return [line for line in lines if not isinstance(line, UnreadableRecord)]


def _query_calls(workspace_pk: int, session_pks: Collection[int], call_ids: Collection[str]) -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(workspace=workspace_pk, session__in=session_pks, call_id__in=call_ids)
    calls = calls.order_by("step", "attempt")
    return calls if get_seal_keys() is not None else calls.defer("result", "error_message")


def _find_newest_call_of_entry(entry: AuditEntry, calls: Iterable[AuditedCall]) -> AuditedCall | None:
    """Find the newest call that fits the details of an entry."""
    fitting = [
        call for call in calls if all(entry.details.get(name) in (None, getattr(call, name)) for name in _CALL_DETAILS)
    ]
    return fitting[-1] if fitting else None
