"""Exit codes of shell commands that failed, though their tool completed the call."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _

from checkpoints.enums import CallStatus
from checkpoints.formats.canonical_json import decode_json_string_or_return_text
from harness_site.core.rendering.fast_format_html import build_html
from harness_site.sessions.selectors import call_records
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.tool_views.shell_commands import split_output_and_exit_code
from harness_site.sessions.tool_views.tool_view_registry import is_shell_command_tool


def load_failed_exit_codes(records: Iterable[CallRecord]) -> dict[int, int]:
    """Load the exit codes other than 0 of completed calls that ran a shell command, by key of the call.

    They are read from the results as in the transcript. Long results are not loaded.
    """
    pks = [
        record.pk for record in records if record.status == CallStatus.COMPLETED and is_shell_command_tool(record.tool)
    ]
    codes = {
        pk: split_output_and_exit_code(decode_json_string_or_return_text(result))[1]
        for pk, result in call_records.load_short_results(pks).items()
    }
    return {pk: code for pk, code in codes.items() if code}


def render_failed_exit_code_or_nothing(code: int | None) -> str:
    """Render the chip that the transcript has beside a command that failed."""
    return build_html(' <span class="chip bad">{}</span>', _("exit %(code)d") % {"code": code}) if code else ""
