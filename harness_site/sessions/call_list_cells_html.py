"""HTML of cells in the lists of calls. A template takes several times as long, and a page has dozens of rows."""

from __future__ import annotations

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from harness_site.core.rendering.fast_format_html import build_html
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.sessions.call_row_display import CallLine, WorkspaceCallLine
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.templatetags.harness_tags import allow_line_breaks_in_long_words


def render_call_summary_cell(call: CallLine) -> SafeString:
    """Render what a call does, and below it its tool, id and error.

    Beside the tool stand how many lines of a file it changes, and the folder that its command changes to.
    """
    title = build_html(' title="{}"', call.whole) if call.whole else ""
    return build_html(
        '<th scope="row"><a data-row href="{}" dir="auto"{}>{}</a> <small>{}{}{} '
        '<code class="call-id" title="{}">{}</code></small>{}</th>',
        call.address,
        title,
        allow_line_breaks_in_long_words(call.sentence),
        call.tool,
        build_html(" <span>{}</span>", call.changed_lines) if call.changed_lines else "",
        _render_folder(call),
        call.call_id,
        call.call_id,
        build_html(' <small class="error" dir="auto" title="{}">{}</small>', call.error, call.error)
        if call.error
        else "",
    )


def _render_folder(call: CallLine) -> SafeString | str:
    if not call.folder:
        return ""
    name = build_html('<code title="{}">{}</code>', call.whole_folder, call.folder)
    # Translators: the folder in which a shell command runs
    return build_html(' <span class="folder">{}</span>', build_html(_("in {folder}"), folder=name))


def render_session_cell(line: WorkspaceCallLine) -> SafeString:
    return build_html(
        '<td class="of-session"><a href="{}" dir="auto">{}</a>{}</td>',
        line.session_address,
        line.session_name,
        build_html(' <small title="{}">{}</small>', line.agent, line.agent) if line.agent else "",
    )


def render_call_status_chip(call: CallLine) -> SafeString:
    return build_html('<span class="chip {}">{}</span>', call.status_shape, call.status)


def render_call_time_run_and_repeats(call: CallLine, run: str = "") -> SafeString:
    """Render when a call was logged, by which `run` in a list of one session, and how often it was repeated.

    Of a source without times, it is not known when.
    """
    return build_html(
        "<small>{}<span>{}{}</span>{}{}</small>",
        build_html("<span>{}</span> ", call.status_reason) if call.status_reason else "",
        call.logged,
        f" · {run}" if run and call.logged else run,
        build_html(' <span class="due">{}</span>', call.due) if call.due else "",
        build_html(" <span>{}</span>", call.repeats) if call.repeats else "",
    )


def render_logged_at_cell(call: CallLine, head: SessionHead, step_shift: int | None) -> SafeString:
    """Render the version at which a call was logged; of a call that a fork has copied, that of the original.

    `step_shift` is by how much the steps of copied calls are lower than those of the originals, None if it is unknown.
    """
    record = call.record
    if record.step < 0 and not record.is_copied:  # an attempt of the fork keeps the step of the call that it repeats
        return build_html('<td class="number in-version nothing" data-label="{}">–</td>', _("logged at"))
    if record.step < 0:
        return _render_origin_cell(record, head, step_shift)
    if record.step == 0:
        return build_html('<td class="number in-version" data-label="{}">{}</td>', _("logged"), _("before v1"))
    return build_html('<td class="number in-version" data-label="{}">v{}</td>', _("logged at"), record.step)


def _render_origin_cell(record: CallRecord, head: SessionHead, step_shift: int | None) -> SafeString:
    version = 0 if step_shift is None else record.step + step_shift
    is_version_known = version > 0 and head.forked_from is not None
    label = _("logged at") if is_version_known else _("logged")
    text = _("v%(number)s in the original") % {"number": version} if is_version_known else _("in the original")
    if head.forked_from is not None and head.origin_id is not None:
        text = build_html(
            '<a href="{}{}" title="{}">{}</a>',
            reverse("harness_sessions:session", args=[head.forked_from]),
            f"?v={version}" if is_version_known else "",
            mask_and_reveal_hidden(head.origin_id),
            text,
        )
    return build_html('<td class="number in-version of-original" data-label="{}">{}</td>', label, text)


def render_call_duration_cell(call: CallLine, label: str) -> SafeString:
    """Render the duration of a call; `label` names it where the list has no head."""
    return build_html(
        '<td class="number time-cell{}" data-label="{}">{}</td>',
        " nothing" if call.record.duration is None else "",
        label,
        call.duration,
    )
