"""Evidence files: stored with their call, downloaded as plain bytes."""

from __future__ import annotations

import codecs
import hashlib
import re
from datetime import timedelta
from functools import cache
from operator import attrgetter
from typing import Any, Final

from django.core.files.uploadedfile import UploadedFile
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpResponse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from checkpoints.db import clock
from checkpoints.enums import AuditKind, Role
from checkpoints.models import Decision, ToolCall
from checkpoints.seals import row_seals
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core.masking import mask_argument_secrets_throughout_session, masker
from harness_site.core.streamed_downloads import build_safe_file_name
from harness_site.review.models import EvidenceFile

#: Age after which a file without a recorded decision is deleted: the process died in between.
_UNUSED_FOR: Final = timedelta(days=1)
#: Encodings without a byte order mark: which bytes of a character are zero in a text of Latin letters.
_WIDE: Final = (
    ("utf-32-le", (1, 2, 3), 4),
    ("utf-32-be", (0, 1, 2), 4),
    ("utf-16-le", (1,), 2),
    ("utf-16-be", (0,), 2),
)
_LEAST_WIDE: Final = 8
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def delete_orphans_and_store_evidence_file(call: ToolCall, file: UploadedFile[Any], *, given_by: str) -> EvidenceFile:
    """Store an uploaded file, before the decision that cites it."""
    _delete_orphaned_files()
    content = file.read()
    return EvidenceFile.objects.create(
        call=call,
        given_by=given_by,
        name=file.name or "evidence",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        content=content,
    )


def build_evidence_reference(kept: EvidenceFile) -> dict[str, Any]:
    """Build the reference to a file for a decision; its digest makes later changes evident."""
    return {"id": kept.pk, "name": kept.name, "size": kept.size, "sha256": kept.sha256}


def list_evidence_files_cited_for_call(call: ToolCall) -> list[EvidenceFile]:
    """List the files that decisions about this call cite, without their contents; one query."""
    return sorted(_query_cited_evidence_files(call.pk), key=attrgetter("pk"))


def _query_cited_evidence_files(call: int) -> QuerySet[EvidenceFile]:
    return _select_cited_files().filter(call=call).defer("content")


@require_GET
@require_member_with_role(Role.AUDITOR)
def download_evidence_file(request: MemberRequest, pk: int) -> HttpResponse:
    """Download an evidence file as an attachment.

    Readers without access to secrets get a masked copy of a text file under another name, because its digest differs.
    Raises `IntegrityError` if a decision about its call was altered: a decision says which file was given.
    """
    files = _select_cited_files().filter(call__workspace=request.membership.workspace).select_related("call")
    file = files.filter(pk=pk).first() if pk < 2**63 else None
    if file is None:
        raise Http404(_("There is no such file in this workspace."))
    request.session_shown = file.call.session_id  # which is put under quarantine if it was altered
    row_seals.verify_rows(Decision.objects.filter(tool_call=file.call))
    mask_argument_secrets_throughout_session.mask_session_secrets_until_response(file.call.session_id)
    content = bytes(file.content)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise Http404(
            _("The stored file is not served, because it differs from the uploaded one: its digest does not match.")
        )
    text = _decode_text_file_or_empty(content) if masker.is_masking_active() else ""
    masked_text = masker.mask_text(text)
    is_masked = masked_text != text
    masked_name = masker.mask_text(file.name).replace(masker.MASK, "masked")
    event_details = {"call_id": file.call.call_id, "file": file.pk, "masked": is_masked}
    record_user_audit_events.record_member_event(
        request.membership, AuditKind.EVIDENCE_OPENED, request=request, session_pk=file.call.session_id, **event_details
    )
    body, name = (
        (masked_text.encode("utf-8", "replace"), f"masked-{masked_name}") if is_masked else (content, masked_name)
    )
    response = HttpResponse(body, content_type="application/octet-stream")
    response["Content-Disposition"] = (
        content_disposition_header(True, build_safe_file_name(name, "evidence")) or "attachment"
    )
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _decode_text_file_or_empty(content: bytes) -> str:
    """Decode a text file in common encodings; return an empty text for anything else."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    if encoding := _guess_utf16_or_utf32_without_bom(content):
        return content.decode(encoding, "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "" if _CONTROL.search(content) else content.decode("cp1252", "replace")


def _guess_utf16_or_utf32_without_bom(content: bytes) -> str:
    """Guess the encoding of a UTF-16 or UTF-32 text without a byte order mark; return an empty text for any other.

    In such a text of Latin letters about half, or three of four, of the bytes are zero.
    """
    head = content[:4096]
    if len(head) < _LEAST_WIDE or len(content) % 2:
        return ""
    for encoding, zero, width in _WIDE:
        columns = [head[offset::width] for offset in zero]
        if all(column.count(0) > 0.6 * len(column) for column in columns) and head.count(0) < 0.8 * len(head):
            return encoding
    return ""


@cache
def _select_cited_files() -> QuerySet[EvidenceFile]:
    """Select the files that a decision about their call cites by digest."""
    citations = Decision.objects.filter(tool_call=OuterRef("call"), evidence__contains=OuterRef("sha256"))
    return EvidenceFile.objects.filter(Exists(citations))


def _delete_orphaned_files() -> None:
    """Delete files without a call, and old files that no decision cites."""
    calls = ToolCall.objects.filter(pk=OuterRef("call"))
    citations = Decision.objects.filter(tool_call=OuterRef("call"), evidence__contains=OuterRef("sha256"))
    is_unused = Q(created_at__lt=clock.now() - _UNUSED_FOR) & ~Exists(citations)
    EvidenceFile.objects.filter(~Exists(calls) | is_unused).delete()
