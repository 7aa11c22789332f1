"""Exports of one session and of the session list. Each is recorded in the audit trail before the first byte is sent."""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from django.http import FileResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from checkpoints import SyncCheckpointer
from checkpoints.archive import session_export
from checkpoints.db import clock
from checkpoints.enums import AuditKind, Role
from harness_site.accounts import load_masking_rules, record_user_audit_events, unmasking
from harness_site.accounts.permissions import MemberRequest, list_active_usernames_with_role_or_higher
from harness_site.core.masking import masker
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.streamed_downloads import (
    CSV,
    HTML,
    JSONL,
    build_download_response,
    build_streamed_page_response,
)
from harness_site.display.display_preferences import get_chosen_theme_or_empty
from harness_site.security_headers import provide_csp_nonce_to_templates
from harness_site.sessions import html_export, jsonl_export, session_list_csv_export, session_list_query_parameters
from harness_site.sessions.selectors import session_rows
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.views.transcript_pages import get_requested_transcript_version_or_404

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@require_GET
@require_member_and_handle_page_not_found
def export_session(request: MemberRequest, pk: int, form: str) -> HttpResponseBase:
    """Export a session; `form` is one of `FORMS`."""
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    if form not in FORMS:
        raise PageNotFound(
            _("Sessions cannot be exported in this format."), _("Use one of print, jsonl, html and file."), head
        )
    return FORMS[form](request, head)


@require_GET
@require_member_and_handle_page_not_found
def export_session_list(request: MemberRequest) -> HttpResponseBase:
    """Stream a CSV file of every session that matches the filters of the list."""
    workspace = request.membership.workspace_id
    filters = session_list_query_parameters.parse_session_filter(workspace, request.GET)
    matching_keys = session_list_query_parameters.find_session_pks_matching_words(workspace, request.GET)
    record_user_audit_events.record_member_event(
        request.membership,
        AuditKind.EXPORTED,
        request=request,
        what="sessions",
        filters=_format_filters_without_search_words(request),
    )
    keys = session_rows.load_matching_session_keys(workspace, filters, only=matching_keys)
    rows = session_list_csv_export.generate_csv_lines(session_rows.iterate_session_rows(workspace, keys))
    name = f"sessions-{request.membership.workspace.slug}-{clock.now():%Y-%m-%d}.csv"
    return build_download_response(rows, CSV, name, total=f"record {len(keys)}")


def _format_filters_without_search_words(request: MemberRequest) -> str:
    """Describe the filters of the list for the audit event, without the search words, which may be confidential."""
    query = request.GET.copy()
    if query.pop("q", None):
        query["q"] = "*"
    return query.urlencode(safe="*")[:300]


def _record_and_build_jsonl_export(request: MemberRequest, head: SessionHead) -> HttpResponseBase:
    _record_export_event(request, head, "jsonl")
    # Estimate: a few runs, decisions and events are added to these.
    records = head.row.messages + head.versions + head.calls
    return build_download_response(
        jsonl_export.verify_session_and_generate_jsonl_lines(head.row.pk),
        JSONL,
        _build_export_file_name(head, "jsonl"),
        total=f"record {records}",
    )


def _record_and_build_html_export(request: MemberRequest, head: SessionHead) -> HttpResponseBase:
    _record_export_event(request, head, "html")
    return build_download_response(
        html_export.verify_session_and_generate_html_pieces(
            head, zone=timezone.get_current_timezone(), language=get_language()
        ),
        HTML,
        _build_export_file_name(head, "html"),
        total=f"message {head.row.messages}",
    )


def _record_and_build_print_page(request: MemberRequest, head: SessionHead) -> HttpResponseBase:
    """Show all of the version `v`, or of the newest one, on one page for the printer. It is an export as the file is.

    The nonce of its script is made now: the policy of the response is sent before the page is rendered.
    """
    place = get_requested_transcript_version_or_404(request, head, head.stored)
    _record_export_event(request, head, "print", version=place.version)
    version = "" if place.newest else f"?v={place.version}"
    pieces = html_export.verify_session_and_generate_print_page(
        head,
        place,
        address=f"{request.build_absolute_uri(reverse('harness_sessions:session', args=[head.row.pk]))}{version}",
        printed_by=request.membership.user.get_username(),
        workspace=request.membership.workspace.name,
        theme=get_chosen_theme_or_empty(request),
        csp_nonce=str(provide_csp_nonce_to_templates(request)["csp_nonce"]),
        zone=timezone.get_current_timezone(),
        language=get_language(),
    )
    return build_streamed_page_response(pieces, HTML, f"print page of session {head.row.pk}")


def _record_and_build_archive_or_refuse(request: MemberRequest, head: SessionHead) -> HttpResponseBase:
    """Send the stored data unmasked, and record that. Members to whom secrets are masked get a page about that.

    That page leads to the confirmation of the password, and from there back with the parameter `ready`: a download
    would leave the form of the password open.
    """
    if masker.is_masking_active():
        role = Role(load_masking_rules.load_masking_settings_or_defaults(request.membership.workspace).reveal_role)
        may_unmask = unmasking.get_unmasking_state(request, request.membership).may_show
        context = {
            "head": head,
            "tab": "",
            "may": may_unmask,
            "role": role,
            "able": list_active_usernames_with_role_or_higher(request.membership.workspace, role),
        }
        return render(request, "sessions/export_masked.html", context, status=403)
    if request.GET.get("ready"):  # somebody comes back from a confirmation of the password
        return render(request, "sessions/export_masked.html", {"head": head, "tab": "", "ready": True})
    store = SyncCheckpointer(workspace=request.membership.workspace.slug).store
    with TemporaryDirectory() as folder:
        path = Path(folder) / "session"
        exported = session_export.export_session(store, head.row.session_id, path, audited=False)
        _record_export_event(request, head, "file", version=exported.version, digest=exported.digest)
        # The open file handle stays readable after its path is unlinked.
        return FileResponse(path.open("rb"), as_attachment=True, filename=_build_export_file_name(head, "session"))


FORMS: Final[dict[str, Callable[[MemberRequest, SessionHead], HttpResponseBase]]] = {
    "print": _record_and_build_print_page,
    "jsonl": _record_and_build_jsonl_export,
    "html": _record_and_build_html_export,
    "file": _record_and_build_archive_or_refuse,
}


def _record_export_event(request: MemberRequest, head: SessionHead, form: str, **more: str | int) -> None:
    kind = AuditKind.EXPORTED
    record_user_audit_events.record_member_event(
        request.membership, kind, request=request, session_pk=head.row.pk, what="session", form=form, **more
    )


def _build_export_file_name(head: SessionHead, ending: str) -> str:
    """Return a file name of characters that every operating system accepts."""
    plain = _UNFIT.sub("-", mask_and_reveal_hidden(head.row.session_id)).strip("-.")[:80] or "session"
    return f"{plain}-v{head.row.version}.{ending}"
