"""CSV export of the list of tool calls."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from django.urls import reverse
from django.utils import translation

from checkpoints.enums import HOOK_KINDS, CallStatus, DecisionKind, InterruptReason
from checkpoints.exceptions import InvalidInput
from checkpoints.formats import to_canonical_json
from checkpoints.models.translated_enum_choices import build_choices
from harness_site.core import csv_rows, formatting, masked_formatting
from harness_site.core.call_sentences import format_short_call_sentence
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.masker import (
    mask_json_value,
    mask_values_of_secret_fields_in_context,
    use_masking_rules_with_extra_values,
)
from harness_site.core.rendering import json_tree
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.core.status_and_decision_labels import get_decision_shape_and_label
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, filter_out_unreadable_records
from harness_site.sessions.selectors.call_records import CallDecision, CallRecord
from harness_site.sessions.selectors.workspace_call_log import LoggedCall
from harness_site.sessions.session_and_call_status_chips import get_call_record_shape_and_label
from harness_site.site_address import build_absolute_url

HEAD: Final = (
    "call",
    "what_it_does",
    "tool",
    "session",
    "agent",
    "status",
    "reason",
    "error",
    "exit_code",
    "attempt",
    "replays",
    "logged",
    "interrupted",
    "settled",
    "duration_seconds",
    "last_decision",
    "decided_by",
    "recorded_status",
    "page",
    "arguments",
    "decided_at",
    "decision_reason",
    "approvers",
    "decision_reasons",
    "copied",
    "status_on_page",
    "reason_on_page",
    "last_decision_on_page",
)
#: Status of the calls that have not happened in a fork, because its original made them after the forked version.
_STATUS_IN_ORIGINAL: Final = "in_original"
#: Largest number of characters of the arguments of a call; a spreadsheet has cells of 32,767.
_LONGEST_ARGUMENTS: Final = 10_000
_APPROVING_KINDS: Final = frozenset({DecisionKind.APPROVE, DecisionKind.APPROVE_RERUN})


def generate_csv_lines(pages: Iterable[Sequence[LoggedCall | UnreadableRecord]]) -> Iterator[str]:
    """Yield the header and one line for each call; the last line is marked."""
    return csv_rows.add_export_column_marking_last_row(_generate_lines(pages))


def _generate_lines(pages: Iterable[Sequence[LoggedCall | UnreadableRecord]]) -> Iterator[str]:
    yield csv_rows.mask_and_format_csv_line(HEAD)
    for rows in pages:
        calls = filter_out_unreadable_records(rows)
        secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(
            {row.session_pk for row in calls}
        )
        for row in rows:
            yield _format_line(row, secrets)


def _format_line(row: LoggedCall | UnreadableRecord, secrets: Mapping[int, Collection[str]]) -> str:
    if isinstance(row, UnreadableRecord):
        return csv_rows.mask_and_format_csv_line(csv_rows.build_unreadable_row_cells(row, HEAD))
    args = masked_formatting.parse_json_or_text(row.record.args)
    with (
        use_masking_rules_with_extra_values(secrets.get(row.session_pk, ())),
        mask_values_of_secret_fields_in_context(args),
    ):
        return csv_rows.mask_and_format_csv_line(_build_cells(row, args))


def _build_cells(row: LoggedCall, args: Any) -> tuple[str, ...]:
    """Build the cells of a call; those of what is not known or did not happen are empty.

    A shell command that ended with an error is failed, as in the list and its filter, although its tool completed the
    call, which `recorded_status` says. So it does of calls that only the original of a fork has made.
    """
    record = row.record
    decision = next((ruling for ruling in reversed(record.rulings) if ruling.final), None)
    # Programs read the cells, so they are English in every language of the reader.
    with translation.override("en"):
        sentence = format_short_call_sentence(record)
        words = _list_words_on_page(record, decision)
    times = (record.issued_at, record.interrupted_at, record.settled_at) if row.has_times else (None, None, None)
    return (
        record.call_id,
        sentence,
        record.tool,
        row.session_id,
        row.agent,
        _get_status_on_page(record),
        record.reason,
        record.error_type,
        "" if record.exit_code is None else str(record.exit_code),
        str(record.attempt),
        str(record.replays),
        *("" if time is None else formatting.format_iso_time(time) for time in times),
        "" if record.duration is None else f"{record.duration.total_seconds():.6f}",
        "" if decision is None else decision.kind,
        "" if decision is None else decision.actor,
        record.status,
        build_absolute_url(reverse("harness_sessions:session-call", args=(row.session_pk, row.pk))),
        shorten_text(_mask_and_format_arguments(args), _LONGEST_ARGUMENTS),
        "" if decision is None else formatting.format_iso_time(decision.at),
        "" if decision is None else decision.reason,
        ", ".join(_list_approvers(record.rulings)),
        "; ".join(f"{ruling.actor} ({ruling.kind}): {ruling.reason}" for ruling in record.rulings if ruling.reason),
        "yes" if record.is_copied else "",
        *words,
    )


def _list_words_on_page(record: CallRecord, decision: CallDecision | None) -> tuple[str, str, str]:
    """Return the words of the pages for the status of a call, for the reason of an interruption and for a decision."""
    return (
        get_call_record_shape_and_label(record)[1],
        str(dict(build_choices(InterruptReason)).get(record.reason, record.reason)),
        ""
        if decision is None
        else get_decision_shape_and_label(decision.kind, about_question=record.is_question, about_changed_value=False)[
            1
        ],
    )


def _get_status_on_page(record: CallRecord) -> str:
    if record.is_copied_after_fork:
        return _STATUS_IN_ORIGINAL
    return CallStatus.FAILED if record.is_failed_command else record.status


def _mask_and_format_arguments(args: Any) -> str:
    """Format arguments as canonical JSON, with secrets masked."""
    try:
        return to_canonical_json(mask_json_value(args))
    except InvalidInput:  # e.g. a text that no JSON can have, in a row that was altered
        return json_tree.mask_and_dump_json(args)


def _list_approvers(rulings: Iterable[CallDecision]) -> list[str]:
    """List the names of the people whose agreement allowed the call to run, the last time; empty if none did.

    Each person has one vote, which a later one replaces. A change of the arguments ends the votes, and a withdrawal
    also the approval.
    """
    votes: dict[str, str] = {}
    approvers: list[str] = []
    for ruling in rulings:
        if ruling.kind in HOOK_KINDS:
            continue
        votes.pop(ruling.actor, None)
        if not ruling.final and ruling.kind != DecisionKind.WITHDRAW:
            votes[ruling.actor] = ruling.kind
        elif ruling.final and ruling.kind in _APPROVING_KINDS:
            approvers = [*(actor for actor, kind in votes.items() if kind == ruling.kind), ruling.actor]
        elif ruling.final and ruling.kind == DecisionKind.WITHDRAW:
            approvers = []
        if ruling.final or ruling.kind == DecisionKind.EDIT:
            votes.clear()
    return approvers
