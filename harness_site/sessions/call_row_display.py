"""Lines of the lists of calls, with most displayed values, masked for the reader.

They are computed here and not in the template, which would take several times as long for a page of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from checkpoints.enums import CallStatus
from checkpoints.formats.shell_command_exit_codes import is_shell_command_tool
from checkpoints.models.run import FORK_RUN_NUMBER
from harness_site.core import formatting, masked_formatting
from harness_site.core.call_sentences import mask_and_format_tool_name, summarize_call
from harness_site.core.masking.masker import (
    mask_values_of_secret_fields_in_context,
    use_masking_rules_with_extra_values,
)
from harness_site.core.rendering.fast_format_html import build_html
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.rendering.text_shortening import shorten_text
from harness_site.core.unreadable_rows_and_quarantine import (
    UnreadableRecord,
    convert_rows_or_mark_unreadable,
)
from harness_site.sessions import money_and_count_formatting, session_and_call_status_chips
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.workspace_call_log import LoggedCall
from harness_site.sessions.session_and_call_links import SessionLinks
from harness_site.sessions.tool_views import file_change_parsing, file_edits
from harness_site.sessions.tool_views.diff_lines import count_added_and_removed_lines
from harness_site.sessions.tool_views.tool_view_registry import list_view_builders_of_tool
from harness_site.sessions.tool_views.tool_view_types import remove_error_tag
from harness_site.templatetags.harness_tags import allow_line_breaks_in_name, render_relative_deadline, render_time

#: Largest number of characters of a sentence, of a call id, and of the name of a session.
_LONGEST_SENTENCE: Final = 160
_LONGEST_CALL_ID: Final = 60
_LONGEST_SESSION_NAME: Final = 100
#: Largest number of characters of the id of the original of a fork, beside each call.
_LONGEST_ORIGIN: Final = 40
#: Largest number of characters of arguments whose changed lines are counted.
_LONGEST_COUNTED_CHANGE: Final = 20_000
#: View of a tool that changes one file → reader of its arguments.
_CHANGE_PARSERS: Final = {
    file_edits.build_edit_view: file_change_parsing.parse_edit_arguments,
    file_edits.build_write_view: file_change_parsing.parse_write_arguments,
}
#: Largest number of characters of an error, which stands on one line.
_LONGEST_ERROR: Final = 140


@dataclass(frozen=True, slots=True)
class CallLine:
    """A line of a list of calls.

    `sentence` says what the call does: in the words of its tool, else made from its name and short arguments. `whole`,
    `folder` and `whole_folder` are as in `CallSummary`. `changed_lines` is how many lines of a file the call adds and
    removes, as in `+3 −1`; empty if it does not say.
    """

    pk: int
    record: CallRecord
    css_class: str
    address: str
    tool: SafeString
    call_id: str
    sentence: str
    whole: str
    folder: str
    whole_folder: str
    changed_lines: str
    status_shape: str
    status: str
    status_reason: str
    error: str
    logged: SafeString
    due: SafeString | str
    repeats: str
    run: str
    duration: str

    @property
    def has_decisions_or_late_results(self) -> bool:
        """Return whether somebody has decided on the call, or reported its result late."""
        return bool(self.record.rulings or self.record.late)


@dataclass(frozen=True, slots=True)
class WorkspaceCallLine:
    """A line of the list of the calls of all sessions."""

    pk: int
    call: CallLine
    session_pk: int
    session_address: str
    session_name: str
    agent: str


def build_session_call_lines(
    session_pk: int,
    records: Collection[CallRecord],
    original_runs: Mapping[int, int] | None = None,
    origin_id: str | None = None,
    *,
    has_times: bool = True,
) -> list[CallLine | UnreadableRecord]:
    """Build the lines of the calls of one session, whose secrets are masked until the response.

    `original_runs` and `origin_id` are as in `format_run_of_call`. Without `has_times`, the calls have those of an
    import.
    """
    build_line = _make_call_line_builder(SessionLinks(), original_runs, origin_id, has_times=has_times)
    return convert_rows_or_mark_unreadable(records, lambda record: build_line(session_pk, record), "call")


def build_workspace_call_lines(
    rows: Collection[LoggedCall | UnreadableRecord], secrets: Mapping[int, Collection[str]]
) -> list[WorkspaceCallLine | UnreadableRecord]:
    """Build the lines of calls of several sessions.

    `secrets` is the result of `mask_argument_secrets_throughout_session.load_known_secrets_of_sessions`.
    """
    urls = SessionLinks()
    build_call_line = _make_call_line_builder(urls)

    def build_line(row: LoggedCall) -> WorkspaceCallLine:
        args = masked_formatting.parse_json_or_text(row.record.args)
        with (
            use_masking_rules_with_extra_values(secrets.get(row.session_pk, ())),
            mask_values_of_secret_fields_in_context(args),
        ):
            call = build_call_line(row.session_pk, row.record)
            return WorkspaceCallLine(
                pk=row.pk,
                call=call if row.has_times else replace(call, logged=SafeString("")),
                session_pk=row.session_pk,
                session_address=urls.build_session_url(row.session_pk),
                session_name=shorten_text(mask_and_reveal_hidden(row.session_name), _LONGEST_SESSION_NAME),
                agent=mask_and_reveal_hidden(row.agent),
            )

    return convert_rows_or_mark_unreadable(rows, build_line, "call", attrgetter("session_pk"))


def format_run_of_call(record: CallRecord, original_runs: Mapping[int, int], origin_id: str | None) -> str:
    """Return the name of the run that made a call, or that none did: a framework's transcript had it.

    Of a call that a fork has copied, it is a run of the original: `origin_id` is the id of that session, None if it is
    deleted, and `original_runs` has the numbers of the runs by key of the copy.
    """
    if not record.is_copied and record.run_number <= FORK_RUN_NUMBER:
        return _("outside of a run")
    if not record.is_copied:
        return _("run %(number)s") % {"number": record.run_number}
    if origin_id is None:
        return _("a run of the original")
    origin = shorten_text(mask_and_reveal_hidden(origin_id), _LONGEST_ORIGIN)
    number = original_runs.get(record.pk)
    if number is None:
        return _("from %(session)s") % {"session": origin}
    return _("run %(number)s of %(session)s") % {"number": number, "session": origin}


def _make_call_line_builder(
    urls: SessionLinks,
    original_runs: Mapping[int, int] | None = None,
    origin_id: str | None = None,
    *,
    has_times: bool = True,
) -> Callable[[int, CallRecord], CallLine]:
    """Return the function that builds a line; the words that all lines share are looked up once."""
    requested, logged = (conditional_escape(text) for text in (_("requested %(issued_at)s"), _("logged %(issued_at)s")))
    question = conditional_escape(_("Question"))

    def build_line(session_pk: int, record: CallRecord) -> CallLine:
        shape, status = session_and_call_status_chips.get_call_record_shape_and_label(record)
        when = (requested if record.has_not_run else logged) % {"issued_at": render_time(record.issued_at)}
        duration = record.duration
        # A shell command stands by itself, as in the transcript: its tool stands below.
        summary = summarize_call(record, is_beside_tool_name=is_shell_command_tool(record.tool))
        return CallLine(
            pk=record.pk,
            record=record,
            css_class="unknown" if record.status == CallStatus.INTERRUPTED else "waits" if record.is_undecided else "",
            address=urls.build_call_url(session_pk, record.pk),
            tool=question if record.is_question else _render_tool_name(record.tool),
            call_id=shorten_text(mask_and_reveal_hidden(record.call_id), _LONGEST_CALL_ID),
            sentence=shorten_text(summary.sentence, _LONGEST_SENTENCE),
            whole=summary.whole or (summary.sentence if len(summary.sentence) > _LONGEST_SENTENCE else ""),
            folder=summary.folder,
            whole_folder=summary.whole_folder,
            changed_lines=_format_changed_line_counts(record),
            status_shape=shape,
            status=status,
            status_reason=session_and_call_status_chips.explain_origin_of_status(record),
            error=masked_formatting.mask_and_shorten_output_to_one_line(remove_error_tag(record.error), _LONGEST_ERROR),
            logged=mark_safe(when if has_times else ""),  # noqa: S308 - escaped above
            due=render_relative_deadline(record.deadline) if record.deadline else "",
            repeats=_format_attempt_and_replays(record),
            run=format_run_of_call(record, original_runs or {}, origin_id),
            duration="–" if duration is None else formatting.format_duration(duration.total_seconds()),
        )

    return build_line


def _format_changed_line_counts(record: CallRecord) -> str:
    """Format how many lines of a file a call adds and removes, as its view in the transcript does."""
    if len(record.args) > _LONGEST_COUNTED_CHANGE:
        return ""
    parsers = [_CHANGE_PARSERS[build] for build in list_view_builders_of_tool(record.tool) if build in _CHANGE_PARSERS]
    args = masked_formatting.parse_json_or_text(record.args) if parsers else None
    if not isinstance(args, dict):
        return ""
    change = next((change for parse in parsers if (change := parse(args)) is not None), None)
    if change is None:
        return ""
    counts = [count_added_and_removed_lines(hunk.old, hunk.new) for hunk in change.hunks]
    return f"+{sum(added for added, _removed in counts)} −{sum(removed for _added, removed in counts)}"


def _render_tool_name(name: str) -> SafeString:
    return build_html(
        '<span class="mono tool" title="{}">{}</span>',
        mask_and_reveal_hidden(name),
        allow_line_breaks_in_name(mask_and_format_tool_name(name)),
    )


def _format_attempt_and_replays(record: CallRecord) -> str:
    """Format the number of a later attempt, and how often its stored result was given; mostly empty."""
    parts = [_("attempt %(number)s") % {"number": record.attempt}] if record.attempt > 1 else []
    if record.replays:
        sentence = (
            ngettext("stored result given %(shown)s time", "stored result given %(shown)s times", record.replays)
            if record.is_question
            else ngettext(
                "stored result given %(shown)s time, the tool did not run again",
                "stored result given %(shown)s times, the tool did not run again",
                record.replays,
            )
        )
        parts.append(sentence % {"shown": money_and_count_formatting.format_count(record.replays)})
    return " · ".join(parts)
