"""Files as evidence: kept with the call they are about, and given out as nothing but bytes."""

from __future__ import annotations

import codecs
import hashlib
import re
from datetime import timedelta
from typing import Any, Final

from django.core.files.uploadedfile import UploadedFile
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import Http404, HttpResponse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from checkpoints import clock
from checkpoints.enums import AuditKind, Role
from checkpoints.models import Decision, ToolCall
from harness_site.accounts import call_secrets, trail
from harness_site.accounts.guard import MemberRequest, member
from harness_site.rendering import masking
from harness_site.rendering.file_names import file_name
from harness_site.review.models import EvidenceFile

#: A file whose decision was never recorded, because the process died in between, is kept no longer.
_UNUSED_FOR: Final = timedelta(days=1)
#: What stands in no text.
#: Encodings without a mark: which of the bytes of a character are zero in a text of Latin letters.
_WIDE: Final = (
    ("utf-32-le", (1, 2, 3), 4),
    ("utf-32-be", (0, 1, 2), 4),
    ("utf-16-le", (1,), 2),
    ("utf-16-be", (0,), 2),
)
_LEAST_WIDE: Final = 8
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def keep(call: ToolCall, file: UploadedFile[Any], *, given_by: str) -> EvidenceFile:
    """The file as a row, before the decision that names it."""
    _forget()
    content = file.read()
    return EvidenceFile.objects.create(
        call=call,
        given_by=given_by,
        name=file.name or "evidence",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        content=content,
    )


def cited(kept: EvidenceFile) -> dict[str, Any]:
    """The file as a decision names it: whoever changes one of the two is found out."""
    return {"id": kept.pk, "name": kept.name, "size": kept.size, "sha256": kept.sha256}


def of_call(call: ToolCall) -> list[EvidenceFile]:
    """The files that decisions about this call name, without their contents; one query."""
    return list(_files(call.pk))


def _files(call: int) -> QuerySet[EvidenceFile]:
    return _named(EvidenceFile.objects.filter(call=call)).defer("content").order_by("pk")


@require_GET
@member(Role.AUDITOR)
def evidence(request: MemberRequest, pk: int) -> HttpResponse:
    """Whatever it claims to be, a browser saves it and shows nothing of it. Who may not see secrets gets a copy of a
    text with those masked, under another name, because its digest is another one."""
    files = EvidenceFile.objects.filter(call__workspace=request.membership.workspace).select_related("call")
    found = _named(files).filter(pk=pk).first() if pk < 2**63 else None
    if found is None:
        raise Http404("There is no such file in this workspace.")
    call_secrets.hide(found.call.session_id)
    content = bytes(found.content)
    if hashlib.sha256(content).hexdigest() != found.sha256:
        raise Http404("What is stored is not the file that was given: its digest differs. It is not handed out.")
    text = _text(content) if masking.masks() else ""
    shown = masking.masked(text)
    hides = shown != text
    kept_name = masking.masked(found.name).replace(masking.MASK, "masked")
    about = {"call_id": found.call.call_id, "file": found.pk, "masked": hides}
    trail.record(
        request.membership, AuditKind.EVIDENCE_OPENED, request=request, session_pk=found.call.session_id, **about
    )
    handed_out, name = (shown.encode("utf-8", "replace"), f"masked-{kept_name}") if hides else (content, kept_name)
    response = HttpResponse(handed_out, content_type="application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(True, file_name(name, "evidence")) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _text(content: bytes) -> str:
    """What a text file says, in the encodings that editors write; empty for anything else."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    if encoding := _wide(content):
        return content.decode(encoding, "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "" if _CONTROL.search(content) else content.decode("cp1252", "replace")


def _wide(content: bytes) -> str:
    """The encoding of a text of two or four bytes for each character, whose mark is missing; empty for any other. In
    such a text nearly every second byte, or three of four, is zero."""
    head = content[:4096]
    if len(head) < _LEAST_WIDE or len(content) % 2:
        return ""
    for encoding, zero, width in _WIDE:
        places = [head[at::width] for at in zero]
        if all(place.count(0) > 0.6 * len(place) for place in places) and head.count(0) < 0.8 * len(head):
            return encoding
    return ""


def _named(files: QuerySet[EvidenceFile]) -> QuerySet[EvidenceFile]:
    """Those that a decision about their call names by their digest."""
    naming = Decision.objects.filter(tool_call=OuterRef("call"), evidence__contains=OuterRef("sha256"))
    return files.filter(Exists(naming))


def _forget() -> None:
    """Drop what has lost its call, and what no decision came to name."""
    calls = ToolCall.objects.filter(pk=OuterRef("call"))
    naming = Decision.objects.filter(tool_call=OuterRef("call"), evidence__contains=OuterRef("sha256"))
    old = Q(created_at__lt=clock.now() - _UNUSED_FOR) & ~Exists(naming)
    EvidenceFile.objects.filter(~Exists(calls) | old).delete()
