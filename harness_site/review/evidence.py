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
from checkpoints.prepared import Prepared
from harness_site.accounts import trail
from harness_site.accounts.guard import MemberRequest, member
from harness_site.rendering import masking
from harness_site.review.models import EvidenceFile

#: A file whose decision was never recorded, because the process died in between, is kept no longer.
_UNUSED_FOR: Final = timedelta(days=1)
#: What stands in no text.
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
    return _files(call.pk)


@Prepared
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
    content = bytes(found.content)
    if hashlib.sha256(content).hexdigest() != found.sha256:
        raise Http404("What is stored is not the file that was given: its digest differs. It is not handed out.")
    text = _text(content) if masking.masks() else ""
    shown = masking.masked(text)
    hides = shown != text
    about = {"call_id": found.call.call_id, "file": found.pk, "masked": hides}
    trail.record(
        request.membership, AuditKind.EVIDENCE_OPENED, request=request, session_pk=found.call.session_id, **about
    )
    handed_out, name = (shown.encode(), f"masked-{found.name}") if hides else (content, found.name)
    response = HttpResponse(handed_out, content_type="application/octet-stream")
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _text(content: bytes) -> str:
    """What a text file says, in the encodings that editors write; empty for anything else."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "" if _CONTROL.search(content) else content.decode("cp1252", "replace")


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
